"""Clients of the armrace decision service."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armrace_client.answers import DecisionAnswer
    from armrace_client.calls import RewardItem
    from armrace_client.clients import AsyncClient, Client
    from armrace_client.errors import ArmraceError
    from armrace_client.leases import LeasedExperiment
    from armrace_client.queue import AsyncRewardQueue, RewardQueue

__version__ = "0.2.0"
__all__ = [
    "ArmraceError",
    "AsyncClient",
    "AsyncRewardQueue",
    "Client",
    "DecisionAnswer",
    "LeasedExperiment",
    "RewardItem",
    "RewardQueue",
]
_HOMES = ["answers", "errors", "calls", "queue", "leases", "clients"]


def __getattr__(name: str) -> Any:
    # The service needs the declarations alone, and does not wait for the import of httpx2.
    for home in _HOMES if name in __all__ else []:
        module = import_module(f"armrace_client.{home}")
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
