"""The OpenAPI document, made from the endpoints, and a page that shows it."""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec

from armrace.service.defaults import DEFAULT_TENANT
from armrace.service.http.endpoints import ENDPOINTS, Endpoint
from armrace.service.http.problems import Problem

__all__ = ["make_document", "make_page"]

_REFERENCES = "#/components/schemas/{name}"
_REFUSALS = {
    "401": "No valid key",
    "403": "The key does not have the scope",
    "404": "There is no such experiment, arm or decision",
    "409": "In conflict with what is there",
    "410": "The window has closed",
    "408": "The body did not come in time",
    "413": "The body is too large",
    "415": "The body is not declared as JSON",
    "422": "Invalid",
    "429": "Too often; try again",
    "500": "A defect of the service",
    "503": "The store cannot be used now, or too much waits; try again",
}


def make_document(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of this version of the package."""
    types = [each.answer for each in ENDPOINTS] + [each.body for each in ENDPOINTS if each.body]
    schemas, components = msgspec.json.schema_components(
        [*types, Problem], ref_template=_REFERENCES
    )
    answers, rest = schemas[: len(ENDPOINTS)], iter(schemas[len(ENDPOINTS) : -1])
    paths: dict[str, Any] = {}
    for endpoint, answer in zip(ENDPOINTS, answers, strict=True):
        body = next(rest) if endpoint.body else None
        operation = _operation(endpoint, answer, body, schemas[-1])
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "armrace", "version": version},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(endpoint: Endpoint, answer: Any, body: Any, problem: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "description": _needs(endpoint),
        "operationId": re.sub(r"\W+", "_", f"{endpoint.method}{endpoint.path}").lower(),
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", endpoint.path)
        ]
        + [
            {
                "name": each.name,
                "in": "query",
                "description": each.summary,
                "schema": each.schema,
            }
            for each in endpoint.query
        ],
        "responses": {
            str(endpoint.status): {
                "description": "Done, and durable",
                "content": {media: {"schema": answer} for media in endpoint.media},
            },
            **{
                status: {
                    "description": words,
                    "content": {"application/json": {"schema": problem}},
                }
                for status, words in _REFUSALS.items()
            },
        },
    }
    if body is not None:
        found["requestBody"] = {
            "required": any(each.required for each in msgspec.structs.fields(endpoint.body)),
            "content": {"application/json": {"schema": body}},
        }
    return found


def _needs(endpoint: Endpoint) -> str:
    whose = f" and a key of the operator's tenant, {DEFAULT_TENANT}" if endpoint.operator else ""
    return f"Needs the scope {endpoint.scope}{whose}."


def make_page() -> str:
    """Return a page with all endpoints, without scripts."""
    rows = "".join(
        f"<tr><td>{each.method}</td><td><code>{html.escape(each.path)}</code></td>"
        f"<td>{html.escape(each.summary)}</td><td>{each.scope}</td></tr>"
        for each in ENDPOINTS
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'><title>armrace</title>"
        "<h1>armrace</h1><p>The whole document is <a href='openapi.json'>openapi.json</a>.</p>"
        "<table><thead><tr><th>method<th>address<th>what it does<th>scope</tr></thead>"
        f"<tbody>{rows}</tbody></table></html>"
    )
