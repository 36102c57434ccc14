"""The reference of the service and of errors, made from the OpenAPI document and the code."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import armrace
import armrace_client
from armrace.errors import ArmraceError, BrokenExtension
from armrace.service.http.endpoints import ENDPOINTS, EVENTS, Endpoint, make_document
from armrace_client.operations import Create, Ruling

_SERVICE = """# Service

What [`armrace serve`](../guide/serving.md) offers over HTTP. Each endpoint is an operation with a
method of the same arguments in Python: of `Client` and `AsyncClient`, and of the service
[in the process](../guide/deciding-durably.md). Bodies and answers are JSON. What the fields of
[operations](signatures.md#operations-of-the-service) and
[answers](signatures.md#answers-of-the-service) mean stands with the signatures. The running server
has all of it as `/docs` and `/openapi.json`.
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
    "POST /ofrep/v1/evaluate/flags/{name}": "A decision as a [flag of OpenFeature]"
    "(../guide/other-languages.md#openfeature), by its remote evaluation protocol",
    "POST /ofrep/v1/evaluate/flags": "Several, for a page that may show them",
}
"""Addresses that are not part of the OpenAPI document."""


def plain_addresses() -> dict[str, str]:
    """Addresses outside of the OpenAPI document, with what they answer."""
    return _PLAIN


def service_page(notice: str, serve: Any) -> str:
    """The page about endpoints and settings.

    Args:
        notice: that the page is generated.
        serve: the command, whose options are the settings of the server.
    """
    document = make_document("")
    lines = [notice, _SERVICE, "## Endpoints", ""]
    for endpoint in [*ENDPOINTS, EVENTS]:  # those that every visit uses first
        operation = document["paths"][endpoint.path][endpoint.route.method.lower()]
        lines += [*_endpoint(endpoint, operation, document["components"]["schemas"]), ""]
    lines += ["### Others", "", "| address | what it answers |", "|---|---|"]
    lines += [f"| `{address}` | {meaning} |" for address, meaning in _PLAIN.items()]
    lines += ["", "## Settings of an experiment", "", *_experiment_settings(), ""]
    lines += ["## Settings of the server", "", *_server_settings(serve), ""]
    return "\n".join(lines)


def _endpoint(
    endpoint: Endpoint, operation: dict[str, Any], schemas: dict[str, Any]
) -> Iterator[str]:
    yield f"### `{endpoint.route.method} {endpoint.path}`"
    yield ""
    route = endpoint.kind.route
    if endpoint.path != route.path and endpoint is not EVENTS:
        yield f"As `{route.method} {route.path}`."
        return
    yield f"{endpoint.description.rstrip('.')}."
    yield ""
    method = "" if endpoint is EVENTS else f"In Python `{endpoint.name}`. "
    names = _asked(endpoint, operation, schemas)
    if issubclass(endpoint.kind, Ruling):
        own = [f" and `{name}`" for name in names if name not in Ruling.__struct_fields__]
        takes = f"Takes the fields of a `Ruling`{''.join(own)}. "
    elif endpoint.kind is Create:
        takes = "Takes the [settings](#settings-of-an-experiment). "
    else:
        takes = f"Takes {', '.join(f'`{name}`' for name in names)}. " if names else ""
    answer = operation["responses"][str(endpoint.route.status)]["content"]
    kinds = [
        _type(content["schema"]) + ("" if media == "application/json" else f" as `{media}`")
        for media, content in answer.items()
    ]
    scope = f"Scope `{endpoint.route.scope}`."
    yield f"{method}{takes}Answers {' or '.join(kinds)}. {scope}"


def _asked(endpoint: Endpoint, operation: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """The fields that an endpoint takes in its query or body."""
    if "requestBody" in operation:
        return list(schemas[f"{endpoint.kind.__name__}Body"]["properties"])
    return [each["name"] for each in operation["parameters"] if each["in"] == "query"]


def _type(schema: dict[str, Any]) -> str:
    """A schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"`{name}`"
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
