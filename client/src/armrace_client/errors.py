"""The errors of the decision service and of its clients.

Every message is one sentence that names the parameter, the limit and what was given. ``code`` is
stable and machine-readable; over HTTP it stands for the class.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar

__all__ = [
    "AlreadyExists",
    "ArmraceError",
    "BadRequest",
    "DamagedFile",
    "DecisionExpired",
    "Forbidden",
    "ForeignTicket",
    "HeadersTooLarge",
    "InvalidParameter",
    "NotAllowed",
    "NotFound",
    "NotRunning",
    "Outdated",
    "Overloaded",
    "RequestFailed",
    "RewardConflict",
    "ServiceUnreachable",
    "StoreFailed",
    "StoreInUse",
    "TimedOut",
    "TooLarge",
    "TooManyOpen",
    "TooOften",
    "Unauthorised",
    "UnknownName",
    "UnwritableOutput",
    "WrongMedia",
    "by_code",
]


class ArmraceError(Exception):
    """The base of all errors that armrace raises on purpose."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    """The status of an answer over HTTP that carries the error."""


class InvalidParameter(ArmraceError, ValueError):
    """A parameter lies outside its limits or does not fit the others."""

    code, status = "invalid-parameter", 422


class UnknownName(ArmraceError, LookupError):
    """Nothing has this name."""

    code, status = "unknown-name", 404
    brief: str | None = None
    """The sentence without the names that exist, for those who may not know them."""

    @classmethod
    def among(cls, kind: str, name: str, known: Iterable[str]) -> UnknownName:
        """Return the error for ``name``, with the nearest known name as a suggestion.

        Args:
            kind: what the name is of, such as ``policy``.
            name: the name that was given.
            known: the names that exist.
        """
        known = sorted(known)
        # A caller of the library may give something else than text.
        nearest = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f"there are {', '.join(known) or 'none'}."
        if nearest:
            hint = f"did you mean {nearest[0]!r}?"
        sentence = f"there is no {kind} named {name!r}"
        found = cls(f"{sentence}; {hint}")
        found.brief = f"{sentence}."
        return found


class UnwritableOutput(ArmraceError, OSError):
    """A file cannot be written where it was asked for."""

    code, status = "unwritable-output", 503


class DamagedFile(ArmraceError, ValueError):
    """A file or a log cannot be read back as what it claims to be."""

    code, status = "damaged-file", 503


class ForeignTicket(ArmraceError, ValueError):
    """Feedback came for a decision that was not made here, or that has had its reward."""

    code, status = "foreign-ticket", 404


class AlreadyExists(ArmraceError, ValueError):
    """An experiment or an arm of this name exists and differs from what is asked for."""

    code, status = "already-exists", 409


class Outdated(ArmraceError, RuntimeError):
    """What was asked for rests on a state that has changed since."""

    code, status = "outdated", 409


class NotRunning(ArmraceError, RuntimeError):
    """The experiment is paused or finished, so it makes no decisions."""

    code, status = "not-running", 409


class TooManyOpen(ArmraceError, RuntimeError):
    """The experiment has as many open decisions as it may have."""

    code, status = "too-many-open", 503


class RequestFailed(ArmraceError, RuntimeError):
    """A request met a defect, such as one in a user's policy; its cause is the error."""

    code, status = "request-failed", 500

    @classmethod
    def because_of(cls, error: BaseException) -> RequestFailed:
        """Return the refusal of a request: the client learns the kind of the error alone.

        Args:
            error: the error that stopped the request.
        """
        refusal = cls(f"the request failed because of a defect: {type(error).__name__}.")
        refusal.__cause__ = error
        return refusal


class RewardConflict(ArmraceError, ValueError):
    """The decision has had a reward of another value."""

    code, status = "reward-conflict", 409


class DecisionExpired(ArmraceError, ValueError):
    """The window in which the decision could be rewarded has closed."""

    code, status = "decision-expired", 410


class StoreInUse(ArmraceError, OSError):
    """Another process has opened the store, which one process at a time may use."""

    code, status = "store-in-use", 503


class StoreFailed(ArmraceError, OSError):
    """The store could not confirm a write; nothing more is served until it is opened again."""

    code, status = "store-failed", 503


class ServiceUnreachable(ArmraceError, OSError):
    """The decision service does not answer."""

    code = "service-unreachable"


# --- of HTTP alone ----------------------------------------------------------------------------


class BadRequest(ArmraceError):
    """What came is not a request of HTTP."""

    code, status = "bad-request", 400


class Unauthorised(ArmraceError):
    """The request carries no key that is known."""

    code, status = "unauthorised", 401


class Forbidden(ArmraceError):
    """The key does not have the scope that this needs."""

    code, status = "forbidden", 403


class NotFound(ArmraceError):
    """There is nothing at this address."""

    code, status = "not-found", 404


class NotAllowed(ArmraceError):
    """The address does not take this method."""

    code, status = "method-not-allowed", 405


class TimedOut(ArmraceError):
    """The body did not come in time."""

    code, status = "timed-out", 408


class TooLarge(ArmraceError):
    """The body is larger than it may be."""

    code, status = "too-large", 413


class WrongMedia(ArmraceError):
    """The body is not declared as JSON."""

    code, status = "unsupported-media-type", 415


class TooOften(ArmraceError):
    """The key is used more often than it may be."""

    code, status = "too-often", 429

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds
        """After how many seconds to try again."""


class HeadersTooLarge(ArmraceError):
    """The address and the headers are larger than they may be."""

    code, status = "headers-too-large", 431


class Overloaded(ArmraceError):
    """More requests wait than may wait."""

    code, status = "overloaded", 503


_BY_CODE = {
    kind.code: kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, ArmraceError)
}


def by_code(code: str, message: str) -> ArmraceError:
    """Return the error that an answer over HTTP stands for.

    Args:
        code: its code.
        message: its sentence.
    """
    return _BY_CODE.get(code, ArmraceError)(message)
