"""The errors of the decision service and of its clients.

Every message is one sentence that names the parameter, the limit and what was given. ``code`` is
stable and machine-readable; over HTTP it stands for the class.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import ClassVar


class ArmraceError(Exception):
    """The base of all errors that armrace raises on purpose."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    """The status of an answer over HTTP that carries the error."""

    def __init_subclass__(cls, status: int | None = None, code: str | None = None) -> None:
        """Take the status, and the code, by default the words of the name; else the base's."""
        if status is not None:
            cls.status = status
            cls.code = code or re.sub("(?<!^)([A-Z])", r"-\1", cls.__name__).lower()


class InvalidParameter(ArmraceError, ValueError, status=422):
    """A parameter lies outside its limits or does not fit the others."""


class BadFeature(ArmraceError, ValueError, status=422):
    """A feature of a context has a value of the wrong type, or one that is no finite number."""


class MissingFeature(ArmraceError, ValueError, status=422):
    """A context lacks a feature that the schema declares."""


class UnknownFeature(ArmraceError, ValueError, status=422):
    """A context has a feature that the schema does not declare."""


class UnknownName(ArmraceError, LookupError, status=404):
    """Nothing has this name."""

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


class UnwritableOutput(ArmraceError, OSError, status=503):
    """A file cannot be written where it was asked for."""


class DamagedFile(ArmraceError, ValueError, status=503):
    """A file or a log cannot be read back as what it claims to be."""


class ForeignTicket(ArmraceError, ValueError, status=404):
    """Feedback came for a decision that was not made here, or that has had its reward."""


class AlreadyExists(ArmraceError, ValueError, status=409):
    """An experiment or an arm of this name exists and differs from what is asked for."""


class Outdated(ArmraceError, RuntimeError, status=409):
    """What was asked for rests on a state that has changed since."""


class NotRunning(ArmraceError, RuntimeError, status=409):
    """The experiment is paused or finished, so it makes no decisions."""


class TooManyOpen(ArmraceError, RuntimeError, status=503):
    """The experiment has as many open decisions as it may have."""


class RequestFailed(ArmraceError, RuntimeError, status=500):
    """A request met a defect, such as one in a user's policy; its cause is the error."""

    @classmethod
    def because_of(cls, error: BaseException) -> RequestFailed:
        """Return the refusal of a request: the client learns the kind of the error alone.

        Args:
            error: the error that stopped the request.
        """
        refusal = cls(f"the request failed because of a defect: {type(error).__name__}.")
        refusal.__cause__ = error
        return refusal


class RewardConflict(ArmraceError, ValueError, status=409):
    """The decision has had a reward of another value."""


class DecisionExpired(ArmraceError, ValueError, status=410):
    """The window in which the decision could be rewarded has closed."""


class StoreInUse(ArmraceError, OSError, status=503):
    """Another process has opened the store, which one process at a time may use."""


class StoreFailed(ArmraceError, OSError, status=503):
    """The store could not confirm a write; nothing more is served until it is opened again."""


class ServiceUnreachable(ArmraceError, OSError, status=500):
    """The decision service does not answer."""


# --- of HTTP alone ----------------------------------------------------------------------------


class BadRequest(ArmraceError, status=400):
    """What came is not a request of HTTP."""


class Unauthorised(ArmraceError, status=401):
    """The request carries no key that is known."""


class Forbidden(ArmraceError, status=403):
    """The key does not have the scope that this needs."""


class NotFound(ArmraceError, status=404):
    """There is nothing at this address."""


class NotAllowed(ArmraceError, status=405, code="method-not-allowed"):
    """The address does not take this method."""


class TimedOut(ArmraceError, status=408):
    """The body did not come in time."""


class TooLarge(ArmraceError, status=413):
    """The body is larger than it may be."""


class WrongMedia(ArmraceError, status=415, code="unsupported-media-type"):
    """The body is not declared as JSON."""


class TooOften(ArmraceError, status=429):
    """The key is used more often than it may be."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds
        """After how many seconds to try again."""


class HeadersTooLarge(ArmraceError, status=431):
    """The address and the headers are larger than they may be."""


class Overloaded(ArmraceError, status=503):
    """More requests wait than may wait."""


_BY_CODE = {
    kind.code: kind
    for kind in list(vars().values())
    if isinstance(kind, type) and issubclass(kind, ArmraceError)
}


def by_code(code: str, message: str) -> ArmraceError:
    """Return the error that an answer over HTTP stands for."""
    return _BY_CODE.get(code, ArmraceError)(message)
