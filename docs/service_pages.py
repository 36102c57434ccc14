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
import armrace_client
from armrace.errors import ArmraceError, BrokenExtension
from armrace.service.http.endpoints import ENDPOINTS, EVENTS, Endpoint, make_document
from armrace_client.operations import Create, Retract, Ruling

_SERVICE = """# Service

What [`armrace serve`](../guide/serving.md) offers over HTTP. Each endpoint is an operation with a
method of the same arguments in Python: of `Client` and `AsyncClient`, and of the service
[in the process](../guide/deciding-durably.md). Bodies and answers are JSON; addresses and fields
are those of `/openapi.json`.
"""
_ERRORS = """# Errors

Everything that armrace refuses raises a subclass of `ArmraceError`, with a message of one sentence
and a stable `code`. Over HTTP the answer is `{"code": ..., "message": ...}` with the status below
(500 where none is given);
[clients](../guide/serving.md#from-a-program) raise the class that has the code. Those of
`armrace_client.errors` are in `armrace.errors` too, except the ones that concern HTTP alone.
"""
_PLAIN = {
    "GET /healthz": "The process is alive",
    "GET /readyz": "200 if the store can be used, else 503",
    "GET /metrics": "For Prometheus; needs the scope `read` and a key of the operator's tenant",
    "GET /openapi.json": "The OpenAPI document",
    "GET /docs": "The endpoints as a page",
}
"""Addresses that are not part of the OpenAPI document."""
_MODULES = ("armrace_client.answers", "armrace_client.operations", "armrace.service.http.access")
"""Where bodies, their members and answers are declared."""


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
    lines = [notice, _SERVICE, "## Endpoints", "", *_overview(), ""]
    for endpoint in _endpoints():
        operation = document["paths"][endpoint.path][endpoint.route.method.lower()]
        lines += [*_endpoint(endpoint, operation, document["components"]["schemas"]), ""]
    lines += ["## Settings of an experiment", "", *_experiment_settings(), ""]
    lines += ["## Settings of the server", "", *_server_settings(serve), ""]
    lines += ["## Members and answers", "", *_schemas(document["components"]["schemas"])]
    return "\n".join(lines)


def _endpoints() -> list[Endpoint]:
    """All endpoints, those that every visit uses first."""
    return [*ENDPOINTS, EVENTS]


def _heading(endpoint: Endpoint) -> str:
    return f"{endpoint.route.method} {endpoint.path}"


def _overview() -> Iterator[str]:
    yield "| address | what it does | in Python | scope |"
    yield "|---|---|---|---|"
    for endpoint in _endpoints():
        heading = _heading(endpoint)
        anchor = re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))
        summary = endpoint.description.partition(". ")[0].rstrip(".")
        method = f"`{endpoint.name}`" if endpoint.path == endpoint.kind.route.path else ""
        yield f"| [`{heading}`](#{anchor}) | {summary} | {method} | `{endpoint.route.scope}` |"
    for address, meaning in _PLAIN.items():
        yield f"| `{address}` | {meaning} | | |"


def _endpoint(
    endpoint: Endpoint, operation: dict[str, Any], schemas: dict[str, Any]
) -> Iterator[str]:
    yield f"### `{_heading(endpoint)}`"
    yield ""
    more = endpoint.description.partition(". ")[2]
    if more:
        yield more
        yield ""
    asked = {
        each["name"]: each["schema"] for each in operation["parameters"] if each["in"] == "query"
    }
    required: list[str] = []
    if "requestBody" in operation:
        body = schemas[f"{endpoint.kind.__name__}Body"]
        asked, required = body["properties"], body["required"]
    if issubclass(endpoint.kind, Ruling):
        yield "Body: the fields of a [`Ruling`](#ruling)" + _rulings_own(asked)
        yield ""
    elif asked:
        yield from _fields("query" if endpoint.route.method == "GET" else "body", asked, required)
        yield ""
    answer = operation["responses"][str(endpoint.route.status)]["content"]
    kinds = [
        _type(content["schema"]) + ("" if media == "application/json" else f" as `{media}`")
        for media, content in answer.items()
    ]
    yield f"Answer: {' or '.join(kinds)}."


def _rulings_own(fields: dict[str, Any]) -> str:
    """The fields that a ruling has beside those of all."""
    own = [each for each in fields if each not in Ruling.__struct_fields__]
    told = [f"`{each}`, {_type(fields[each])}: {fields[each]['description']}" for each in own]
    return f", and {' '.join(told)}" if own else "."


def _fields(
    title: str,
    properties: dict[str, Any],
    required: list[str],
    meanings: dict[str, str] | None = None,
) -> Iterator[str]:
    """A table of fields, which say themselves what they mean, or have it said."""
    yield f"| {title} | type | default | meaning |"
    yield "|---|---|---|---|"
    for field, kind in properties.items():
        default = "required" if field in required else f"`{json.dumps(kind.get('default'))}`"
        meaning = kind.get("description", (meanings or {}).get(field, ""))
        yield f"| `{field}` | {_type(kind)} | {default} | {meaning} |"


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
    bodies = {f"{each.kind.__name__}Body" for each in _endpoints()}
    schemas = schemas | {
        "Ruling": schemas[f"{Retract.__name__}Body"] | {"description": inspect.getdoc(Ruling)}
    }
    for name, schema in sorted(schemas.items()):
        if name not in bodies:
            properties, required = schema["properties"], schema["required"]
            yield f"### `{name}`"
            yield ""
            yield _plain(schema.get("description", ""))
            yield ""
            yield from _fields("field", properties, required, meanings.get(name))
            yield ""


def _field_meanings() -> dict[str, dict[str, str]]:
    """What is said about each field of a class: below it, or as an argument in its docstring."""
    found: dict[str, dict[str, str]] = {each.kind.__name__: each.arguments for each in _endpoints()}
    found["Visit"] = found["Decide"]
    found["LeasedVisit"] = found["Reward"] | found["Decide"]
    for name in _MODULES:
        for node in ast.parse(inspect.getsource(importlib.import_module(name))).body:
            if isinstance(node, ast.ClassDef):
                found[node.name] = found.get(node.name, {}) | dict(_below_fields(node))
    return found


def _below_fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in zip(node.body, node.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            words = " ".join(str(ast.literal_eval(text.value)).split())
            yield ast.unparse(field.target), words.replace("``", "`")


def _plain(text: str) -> str:
    """The first part of a docstring, without its roles and arguments."""
    words = " ".join(text.partition("Args:")[0].split())
    return re.sub(r":\w+:`~?([^`]*)`", r"`\1`", words)


def setting_meanings() -> dict[str, str]:
    """What each setting of an experiment means."""
    return next(each.arguments for each in ENDPOINTS if each.kind is Create)


def _experiment_settings() -> Iterator[str]:
    parameters = inspect.signature(Create).parameters
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
        status = kind.status if issubclass(kind, ArmraceError) else ""
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
        if kind.__module__.startswith(("armrace.", "armrace_client.")) and kind not in found:
            if "code" in vars(kind):  # others are what their base is, to a user
                found.append(kind)
            waiting += kind.__subclasses__()
    return found


def _modules() -> Iterable[str]:
    for package in (armrace, armrace_client):
        walked = pkgutil.walk_packages(
            package.__path__, f"{package.__name__}.", onerror=lambda _: None
        )
        for each in walked:
            if each.name not in ("armrace.__main__", *sys.modules):
                yield each.name
