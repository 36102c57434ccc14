"""Endpoints, derived from the declared operations: how requests become operations.

Fields that the path names come from the address, all others from the body, or from the query of a
GET.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, get_args, get_origin
from urllib.parse import parse_qsl

import msgspec
from msgspec import NODEFAULT, Meta
from starlette.types import Receive

from armrace.errors import InvalidParameter
from armrace_client.errors import TooLarge, WrongMedia
from armrace_client.operations import MOST_IN_BATCH, OPERATIONS, Create, Describe, Operation

_JSON = b"application/json"
_ROLE = re.compile(r":\w+:`~?([^`]*)`")


class ClientGone(Exception):
    """The connection was closed before the body had come."""


class Endpoint:
    """How an operation is asked for over HTTP."""

    def __init__(
        self,
        name: str,
        kind: type[Operation[Any]],
        path: str | None = None,
        described: str | None = None,
    ) -> None:
        self.name, self.kind, self.route = name, kind, kind.route
        self.path = path or kind.route.path
        self.named = re.findall(r"{(\w+)}", self.path)
        fields = [each.name for each in msgspec.structs.fields(kind)]
        self.parts = [each for each in fields if each in self.named]
        """The fields that come from the address; an alias names an experiment for a proxy alone."""
        assert fields[: len(self.parts)] == self.parts
        self.description = described or _plain((kind.__doc__ or "").partition("\n    Args:")[0])
        self.arguments = _arguments(kind)
        self.rest = _rest_of(kind, len(self.parts))
        """The fields that come from the body or the query."""
        self._decoder = msgspec.json.Decoder(self.rest)
        self.has_own_cost = kind.events is not Operation.events
        """Whether what it counts as depends on what is asked for."""

    async def read(
        self,
        parts: Mapping[str, str],
        query: bytes,
        headers: Mapping[bytes, bytes],
        receive: Receive,
    ) -> Operation[Any]:
        """Return the operation that a request asks for, or refuse it."""
        if self.route.method == "GET":
            rest = _from_query(self.rest, query)
        else:
            rest = self._decode(await read_body(receive, self.route.limit), headers)
        named = [parts[each] for each in self.parts]
        operation = self.kind(*named, *msgspec.structs.astuple(rest))
        if isinstance(operation, Create):
            _refuse_paths(operation.policy)
        return operation

    def _decode(self, body: bytes, headers: Mapping[bytes, bytes]) -> Any:
        if not body:
            body = b"{}"
        elif not headers.get(b"content-type", b"").lower().startswith(_JSON):
            # A page of another site can send anything else without asking the service first.
            raise WrongMedia("the header Content-Type must be application/json.")
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _refused("body", error) from None


@cache
def _rest_of(kind: type[Operation[Any]], named: int) -> type[msgspec.Struct]:
    """Return the fields of an operation as a struct, without the first ones."""
    arguments = _arguments(kind)
    fields = [_field(each, arguments) for each in msgspec.structs.fields(kind)[named:]]
    return msgspec.defstruct(
        f"{kind.__name__}Body", fields, frozen=True, forbid_unknown_fields=True
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


def _from_query(kind: type[msgspec.Struct], query: bytes) -> Any:
    pairs = parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    try:
        return msgspec.convert(dict(pairs), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _refused("query", error) from None


def _refused(what: str, error: Exception) -> InvalidParameter:
    reason = " ".join(str(error).split()).rstrip(".")
    return InvalidParameter(f"the {what} is refused: {reason[:300]}.")


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


def _derived() -> tuple[Endpoint, ...]:
    """Return the endpoints of all operations, and of their aliases."""
    found = [Endpoint(name, kind) for name, kind in OPERATIONS.items()]
    return *found, *(
        Endpoint(f"{each.name}_of_experiment", each.kind, each.route.alias)
        for each in found
        if each.route.alias
    )


ENDPOINTS = _derived()
EVENTS = Endpoint(
    "events",
    Describe,
    f"{Describe.route.path}/events",
    "Follow the state of an experiment in a stream of events, one whenever it has changed.",
)
