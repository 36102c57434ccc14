"""Opening a service by the place of its store."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from armrace.errors import InvalidParameter, UnknownName, missing_package
from armrace.files import make_folder
from armrace.service.keyring import DEFAULT_TENANT, Keyring
from armrace.service.log.memory import MemoryStore
from armrace.service.log.store import Store
from armrace.service.service import Service

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
    keyring = existing_keyring(place, keys)
    store = open_store(place, keyring, restored)
    try:
        return Service(store, keyring, tenant)
    except BaseException:
        store.close()
        raise


open = open_service  # noqa: A001  # as ``armrace.open``


def open_store(
    place: Path | str, keyring: Keyring, restored: bool = False, *, read_only: bool = False
) -> Store:
    """Open a store by its place.

    Args:
        place: as for :func:`open_service`.
        keyring: the secrets, which have signed how far the store was written.
        restored: whether the file comes from a backup.
        read_only: whether to change nothing. A file must exist then and be used by no other
            process; a database is read without a lock, as it was when a transaction began.
    """
    if str(place) == MEMORY:
        return MemoryStore()
    try:
        if is_database(place):
            from armrace.service.log.postgres import PostgresStore

            return PostgresStore(str(place), read_only=read_only)
        from armrace.service.log.sqlite import SqliteStore

        secrets = (keyring.store_secret(),)
        return SqliteStore(place, restored, secrets=secrets, read_only=read_only)
    except ModuleNotFoundError as error:
        raise InvalidParameter(missing_package(error)) from None


def is_database(place: Path | str) -> bool:
    """Whether a place is a database that several processes share, and not a file."""
    return str(place).startswith(("postgresql://", "postgres://"))


def without_password(place: Path | str) -> str:
    """Return a place that may be shown: of a database without user, password and parameters."""
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
    """Return the keyring of a store: the file ``keys``, or else the one beside the store."""
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


def existing_keyring(place: Path | str, keys: Path | str | None = None) -> Keyring:
    """Return the keyring of a store, which is made only if the store has no experiment."""
    try:  # before the store, which may be far away
        return keyring_of(place, keys, create=False)
    except UnknownName as error:
        if _has_experiments(place):
            raise UnknownName(
                f"{str(error).rstrip('.')}, although the store has experiments; put the file back "
                "or name it with keys: without it, their logs cannot be verified."
            ) from None
    return keyring_of(place, keys)


def _has_experiments(place: Path | str) -> bool:
    is_file = not is_database(place)
    if is_file and not (Path(place).is_file() and Path(place).stat().st_size):
        return False
    # Without secrets, it can be read as if it came from a backup.
    opened = closing(open_store(place, Keyring(), restored=True, read_only=is_file))
    with opened as store, store.transaction() as transaction:
        return bool(transaction.logs())


def default_place() -> Path:
    """Return the file of the store that is used if none is named; its folder is made."""
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    folder = Path(base) / "armrace"
    make_folder(folder)
    return folder / "service.db"
