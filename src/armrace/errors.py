"""One base error, and a named subclass for each way in which a request can be refused.

Every message is one sentence that names the parameter, the limit and what was given. ``code``
is stable and machine-readable.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

__all__ = [
    "AlreadyExists",
    "ArmraceError",
    "BrokenExtension",
    "BrokenPolicy",
    "DamagedFile",
    "DecisionExpired",
    "ForeignTicket",
    "InvalidParameter",
    "NotReady",
    "NotRunning",
    "RequestFailed",
    "RewardConflict",
    "ServiceUnreachable",
    "StoreFailed",
    "StoreInUse",
    "TooManyOpen",
    "UnknownName",
    "UnwritableOutput",
    "WorkersLost",
]


class ArmraceError(Exception):
    """The base of all errors that armrace raises on purpose."""

    code: ClassVar[str] = "error"


class InvalidParameter(ArmraceError, ValueError):
    """A parameter lies outside its limits or does not fit the others."""

    code: ClassVar[str] = "invalid-parameter"


class UnknownName(ArmraceError, LookupError):
    """No policy, attack, environment or scenario has this name."""

    code: ClassVar[str] = "unknown-name"
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

    code: ClassVar[str] = "unwritable-output"


class DamagedFile(ArmraceError, ValueError):
    """A result or snapshot cannot be read back as what it claims to be."""

    code: ClassVar[str] = "damaged-file"


class ForeignTicket(ArmraceError, ValueError):
    """Feedback came for a decision that was not made here, or that has had its reward."""

    code: ClassVar[str] = "foreign-ticket"


class AlreadyExists(ArmraceError, ValueError):
    """An experiment or an arm of this name exists and differs from what is asked for."""

    code: ClassVar[str] = "already-exists"


class NotReady(ArmraceError, RuntimeError):
    """The policy of the experiment is being compiled in this process."""

    code: ClassVar[str] = "not-ready"


class NotRunning(ArmraceError, RuntimeError):
    """The experiment is paused or finished, so it makes no decisions."""

    code: ClassVar[str] = "not-running"


class TooManyOpen(ArmraceError, RuntimeError):
    """The experiment has as many open decisions as it may have."""

    code: ClassVar[str] = "too-many-open"


class RequestFailed(ArmraceError, RuntimeError):
    """A request met a defect, such as one in a user's policy; its cause is the error."""

    code: ClassVar[str] = "request-failed"

    @classmethod
    def because_of(cls, error: BaseException) -> RequestFailed:
        """Return the refusal of a request: the client learns the kind of the error alone.

        Args:
            error: the error that stopped the request.
        """
        refusal = cls(f"the request failed because of a defect: {type(error).__name__}.")
        refusal.__cause__ = error
        return refusal


class BrokenPolicy(ArmraceError, RuntimeError):
    """A policy of the user's own chose an arm, a layer or a probability that it cannot have."""

    code: ClassVar[str] = "broken-policy"

    @classmethod
    def by_ticket(cls, policy: str, ticket: Sequence[Any], arms: int, layers: int) -> BrokenPolicy:
        """Return the refusal of what a policy has drawn; it names the first value that is wrong.

        Args:
            policy: the policy's name.
            ticket: the members of the ticket that its ``choose`` returned.
            arms: how many arms it has.
            layers: how many layers it has.
        """
        arm, layer, probability = ticket[:3]
        if not 0 <= arm < arms:
            words = f"chose arm {arm}; its arms are 0 to {arms - 1}"
        elif not -1 <= layer < layers:
            words = f"chose layer {layer}; its layers are 0 to {layers - 1}, or -1 for none"
        elif not 0.0 < probability <= 1.0:
            words = f"gave arm {arm} the probability {probability:g}, which is not in (0, 1]"
        else:
            words = f"chose with the ticket {tuple(ticket)}, whose last members no policy can have"
        return cls(f"the policy {policy} {words}.")


class RewardConflict(ArmraceError, ValueError):
    """The decision has had a reward of another value."""

    code: ClassVar[str] = "reward-conflict"


class DecisionExpired(ArmraceError, ValueError):
    """The window in which the decision could be rewarded has closed."""

    code: ClassVar[str] = "decision-expired"


class StoreInUse(ArmraceError, OSError):
    """Another process has opened the store, which one process at a time may use."""

    code: ClassVar[str] = "store-in-use"


class StoreFailed(ArmraceError, OSError):
    """The store could not confirm a write; nothing more is served until it is opened again."""

    code: ClassVar[str] = "store-failed"


class ServiceUnreachable(ArmraceError, OSError):
    """The decision service does not answer."""

    code: ClassVar[str] = "service-unreachable"


class WorkersLost(ArmraceError, RuntimeError):
    """Workers are unreachable or keep dying."""

    code: ClassVar[str] = "workers-lost"


class BrokenExtension(UserWarning):
    """An installed package declares a policy, attack or environment that cannot be loaded."""

    code: ClassVar[str] = "broken-extension"
