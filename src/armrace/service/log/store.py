"""The contract of stores.

A store keeps one append-only log of records for each experiment, some snapshots of each, and a
directory of the logs by tenant and name. It knows nothing of events: records are bytes with a
sequence number, a digest and perhaps a subject. These rules hold for every store, and
:func:`armrace.testing.check_store` checks them:

1. **A transaction is durable as a whole.** When its ``with`` block ends without an exception, all
   that was written is durable: it survives the end of the process and, if the store is on a disk, a
   loss of power. If the block ends with an exception, nothing of it is kept.
2. **Transactions on the same log are serial**, within the process and among processes. A
   transaction is opened with the logs that it may append to, sees everything that earlier ones
   appended to these, and cannot append to others. Logs do not depend on each other.
3. **Records of a log are numbered without gaps** from 1 in the order in which they were appended,
   and come back as they were given, bit for bit. Records that do not follow the head are refused.
4. **Records are found by their subjects**, in order, and by their numbers: many with one query.
5. **Snapshots are kept by log and sequence number.** They belong to the same transaction as
   records.
6. **A deleted log is gone but for its last record**; its name can be given to another log, its
   number is never given again.
7. **A store that cannot keep its word raises** :class:`~armrace.errors.StoreFailed`, in the
   transaction or at its end, and never returns as if it had.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

from armrace.errors import AlreadyExists, DamagedFile, InvalidParameter
from armrace.service.log.chain import BEGINNING, Head, LogRecord, head_of, make_record

T = TypeVar("T")
NO_LOGS: Mapping[int, int] = MappingProxyType({})
"""The logs of a transaction that appends nothing."""


class LogEntry(NamedTuple):
    """A log in the directory."""

    log: int
    """Its number; logs are numbered from 1 in the order in which they were created."""
    tenant: str
    name: str
    is_deleted: bool = False


class Transaction(ABC):
    """The right to read, and to append to some logs, until the end of a ``with`` block.

    Each write is checked against the contract before the store performs it.

    Args:
        heads: the ends of the logs that it may append to: those that it was opened with, if they
            exist and are not deleted.
        creates: whether it may create logs.
    """

    def __init__(self, heads: dict[int, Head], creates: bool) -> None:
        self.heads = heads
        self._creates = creates

    @abstractmethod
    def logs(self, tenant: str | None = None) -> list[LogEntry]:
        """Return a tenant's logs, by default everybody's, by number; deleted logs included."""

    @abstractmethod
    def find_log(self, tenant: str, name: str) -> int | None:
        """Return the number of the log of this name that is not deleted, if there is one."""

    @abstractmethod
    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[LogRecord]:
        """Yield the records of a log whose sequence number is above ``after``, in order.

        Args:
            log: the log.
            after: the number of the last record that is not wanted.
            most: how many records are wanted at most; by default all.
        """

    @abstractmethod
    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[LogRecord]:
        """Yield the records with one of these sequence numbers, in order.

        Args:
            log: the log.
            sequences: the sequence numbers; those that no record has are left out.
        """

    @abstractmethod
    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[LogRecord]:
        """Yield the records with one of these subjects, in order; ``after`` as for :meth:`read`."""

    @abstractmethod
    def snapshots(self, log: int) -> dict[int, int]:
        """Return the size of each snapshot of a log by its sequence number, in increasing order."""

    @abstractmethod
    def load_snapshot(self, log: int, sequence: int) -> bytes:
        """Return a snapshot of the state of a log after the record ``sequence``."""

    def time(self) -> int | None:
        """Return the store's own time in milliseconds, if processes share its clock."""
        return None

    def head(self, log: int) -> Head:
        """Return the end of a log, with what this transaction has appended."""
        return self.heads.get(log) or self._read_head(log)

    def create_log(self, tenant: str, name: str) -> int:
        """Create a log in a transaction that was opened with ``creates``; return its number.

        The transaction may append to it. No log that is not deleted may have the name.
        """
        if not self._creates:
            raise InvalidParameter("the transaction was not opened to create logs.")
        if self.find_log(tenant, name) is not None:
            raise AlreadyExists(f"there is a log named {name!r} of {tenant!r}.")
        log = self._create(tenant, name)
        self.heads[log] = BEGINNING
        return log

    def delete_log(self, log: int) -> None:
        """Remove all records but the last and all snapshots of one of the transaction's logs."""
        self._check_open(log)
        self._delete(log, self.heads.pop(log))

    def append(self, log: int, records: Sequence[LogRecord]) -> None:
        """Append records, the first of which follows the head.

        Args:
            log: one of the transaction's logs.
            records: the records, numbered without gaps.
        """
        self._check_open(log)
        check_continues(self.heads[log], records)
        if records:
            self._append(log, records)
            self.heads[log] = head_of(records[-1])

    def save_snapshot(self, log: int, sequence: int, data: bytes) -> None:
        """Keep a snapshot of the state of a log after the record ``sequence``, in place of another.

        Args:
            log: one of the transaction's logs.
            sequence: the last record that the state includes.
            data: the state as bytes.
        """
        self._check_open(log)
        self._save(log, sequence, data)

    def forget_snapshots(self, log: int, sequences: Collection[int]) -> None:
        """Remove snapshots of a log.

        Args:
            log: one of the transaction's logs.
            sequences: the records after which they were saved.
        """
        self._check_open(log)
        if sequences:
            self._forget(log, sequences)

    def _check_open(self, log: int) -> None:
        if log not in self.heads:
            raise InvalidParameter(
                f"the transaction cannot write to log {log}: it was not opened with that log, or "
                "the log does not exist or is deleted."
            )

    @abstractmethod
    def _read_head(self, log: int) -> Head:
        """Return the end of a log that is not one of the transaction's."""

    @abstractmethod
    def _create(self, tenant: str, name: str) -> int:
        """Add a log to the directory and return its number."""

    @abstractmethod
    def _delete(self, log: int, head: Head) -> None:
        """Mark a log as deleted; remove its snapshots and all records before its head."""

    @abstractmethod
    def _append(self, log: int, records: Sequence[LogRecord]) -> None:
        """Append records that follow the head."""

    @abstractmethod
    def _save(self, log: int, sequence: int, data: bytes) -> None:
        """Keep a snapshot in place of another."""

    @abstractmethod
    def _forget(self, log: int, sequences: Collection[int]) -> None:
        """Remove snapshots."""


class Store(ABC):
    """Logs of records with snapshots."""

    is_shared: ClassVar[bool] = False
    """Whether several servers may write to it."""
    recovers: ClassVar[bool] = False
    """Whether the store can be used again after it has failed, without being opened again."""
    most_logs: ClassVar[int | None] = None
    """How many logs one transaction may append to; ``None`` for any number."""
    name: str = ""
    """Where it is, so that stores can be told apart; empty if it does not outlast the process."""
    restored: bool = False
    """Whether it was just accepted as one from a backup."""

    @abstractmethod
    def transaction(
        self, logs: Mapping[int, int] = NO_LOGS, *, creates: bool = False
    ) -> AbstractContextManager[Transaction]:
        """Wait until the logs are free and begin a transaction.

        Args:
            logs: the logs that it may append to, each with the last record that the caller knows: a
                store on another machine fetches what follows together with the lock.
            creates: whether it may create logs.
        """

    def check(self) -> None:  # noqa: B027  # some stores keep nothing else
        """Raise ``DamagedFile`` if what it keeps beside records, such as an index, is damaged."""

    def back_up(self, target: Path | str) -> None:
        """Write a consistent copy into a new file, while the store is in use.

        Args:
            target: the file, which must not exist.
        """
        raise InvalidParameter(
            f"{type(self).__name__} is not a file; back it up with the tools of its database."
        )

    @abstractmethod
    def close(self) -> None:
        """Release what the store holds; it cannot be used afterwards."""


def in_transaction(store: Store, work: Callable[..., T], *arguments: Any) -> T:
    """Return what a function of a transaction and ``arguments`` returns."""
    with store.transaction() as transaction:
        return work(transaction, *arguments)


SCHEMA = 10
"""The version of the tables."""
_DELETED_AT_ONCE = 100_000

_RECORDS = "SELECT sequence, payload, digest, subject FROM records"
HEAD = "SELECT sequence, digest FROM records WHERE log = ? ORDER BY sequence DESC LIMIT 1"
READ = f"{_RECORDS} WHERE log = ? AND sequence > ? ORDER BY sequence LIMIT ?"


class SqlTransaction(Transaction):
    """A transaction of a database; a ``?`` in a query stands for a value."""

    NOT_DELETED: ClassVar[str]
    """The condition of the index of names, as the database knows it."""
    AMONG: ClassVar[str]
    """What follows a column that must be among the numbers of an :meth:`_array`."""
    BY_SUBJECT: ClassVar[str] = ""
    """What makes the database find records with their index by subject."""

    @abstractmethod
    def _execute(self, query: str, values: Sequence[Any] = ()) -> Iterable[Any]:
        """Return the rows of a query that sees what was appended before."""

    @abstractmethod
    def _change(self, query: str, values: Sequence[Any]) -> Iterable[Any]:
        """Perform a statement that writes, and return its rows."""

    @staticmethod
    @abstractmethod
    def _array(members: Iterable[object]) -> str:
        """Return numbers as one value of a query."""

    def logs(self, tenant: str | None = None) -> list[LogEntry]:
        query = (
            "SELECT log, tenant, name, is_deleted FROM logs WHERE tenant = coalesce(?, tenant) "
            "ORDER BY log"
        )
        rows = self._execute(query, (tenant,))
        return [LogEntry(log, owner, name, bool(gone)) for log, owner, name, gone in rows]

    def find_log(self, tenant: str, name: str) -> int | None:
        query = f"SELECT log FROM logs WHERE tenant = ? AND name = ? AND {self.NOT_DELETED}"
        return next((log for (log,) in self._execute(query, (tenant, name))), None)

    def _create(self, tenant: str, name: str) -> int:
        # Rows of deleted logs stay, so that no number is given twice.
        query = (
            "INSERT INTO logs (log, tenant, name) SELECT coalesce(max(log), 0) + 1, ?, ? FROM logs "
            "RETURNING log"
        )
        ((log,),) = self._change(query, (tenant, name))
        return int(log)

    def _delete(self, log: int, head: Head) -> None:
        self._change("UPDATE logs SET is_deleted = true WHERE log = ?", (log,))
        self._change("DELETE FROM snapshots WHERE log = ?", (log,))
        # All but the last, in parts, since a statement may have a limit of time.
        for last in range(0, head.sequence - 1, _DELETED_AT_ONCE):
            until = min(last + _DELETED_AT_ONCE, head.sequence - 1)
            query = "DELETE FROM records WHERE log = ? AND sequence > ? AND sequence <= ?"
            self._change(query, (log, last, until))

    def _read_head(self, log: int) -> Head:
        return next((Head(*row) for row in self._execute(HEAD, (log,))), BEGINNING)

    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[LogRecord]:
        query = f"{_RECORDS} WHERE log = ? AND sequence {self.AMONG} ORDER BY sequence"
        return map(make_record, self._execute(query, (log, self._array(sequences))))

    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[LogRecord]:
        query = (
            f"{_RECORDS}{self.BY_SUBJECT} WHERE log = ? AND subject {self.AMONG} AND sequence > ? "
            "ORDER BY sequence"
        )
        return map(make_record, self._execute(query, (log, self._array(subjects), after)))

    def snapshots(self, log: int) -> dict[int, int]:
        query = "SELECT sequence, length(data) FROM snapshots WHERE log = ? ORDER BY sequence"
        return dict(self._execute(query, (log,)))

    def load_snapshot(self, log: int, sequence: int) -> bytes:
        query = "SELECT data FROM snapshots WHERE log = ? AND sequence = ?"
        data: bytes | None = next((data for (data,) in self._execute(query, (log, sequence))), None)
        if data is None:  # listed by an index whose table is damaged
            raise DamagedFile(f"the snapshot after record {sequence} cannot be read.")
        return data

    def _save(self, log: int, sequence: int, data: bytes) -> None:
        query = (
            "INSERT INTO snapshots VALUES (?, ?, ?) "
            "ON CONFLICT (log, sequence) DO UPDATE SET data = excluded.data"
        )
        self._change(query, (log, sequence, data))

    def _forget(self, log: int, sequences: Collection[int]) -> None:
        query = f"DELETE FROM snapshots WHERE log = ? AND sequence {self.AMONG}"
        self._change(query, (log, self._array(sequences)))


def check_continues(head: Head, records: Sequence[LogRecord]) -> None:
    """Refuse records that are not numbered from the head on."""
    for expected, record in enumerate(records, head.sequence + 1):
        if record.sequence != expected:
            raise InvalidParameter(
                f"the next record must have the number {expected}; got {record.sequence}."
            )


def check_schema(store: str, version: int | None, of_first_design: int) -> None:
    """Refuse tables of another version; those of the first design have one log for all."""
    if version == of_first_design:
        raise DamagedFile(
            f"{store} holds one log for all experiments, as earlier versions of armrace wrote it; "
            "armrace upgrade OLD NEW writes it into a new store."
        )
    if version != SCHEMA:
        raise DamagedFile(f"{store} has the schema {version}; this version reads {SCHEMA}.")
