"""Errors of the library, beside those of the service, whose home is the client's distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from armrace_client.errors import (
    AlreadyExists,
    ArmraceError,
    BadFeature,
    DamagedFile,
    DecisionExpired,
    ForeignTicket,
    InvalidParameter,
    MissingFeature,
    NotRunning,
    Outdated,
    Overloaded,
    RequestFailed,
    RewardConflict,
    ServiceUnreachable,
    StoreFailed,
    StoreInUse,
    TooManyOpen,
    UnknownFeature,
    UnknownName,
    UnwritableOutput,
)

__all__ = [
    "AlreadyExists",
    "ArmraceError",
    "BadFeature",
    "BrokenExtension",
    "BrokenPolicy",
    "DamagedFile",
    "DecisionExpired",
    "ForeignTicket",
    "InvalidParameter",
    "MissingFeature",
    "NotRunning",
    "Outdated",
    "Overloaded",
    "RequestFailed",
    "RewardConflict",
    "ServiceUnreachable",
    "StoreFailed",
    "StoreInUse",
    "TooManyOpen",
    "UnknownFeature",
    "UnknownName",
    "UnwritableOutput",
    "WorkersLost",
]


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


class WorkersLost(ArmraceError, RuntimeError):
    """Workers are unreachable or keep dying."""

    code: ClassVar[str] = "workers-lost"


class BrokenExtension(UserWarning):
    """An installed package declares a policy, attack or environment that cannot be loaded."""

    code: ClassVar[str] = "broken-extension"


_SERVICE = ("apsw", "prometheus_client", "starlette", "uvicorn", "jinja2")
_EXTRA_OF = {
    **dict.fromkeys(_SERVICE, "service"),
    "psycopg": "postgres",
    "distributed": "dask",
    "nats": "nats",
    "gymnasium": "gymnasium",
}


def missing_package(error: ImportError) -> str:
    """Return how to install a package, which only some uses need, that could not be imported."""
    name = str(error.name).partition(".")[0]
    if name not in _EXTRA_OF:
        raise error
    extra = _EXTRA_OF[name]
    return f"this needs the package {name}; install it with: pip install 'armrace[{extra}]'."
