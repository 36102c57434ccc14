"""Errors over HTTP: one JSON shape, stable codes, the sentences of Python."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from armrace.errors import ArmraceError

__all__ = [
    "BadRequest",
    "Forbidden",
    "HeadersTooLarge",
    "NotAllowed",
    "NotFound",
    "Overloaded",
    "Problem",
    "TimedOut",
    "TooLarge",
    "TooOften",
    "Unauthorised",
    "WrongMedia",
    "headers_of",
    "status_of",
]


class BadRequest(ArmraceError):
    """What came is not a request of HTTP."""

    code: ClassVar[str] = "bad-request"


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

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds
        """After how many seconds to try again."""


class WrongMedia(ArmraceError):
    """The body is not declared as JSON."""

    code: ClassVar[str] = "unsupported-media-type"


class TimedOut(ArmraceError):
    """The body did not come in time."""

    code: ClassVar[str] = "timed-out"


class HeadersTooLarge(ArmraceError):
    """The address and the headers are larger than they may be."""

    code: ClassVar[str] = "headers-too-large"


class Overloaded(ArmraceError):
    """More requests wait than may wait."""

    code: ClassVar[str] = "overloaded"


_STATUSES = {
    "bad-request": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "not-found": 404,
    "unknown-name": 404,
    "foreign-ticket": 404,
    "method-not-allowed": 405,
    "timed-out": 408,
    "already-exists": 409,
    "not-running": 409,
    "reward-conflict": 409,
    "decision-expired": 410,
    "too-large": 413,
    "unsupported-media-type": 415,
    "invalid-parameter": 422,
    "too-often": 429,
    "headers-too-large": 431,
    "request-failed": 500,
    "not-ready": 503,
    "overloaded": 503,
    "too-many-open": 503,
    "damaged-file": 503,
    "store-failed": 503,
    "store-in-use": 503,
    "unwritable-output": 503,
}


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


def status_of(error: ArmraceError) -> int:
    """Return the HTTP status of an error."""
    return _STATUSES.get(error.code, 500)


def headers_of(error: ArmraceError) -> dict[str, str]:
    """Return the headers that go with an error."""
    if isinstance(error, TooOften):
        return {"Retry-After": str(error.seconds)}
    return _HEADERS.get(status_of(error), {})
