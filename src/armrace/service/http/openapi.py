"""The OpenAPI document, made from the endpoints, and a page that shows it."""

from __future__ import annotations

import html
from typing import Any

import msgspec

from armrace.service.exports import FORMATS
from armrace.service.http.endpoints import ENDPOINTS, EVENTS, Endpoint
from armrace.service.http.problems import Problem
from armrace.service.keyring import DEFAULT_TENANT

_ALL = (*ENDPOINTS, EVENTS)
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
    types = [_answer_of(each) for each in _ALL] + [each.rest for each in _ALL] + [Problem]
    schemas, components = msgspec.json.schema_components(types, ref_template=_REFERENCES)
    paths: dict[str, Any] = {}
    for place, endpoint in enumerate(_ALL):
        body = schemas[len(_ALL) + place]
        operation = _operation(endpoint, schemas[place], body, components, schemas[-1])
        paths.setdefault(endpoint.path, {})[endpoint.route.method.lower()] = operation
    for endpoint in _ALL:
        if endpoint.route.method == "GET":
            components.pop(endpoint.rest.__name__, None)
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


def _answer_of(endpoint: Endpoint) -> Any:
    return bytes if endpoint is EVENTS else endpoint.route.answer


def _operation(
    endpoint: Endpoint, answer: Any, body: Any, components: dict[str, Any], problem: Any
) -> dict[str, Any]:
    summary, _, _ = endpoint.description.partition(". ")
    found: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary.rstrip("."),
        "description": f"{endpoint.description} {_needs(endpoint)}",
        "parameters": [_path_parameter(endpoint, name) for name in endpoint.named],
        "responses": {
            str(endpoint.route.status): {
                "description": "Done, and durable",
                "content": {media: {"schema": answer} for media in _media(endpoint)},
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
    rest = msgspec.structs.fields(endpoint.rest)
    if endpoint.route.method == "GET":
        properties = components[endpoint.rest.__name__]["properties"]
        found["parameters"] += [
            {"name": each.name, "in": "query", "schema": properties[each.name]} for each in rest
        ]
    elif rest:
        found["requestBody"] = {
            "required": any(each.required for each in rest),
            "content": {"application/json": {"schema": body}},
        }
    return found


def _path_parameter(endpoint: Endpoint, name: str) -> dict[str, Any]:
    words = endpoint.arguments.get(name, "the experiment, by which a proxy can choose a server.")
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": words,
        "schema": {"type": "string"},
    }


def _media(endpoint: Endpoint) -> tuple[str, ...]:
    if endpoint is EVENTS:
        return ("text/event-stream",)
    return tuple(FORMATS.values()) if endpoint.route.answer is bytes else ("application/json",)


def _needs(endpoint: Endpoint) -> str:
    route = endpoint.route
    whose = f" and a key of the operator's tenant, {DEFAULT_TENANT}" if route.operator else ""
    return f"Needs the scope {route.scope}{whose}."


def make_page() -> str:
    """Return a page with all endpoints, without scripts."""
    rows = "".join(
        f"<tr><td>{each.route.method}</td><td><code>{html.escape(each.path)}</code></td>"
        f"<td>{html.escape(each.description)}</td><td>{each.route.scope}</td></tr>"
        for each in _ALL
    )
    return (
        "<!doctype html><html lang=en><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'><title>armrace</title>"
        "<h1>armrace</h1><p>The whole document is <a href='openapi.json'>openapi.json</a>.</p>"
        "<table><thead><tr><th>method<th>address<th>what it does<th>scope</tr></thead>"
        f"<tbody>{rows}</tbody></table></html>"
    )
