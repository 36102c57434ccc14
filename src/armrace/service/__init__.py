"""The decision service: experiments that decide and learn, each on a durable log of its own.

The state of an experiment is the replay of its log. Operations are performed in transactions of a
store, and no answer leaves before its events are durable.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "engine": ("Engine",),
    "keyring": ("ApiKey", "Keyring"),
    "log": ("MemoryStore", "Store", "Transaction"),
    "service": ("Service", "open_service", "open_store"),
}

if TYPE_CHECKING:
    from armrace.service.engine import Engine
    from armrace.service.keyring import ApiKey, Keyring
    from armrace.service.log import MemoryStore, Store, Transaction
    from armrace.service.service import Service, open_service, open_store

__all__ = [
    "ApiKey",
    "Engine",
    "Keyring",
    "MemoryStore",
    "Service",
    "Store",
    "Transaction",
    "open_service",
    "open_store",
]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"armrace.service.{home}"), name)
    raise AttributeError(f"module 'armrace.service' has no attribute {name!r}")
