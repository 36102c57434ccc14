"""The reference of the service and of errors, made from the OpenAPI document and the code."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import armrace
from armrace.errors import ArmraceError, BrokenExtension
from armrace.service import Service
from armrace.service.http.endpoints import ENDPOINTS
from armrace.service.http.openapi import make_document
from armrace.service.http.problems import status_of

_SERVICE = """# Service

What [`armrace serve`](../guide/serving.md) offers over HTTP, and the settings of its experiments,
which are the same [in Python](../guide/deciding-durably.md). Bodies and answers are JSON. The
addresses and fields below are those of `/openapi.json`.
"""
_ERRORS = """# Errors

Everything that armrace refuses raises a subclass of `ArmraceError`, with a message of one sentence
and a stable `code`. Over HTTP the answer is `{"code": ..., "message": ...}` with the status below
(500 where none is given);
[clients](../guide/serving.md#from-a-program) raise the class that has the code.
"""
_PLAIN = {
    "GET /healthz": "The process is alive",
    "GET /readyz": "200 when all policies are compiled, 503 before",
    "GET /metrics": "Counts for Prometheus; needs the scope `read`",
    "GET /openapi.json": "The OpenAPI document",
    "GET /docs": "The endpoints as a page",
}
"""Addresses that are not part of the OpenAPI document."""


def plain_addresses() -> dict[str, str]:
    """Addresses outside of the OpenAPI document, with what they answer."""
    return _PLAIN


def service_page(notice: str, serve: Any) -> str:
    """The page about endpoints, settings and fields.

    Args:
        notice: that the page is generated.
        serve: the command, whose options are the settings of the server.
    """
    document = make_document("")
    lines = [notice, _SERVICE, "## Endpoints", "", *_overview(document), ""]
    for path, method, operation in _operations(document):
        lines += [*_endpoint(path, method, operation), ""]
    lines += ["## Settings of an experiment", "", *_experiment_settings(), ""]
    lines += ["## Settings of the server", "", *_server_settings(serve), ""]
    lines += ["## Bodies and answers", "", *_schemas(document["components"]["schemas"])]
    return "\n".join(lines)


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in sorted(document["paths"].items()):
        for method, operation in methods.items():
            yield path, method.upper(), operation


def _overview(document: dict[str, Any]) -> Iterator[str]:
    scopes = {(e.method, e.path): e.scope for e in ENDPOINTS}
    yield "| address | what it does | scope |"
    yield "|---|---|---|"
    for path, method, operation in _operations(document):
        anchor = re.sub(r"[^\w-]", "", f"{method}-{path}".lower())
        link = f"[`{method} {path}`](#{anchor})"
        yield f"| {link} | {operation['summary']} | `{scopes[method, path]}` |"
    for address, meaning in _PLAIN.items():
        yield f"| `{address}` | {meaning} | |"


def _endpoint(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield f"### `{method} {path}`"
    yield ""
    yield f"{operation['summary']}. {operation['description']}"
    yield ""
    body = operation.get("requestBody")
    if body:
        yield f"Body: {_type(body['content']['application/json']['schema'])}."
        yield ""
    answer = next(found for status, found in operation["responses"].items() if status[0] == "2")
    kinds = [
        f"{_type(content['schema'])} as `{media}`" if "json" not in media else ""
        for media, content in answer["content"].items()
    ]
    plain = [_type(c["schema"]) for m, c in answer["content"].items() if m == "application/json"]
    yield f"Answer: {' or '.join([*plain, *filter(None, kinds)])}."


def _type(schema: dict[str, Any]) -> str:
    """A schema in words, with links to the tables of fields."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[`{name}`](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if schema.get("contentEncoding"):
        return "bytes"
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema and isinstance(schema["items"], dict):
        return f"list of {_type(schema['items'])}"
    if kind == "array":
        return "list"
    return "nothing" if kind == "null" else str(kind)


def _schemas(schemas: dict[str, Any]) -> Iterator[str]:
    meanings = _field_meanings()
    for name, schema in sorted(schemas.items()):
        yield f"### `{name}`"
        yield ""
        yield schema.get("description", "")
        yield ""
        yield "| field | type | default | meaning |"
        yield "|---|---|---|---|"
        required = schema.get("required", [])
        for field, kind in schema.get("properties", {}).items():
            default = "required" if field in required else f"`{json.dumps(kind.get('default'))}`"
            meaning = meanings.get((name, field), "")
            yield f"| `{field}` | {_type(kind)} | {default} | {meaning} |"
        yield ""


def _field_meanings() -> dict[tuple[str, str], str]:
    """The text below each field of the classes that are bodies and answers."""
    found: dict[tuple[str, str], str] = {}
    for name in ("answers", "http.wire", "http.problems"):
        module = importlib.import_module(f"armrace.service.{name}")
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ClassDef):
                for field, text in zip(node.body, node.body[1:], strict=False):
                    if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                        words = " ".join(str(ast.literal_eval(text.value)).split())
                        found[node.name, ast.unparse(field.target)] = words
    return found | {("CreateBody", name): words for name, words in setting_meanings().items()}


def setting_meanings() -> dict[str, str]:
    """What each argument of ``Service.create`` means, out of its docstring."""
    section = (inspect.getdoc(Service.create) or "").split("Args:\n")[1].split("\n\n")[0]
    entries = re.split(r"\n(?=    \w+: )", "\n" + section)[1:]
    pairs = (entry.strip().split(": ", 1) for entry in entries)
    return {name: " ".join(words.split()) for name, words in pairs}


def _experiment_settings() -> Iterator[str]:
    parameters = inspect.signature(Service.create).parameters
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    for name, meaning in setting_meanings().items():
        default = parameters[name].default
        shown = "required" if default is inspect.Parameter.empty else f"`{default}`"
        yield f"| `{name}` | {shown} | {meaning} |"


def _server_settings(serve: Any) -> Iterator[str]:
    from armrace.service.http.server import ServerSettings

    defaults = ServerSettings._field_defaults
    yield "| option | environment | in the file | default | meaning |"
    yield "|---|---|---|---|---|"
    for option in serve.params:
        if option.name == "help":
            continue
        default = defaults.get(option.name)
        shown = "" if default in (None, False) else f"`{default}`"
        variable = f"`{option.envvar}`" if option.envvar else ""
        key = f"`{option.name}`" if option.name in defaults else ""
        yield f"| `{option.opts[0]}` | {variable} | {key} | {shown} | {option.help} |"


def error_page(notice: str) -> str:
    """The page of all errors with their codes."""
    lines = [notice, _ERRORS, "| code | class | status | when |", "|---|---|---|---|"]
    for kind in sorted(error_classes(), key=lambda kind: kind.code):
        status = status_of(kind("")) if issubclass(kind, ArmraceError) else ""
        shown = f"{status}" if status != 500 else ""
        meaning = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
        home = f"{kind.__module__}.{kind.__name__}"
        lines.append(f"| `{kind.code}` | `{home}` | {shown} | {meaning} |")
    return "\n".join([*lines, ""])


def error_classes() -> list[Any]:
    """Every class of errors of the package, and the warning about broken extensions."""
    for module in _modules():
        importlib.import_module(module)
    found: list[Any] = [BrokenExtension]
    waiting: list[Any] = [ArmraceError]
    while waiting:
        kind = waiting.pop()
        if kind.__module__.startswith("armrace.") and kind not in found:
            found.append(kind)
            waiting += kind.__subclasses__()
    return found


def _modules() -> Iterable[str]:
    walked = pkgutil.walk_packages(armrace.__path__, "armrace.", onerror=lambda _: None)
    return [each.name for each in walked if each.name not in ("armrace.__main__", *sys.modules)]
