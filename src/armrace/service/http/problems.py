"""Errors over HTTP: one JSON shape, stable codes, the sentences of Python."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from armrace.errors import ArmraceError

__all__ = [
    "Forbidden",
    "NotAllowed",
    "NotFound",
    "Problem",
    "TooLarge",
    "TooOften",
    "Unauthorised",
    "headers_of",
    "status_of",
]


class Unauthorised(ArmraceError):
    """The request carries no key that is known."""

    code: ClassVar[str] = "unauthorised"


class Forbidden(ArmraceError):
    """The key does not have the scope that this needs."""

    code: ClassVar[str] = "forbidden"


class NotFound(ArmraceError):
    """There is nothing at this address."""

    code: ClassVar[str] = "not-found"


class NotAllowed(ArmraceError):
    """The address does not take this method."""

    code: ClassVar[str] = "method-not-allowed"


class TooLarge(ArmraceError):
    """The body is larger than it may be."""

    code: ClassVar[str] = "too-large"


class TooOften(ArmraceError):
    """The key is used more often than it may be."""

    code: ClassVar[str] = "too-often"


_STATUSES = {
    "unauthorised": 401,
    "forbidden": 403,
    "not-found": 404,
    "unknown-name": 404,
    "foreign-ticket": 404,
    "method-not-allowed": 405,
    "already-exists": 409,
    "not-running": 409,
    "reward-conflict": 409,
    "decision-expired": 410,
    "too-large": 413,
    "invalid-parameter": 422,
    "too-often": 429,
    "too-many-open": 503,
    "damaged-file": 503,
    "store-failed": 503,
    "store-in-use": 503,
    "unwritable-output": 503,
}


_HEADERS = {
    401: {"WWW-Authenticate": "Bearer"},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "1"},
}


class Problem(msgspec.Struct, frozen=True):
    """What is answered instead of a result."""

    code: str
    """Stable, for programs."""
    message: str
    """One sentence, for people."""


def status_of(error: ArmraceError) -> int:
    """Return the HTTP status of an error."""
    return _STATUSES.get(error.code, 500)


def headers_of(error: ArmraceError) -> dict[str, str]:
    """Return the headers that go with an error."""
    return _HEADERS.get(status_of(error), {})
