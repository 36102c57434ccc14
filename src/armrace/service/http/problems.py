"""Errors over HTTP: one JSON shape, stable codes, the sentences of Python."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from armrace_client.errors import ArmraceError, TooOften

CLOSE = {"Connection": "close"}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 408: CLOSE, 503: {"Retry-After": "1"}}


class Problem(msgspec.Struct, frozen=True):
    """What is answered instead of a result."""

    code: str
    """Stable, for programs."""
    message: str
    """One sentence, for people."""


def headers_of(error: ArmraceError) -> dict[str, str]:
    """Return the headers that go with an error."""
    if isinstance(error, TooOften):
        return {"Retry-After": str(error.seconds)}
    return _HEADERS.get(error.status, {})


def response_to(error: ArmraceError, more: Mapping[str, str] | None = None) -> Response:
    """Return the answer that says an error, with ``more`` headers."""
    content = msgspec.json.encode(Problem(error.code, str(error)))
    headers = {**headers_of(error), **(more or {})}
    return Response(content, error.status, headers, "application/json")
