"""Endpoints and their OpenAPI document, derived from the declared operations.

Fields that the path names come from the address, all others from the body, or from the query of a
GET.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import NODEFAULT, Meta
from starlette.types import Receive, Scope

from armrace.errors import InvalidParameter
from armrace.service.http.access import Headers, Refusal
from armrace.service.keyring import DEFAULT_TENANT
from armrace.service.operations.evaluation import Evaluate, EvaluateAll, FlagFailure
from armrace.service.operations.inspection import FORMATS
from armrace_client.errors import ArmraceError, TooLarge, WrongMedia
from armrace_client.operations import MOST_IN_BATCH, OPERATIONS, Create, Describe, Operation

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
_FLAG_STATUSES = (401, 403, 404, 429)
"""Providers read these; of others, 400 and 500 alone."""
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


class ClientGone(Exception):
    """The connection was closed before the body had come."""


class Unreadable(InvalidParameter):
    """A body or a query is not of the form that it must have."""


class Endpoint:
    """How an operation is asked for over HTTP."""

    def __init__(self, name: str, kind: type[Operation[Any]], path: str | None = None) -> None:
        self.name, self.kind, self.route = name, kind, kind.route
        self.path = path or kind.route.path
        self.named = re.findall(r"{(\w+)}", self.path)
        fields = [each.name for each in msgspec.structs.fields(kind)]
        self.parts = [each for each in fields if each in self.named]
        """The fields that come from the address; an alias names an experiment for a proxy alone."""
        assert fields[: len(self.parts)] == self.parts
        self.description = _plain((kind.__doc__ or "").partition("\n    Args:")[0])
        self.arguments = _arguments(kind)
        self.rest = _rest_of(kind, len(self.parts))
        """The fields that come from the body or the query."""
        self._decoder = msgspec.json.Decoder(self.rest)
        self.answer: Any = self.route.answer
        self.media: list[str] = ["application/json"]
        if self.answer is bytes:
            self.media = list(FORMATS.values())
        has_own_cost = kind.events is not Operation.events
        self.cost: int | None = None if has_own_cost else self.route.cost
        """How many events it counts as; ``None`` if that depends on what is asked for."""
        self.is_query = self.route.method == "GET"
        """Whether what is asked for is in the address, and not in a body."""

    def read(self, scope: Scope, headers: Headers, body: bytes) -> Operation[Any]:
        """Return the operation that a request asks for, or refuse it."""
        if body and not headers.get(b"content-type", b"").lower().startswith(b"application/json"):
            # A page of another site can send anything else without asking the service first.
            raise WrongMedia("the header Content-Type must be application/json.")
        try:
            if self.is_query:
                pairs = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
                rest = msgspec.convert(dict(pairs), self.rest, strict=False)
            else:
                rest = self._decoder.decode(body or b"{}")
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            reason = " ".join(str(error).split()).rstrip(".")
            what = "query" if self.is_query else "body"
            raise Unreadable(f"the {what} is refused: {reason[:300]}.") from None
        named = [scope["path_params"][each] for each in self.parts]
        operation = self.kind(*named, *msgspec.structs.astuple(rest))
        if isinstance(operation, Create):
            _refuse_paths(operation.policy)
        return operation

    def refuse(self, error: ArmraceError, sentence: str, scope: Scope) -> tuple[int, Any]:
        """Return the status and the answer that say a refusal."""
        return error.status, Refusal(error.code, sentence)

    def tag(self, content: bytes) -> str | None:
        """Return what an answer is known by, so that it is not sent again to whoever has it."""
        return None


class FlagEndpoint(Endpoint):
    """An endpoint of OpenFeature's remote evaluation protocol, with its statuses and refusals."""

    def refuse(self, error: ArmraceError, sentence: str, scope: Scope) -> tuple[int, Any]:
        failure = FlagFailure.of(error, sentence, scope["path_params"].get("name"))
        if isinstance(error, Unreadable):
            failure = msgspec.structs.replace(failure, error_code="PARSE_ERROR")
        status = 500 if error.status >= 500 else 400
        return error.status if error.status in _FLAG_STATUSES else status, failure

    def tag(self, content: bytes) -> str | None:
        return None if self.parts else f'"{blake2b(content, digest_size=16).hexdigest()}"'


@cache
def _rest_of(kind: type[Operation[Any]], named: int) -> type[msgspec.Struct]:
    """Return the fields of an operation as a struct, without the first ones."""
    arguments = _arguments(kind)
    fields = [_field(each, arguments) for each in msgspec.structs.fields(kind)[named:]]
    return msgspec.defstruct(
        f"{kind.__name__}Body",
        fields,
        frozen=True,
        forbid_unknown_fields=kind.__struct_config__.forbid_unknown_fields,
    )


def _field(field: msgspec.structs.FieldInfo, arguments: Mapping[str, str]) -> Any:
    """Return a field of a body, with its description; members of a batch are limited."""
    kind = field.type
    if get_origin(kind) is list and isinstance(get_args(kind)[0], type(msgspec.Struct)):
        kind = Annotated[kind, Meta(max_length=MOST_IN_BATCH)]
    if field.name in arguments:
        kind = Annotated[kind, Meta(description=arguments[field.name])]
    if field.default_factory is not NODEFAULT:
        return field.name, kind, msgspec.field(default_factory=field.default_factory)
    return (field.name, kind) if field.required else (field.name, kind, field.default)


def _arguments(kind: type) -> dict[str, str]:
    """Return what the docstrings of an operation and of its bases say about each argument."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        _, _, text = (each.__dict__.get("__doc__") or "").partition("\n    Args:\n")
        for name, words in re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", text, re.MULTILINE):
            found[name] = _plain(words)
    return found


def _plain(text: str) -> str:
    """Return a docstring without roles and line breaks."""
    return " ".join(_ROLE.sub(r"\1", text).replace("``", "").split())


def _refuse_paths(policy: Any) -> None:
    """Refuse ``module:Class`` at any depth, which would import a module of the sender's choice."""
    parts = [policy]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            parts += [*part, *part.values()]
        elif isinstance(part, list):
            parts += part
        elif isinstance(part, str) and ":" in part:
            raise InvalidParameter(f"policy must be a name of the catalogue; got {part!r:.100}.")


async def read_body(receive: Receive, limit: int, what: str = "body") -> bytes:
    """Return a body; refuse it as soon as it is longer than the limit.

    That it comes in time is the connection's concern.
    """
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > limit:
            raise TooLarge(f"the {what} must have at most {limit} bytes.")
        if not message.get("more_body", False):
            return body


ENDPOINTS = tuple(Endpoint(name, kind) for name, kind in OPERATIONS.items())
ENDPOINTS += tuple(
    Endpoint(f"{each.name}_of_experiment", each.kind, each.route.alias)
    for each in ENDPOINTS
    if each.route.alias
)
EVENTS = Endpoint("events", Describe, f"{Describe.route.path}/events")
EVENTS.answer, EVENTS.media, EVENTS.cost = bytes, ["text/event-stream"], 1
EVENTS.description = (
    "Follow the state of an experiment in a stream of events, one whenever it has changed."
)
_ALL = (*ENDPOINTS, EVENTS)
FLAGS = (FlagEndpoint("evaluate", Evaluate), FlagEndpoint("evaluate_all", EvaluateAll))
"""Not in the document: they are in that of the protocol."""


# --- the document ----------------------------------------------------------------------


def make_document(version: str) -> dict[str, Any]:
    """Return the OpenAPI document of this version of the package."""
    types = [*(each.answer for each in _ALL), *(each.rest for each in _ALL), Refusal]
    schemas, components = msgspec.json.schema_components(
        types, ref_template="#/components/schemas/{name}"
    )
    answers, bodies, problem = schemas[: len(_ALL)], schemas[len(_ALL) : -1], schemas[-1]
    paths: dict[str, Any] = {}
    for endpoint, answer, body in zip(_ALL, answers, bodies, strict=True):
        operation = _operation(endpoint, answer, problem)
        rest = msgspec.structs.fields(endpoint.rest)
        if endpoint.route.method == "GET":
            properties = components[endpoint.rest.__name__]["properties"]
            operation["parameters"] += [
                {"name": each.name, "in": "query", "schema": properties[each.name]} for each in rest
            ]
        elif rest:
            required = any(each.required for each in rest)
            operation["requestBody"] = {"required": required, "content": _json(body)}
        paths.setdefault(endpoint.path, {})[endpoint.route.method.lower()] = operation
    queries = {each.rest.__name__ for each in _ALL if each.route.method == "GET"}
    return {
        "openapi": "3.1.0",
        "info": {"title": "armrace", "version": version},
        "paths": paths,
        "components": {
            "schemas": {name: each for name, each in components.items() if name not in queries},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(endpoint: Endpoint, answer: Any, problem: Any) -> dict[str, Any]:
    """Return an operation without what comes from the query or the body."""
    route, description = endpoint.route, endpoint.description
    operator = f" and a key of the operator's tenant, {DEFAULT_TENANT}" if route.operator else ""
    proxy = "the experiment, by which a proxy can choose a server."
    return {
        "operationId": endpoint.name,
        "summary": description.partition(". ")[0].rstrip("."),
        "description": f"{description} Needs the scope {route.scope}{operator}.",
        "parameters": [
            {
                "name": name,
                "in": "path",
                "required": True,
                "description": endpoint.arguments.get(name, proxy),
                "schema": {"type": "string"},
            }
            for name in endpoint.named
        ],
        "responses": {
            str(route.status): {
                "description": "Done, and durable",
                "content": {media: {"schema": answer} for media in endpoint.media},
            },
            **{
                status: {"description": words, "content": _json(problem)}
                for status, words in _REFUSALS.items()
            },
        },
    }


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
