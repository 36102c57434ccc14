"""The decision service in this process, and opening it by the place of its store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from armrace.audit import Audit
from armrace.errors import InvalidParameter, UnknownName, missing_package
from armrace.files import check_new, make_folder
from armrace.service.engine import Engine
from armrace.service.keyring import DEFAULT_TENANT, Keyring
from armrace.service.log.memory import MemoryStore
from armrace.service.log.store import Store
from armrace.service.operations.inspection import (
    audit_of,
    back_up_store,
    export_rows,
    verify_store,
    write_export,
)
from armrace.service.work import Principal, Session
from armrace_client.answers import DecisionRow
from armrace_client.calls import Calls
from armrace_client.operations import AUDIT_LEVEL, Operation


class Service(Calls):
    """Experiments of one tenant, on a store.

    Every method that changes something returns when the change is durable. Methods are thread-safe;
    calls that wait for the store at the same time are served by one write.

    Args:
        store: where the logs are kept.
        keyring: the secrets; by default fresh ones that are not kept.
        tenant: whose experiments these are.
        clock: returns the time in milliseconds since 1970; by default the system's, which is read
            once, and a monotonic clock from then on.
        most_loaded: how many experiments are kept in memory.
    """

    def __init__(
        self,
        store: Store,
        keyring: Keyring | None = None,
        tenant: str = DEFAULT_TENANT,
        clock: Callable[[], int] | None = None,
        most_loaded: int = 1000,
    ) -> None:
        self.keyring = keyring or Keyring()
        self.tenant = tenant
        self.engine = Engine(store, self.keyring, clock, most_loaded)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Save snapshots and close the store."""
        self.engine.close()

    def _send(self, operation: Operation[Any], pick: Callable[[Any], Any] | None) -> Any:
        answer = self.engine.perform(operation, Principal(self.tenant))
        return answer if pick is None else pick(answer)

    @property
    def session(self) -> Session:
        """What operations of the tenant work with."""
        return Session(self.engine, Principal(self.tenant))

    def audit(self, name: str, level: float = AUDIT_LEVEL) -> Audit:  # type: ignore[override]
        """Look for traces of corruption in what was learned in the current generation.

        Args:
            name: the experiment.
            level: a bound on the probability that any statement of any audit is wrong.
        """
        session = self.session
        found: Audit = session.call(session.log_of(name), lambda work: audit_of(work, level))
        return found

    def rows(self, name: str) -> list[DecisionRow]:
        """Return all visits of an experiment with their rewards.

        Args:
            name: the experiment.
        """
        return list(export_rows(self.session, name))

    def export(  # type: ignore[override]  # writes the file whose content a client returns
        self, name: str, path: Path | str, *, overwrite: bool = False
    ) -> None:
        """Write all visits with their rewards into a file ending in .ndjson or .parquet.

        Args:
            name: the name of the experiment.
            path: the file to write.
            overwrite: whether a file that exists is replaced; else it is refused.
        """
        check_new(Path(path), overwrite=overwrite)
        write_export(self.session, name, path)

    def back_up(self, path: Path | str) -> None:  # type: ignore[override]  # to a place of choice
        """Verify all logs and write a copy of the store into a new file, while it is in use.

        Args:
            path: the file; open it with ``restored=True``. The file of secrets is copied apart.
        """
        back_up_store(self.session, path)

    def verify(self) -> int:
        """Check every record of every log against the digests that chain them.

        When an experiment is loaded, only what follows its latest snapshot is checked. Others are
        served meanwhile.

        Returns:
            The number of records.

        Raises:
            DamagedFile: a record is missing or was changed.
        """
        return verify_store(self.session)


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
