"""Errors over HTTP: one JSON shape, stable codes, the sentences of Python."""

from __future__ import annotations

import msgspec

from armrace_client.errors import ArmraceError, TooOften

_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    503: {"Retry-After": "1"},
}


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
