"""Opening a service by the place of its store."""

from __future__ import annotations

from pathlib import Path

from armrace.service.keyring import Keyring
from armrace.service.service import DEFAULT_TENANT, Service
from armrace.service.stores.base import Store
from armrace.service.stores.memory import MemoryStore

__all__ = ["open", "open_service", "open_store"]

MEMORY = ":memory:"


def open_service(
    place: Path | str, tenant: str = DEFAULT_TENANT, restored: bool = False
) -> Service:
    """Open a decision service in this process.

    Args:
        place: the file of the store, which is created if there is none; ``":memory:"`` for one
            that lasts as long as the process.
        tenant: whose experiments to work with.
        restored: whether the file comes from a backup.

    Returns:
        The service, to be closed after use; it can be used in a ``with`` statement.
    """
    store = open_store(place, restored)
    try:
        return Service(store, _keyring(place), tenant)
    except BaseException:
        store.close()
        raise


open = open_service  # noqa: A001  # as ``armrace.open``


def open_store(place: Path | str, restored: bool = False) -> Store:
    """Open a store by its place."""
    if str(place) == MEMORY:
        return MemoryStore()
    from armrace.service.stores.sqlite import SqliteStore

    return SqliteStore(place, restored)


def _keyring(place: Path | str) -> Keyring:
    if str(place) == MEMORY:
        return Keyring()
    path = Path(place).absolute()
    return Keyring(path.with_name(path.name + "-keys"))
