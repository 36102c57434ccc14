"""The decision service: experiments that decide and learn, each on a durable log of its own.

The state of an experiment is the replay of its log. Operations are performed in transactions of a
store, and no answer leaves before its events are durable.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ApiKey": "armrace.service.keyring",
    "Engine": "armrace.service.engine",
    "Keyring": "armrace.service.keyring",
    "MemoryStore": "armrace.service.log",
    "Service": "armrace.service.service",
    "Store": "armrace.service.log",
    "Transaction": "armrace.service.log",
    "open_service": "armrace.service.opening",
    "open_store": "armrace.service.opening",
}

if TYPE_CHECKING:
    from armrace.service.engine import Engine
    from armrace.service.keyring import ApiKey, Keyring
    from armrace.service.log import MemoryStore, Store, Transaction
    from armrace.service.opening import open_service, open_store
    from armrace.service.service import Service

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
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'armrace.service' has no attribute {name!r}")
