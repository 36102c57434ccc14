"""Opening a service by the place of its store."""

from __future__ import annotations

from pathlib import Path

from armrace.errors import InvalidParameter
from armrace.extras import missing_package
from armrace.service.defaults import DEFAULT_TENANT
from armrace.service.keyring import Keyring
from armrace.service.service import Service
from armrace.service.stores.base import Store
from armrace.service.stores.memory import MemoryStore

__all__ = ["is_database", "keyring_of", "open", "open_service", "open_store", "without_password"]

MEMORY = ":memory:"


def open_service(
    place: Path | str,
    tenant: str = DEFAULT_TENANT,
    keys: Path | str | None = None,
    restored: bool = False,
) -> Service:
    """Open a decision service in this process.

    Args:
        place: the file of the store, which is created if there is none; ``postgresql://...`` for a
            database that several processes share; ``":memory:"`` for a store that lasts as long
            as the process.
        tenant: whose experiments to work with.
        keys: the file of secrets, needed if the store is a database; by default beside the store.
        restored: whether the file comes from a backup.

    Returns:
        The service, to be closed after use; it can be used in a ``with`` statement.
    """
    store = open_store(place, restored)
    try:
        return Service(store, keyring_of(place, keys), tenant)
    except BaseException:
        store.close()
        raise


open = open_service  # noqa: A001  # as ``armrace.open``


def open_store(place: Path | str, restored: bool = False, *, read_only: bool = False) -> Store:
    """Open a store by its place.

    Args:
        place: as for :func:`open_service`.
        restored: whether the file comes from a backup.
        read_only: whether to change nothing. A file must exist then and be used by no other
            process; a database is read without a lock, as it was when a turn began.
    """
    if str(place) == MEMORY:
        return MemoryStore()
    try:
        if is_database(place):
            from armrace.service.stores.postgres import PostgresStore

            return PostgresStore(str(place), read_only=read_only)
        from armrace.service.stores.sqlite import SqliteStore

        return SqliteStore(place, restored, read_only=read_only)
    except ModuleNotFoundError as error:
        raise InvalidParameter(missing_package(error)) from None


def is_database(place: Path | str) -> bool:
    """Whether a place is a database that several processes share, and not a file.

    Args:
        place: a file or an address.
    """
    return str(place).startswith(("postgresql://", "postgres://"))


def without_password(place: Path | str) -> str:
    """Return a place that may be shown: of a database without user, password and parameters.

    Args:
        place: the place of a store.
    """
    text = str(place)
    if not is_database(text):
        return text
    scheme, _, rest = text.partition("://")
    shown, _, more = rest.partition("?")
    # With an unusual password, what comes after the last @ may be a part of it.
    return f"{scheme}://{'...' if '@' in more else shown.rpartition('@')[2]}"


def keyring_of(
    place: Path | str, keys: Path | str | None = None, *, create: bool = True
) -> Keyring:
    """Return the keyring of a store: the file ``keys``, or else the one beside the store.

    Args:
        place: the place of the store.
        keys: the file of secrets; needed if the store is a database.
        create: whether to make the file if there is none.
    """
    if keys is not None:
        return Keyring(Path(keys).absolute(), create=create)
    if str(place) == MEMORY:
        return Keyring()
    if is_database(place):
        raise InvalidParameter(
            "keys must name a file if the store is a database: all processes must share it."
        )
    path = Path(place).absolute()
    return Keyring(path.with_name(path.name + "-keys"), create=create)
