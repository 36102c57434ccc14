"""What transactions of stores have in common: checks of each write, and the SQL of databases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from armrace.errors import AlreadyExists, DamagedFile, InvalidParameter
from armrace.service.log.chain import BEGINNING, Head, Record, head_of, make_record
from armrace.service.log.store import LogEntry, Transaction

SCHEMA = 10
"""The version of the tables."""
_DELETED_AT_ONCE = 100_000

_RECORDS = "SELECT sequence, payload, digest, subject FROM records"
HEAD = "SELECT sequence, digest FROM records WHERE log = ? ORDER BY sequence DESC LIMIT 1"
READ = f"{_RECORDS} WHERE log = ? AND sequence > ? ORDER BY sequence LIMIT ?"


class CheckedTransaction(Transaction):
    """A transaction that checks each write against the contract before the store performs it.

    It is given the ends of the logs that it may append to: those that it was opened with, if they
    exist and are not deleted.
    """

    def __init__(self, heads: dict[int, Head], creates: bool) -> None:
        self.heads = heads
        self._creates = creates

    def head(self, log: int) -> Head:
        return self.heads.get(log) or self._read_head(log)

    def create_log(self, tenant: str, name: str) -> int:
        if not self._creates:
            raise InvalidParameter("the transaction was not opened to create logs.")
        if self.find_log(tenant, name) is not None:
            raise AlreadyExists(f"there is a log named {name!r} of {tenant!r}.")
        log = self._create(tenant, name)
        self.heads[log] = BEGINNING
        return log

    def delete_log(self, log: int) -> None:
        self._check_open(log)
        self._delete(log, self.heads.pop(log))

    def append(self, log: int, records: Sequence[Record]) -> None:
        self._check_open(log)
        check_continues(self.heads[log], records)
        if records:
            self._append(log, records)
            self.heads[log] = head_of(records[-1])

    def save_snapshot(self, log: int, sequence: int, data: bytes) -> None:
        self._check_open(log)
        self._save(log, sequence, data)

    def forget_snapshots(self, log: int, sequences: Collection[int]) -> None:
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
    def _append(self, log: int, records: Sequence[Record]) -> None:
        """Append records that follow the head."""

    @abstractmethod
    def _save(self, log: int, sequence: int, data: bytes) -> None:
        """Keep a snapshot in place of another."""

    @abstractmethod
    def _forget(self, log: int, sequences: Collection[int]) -> None:
        """Remove snapshots."""


class SqlTransaction(CheckedTransaction):
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

    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[Record]:
        query = f"{_RECORDS} WHERE log = ? AND sequence {self.AMONG} ORDER BY sequence"
        return map(make_record, self._execute(query, (log, self._array(sequences))))

    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
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


def check_continues(head: Head, records: Sequence[Record]) -> None:
    """Refuse records that are not numbered from the head on."""
    for expected, record in enumerate(records, head.sequence + 1):
        if record.sequence != expected:
            raise InvalidParameter(
                f"the next record must have the number {expected}; got {record.sequence}."
            )


def check_schema(store: str, version: int | None, of_first_design: range) -> None:
    """Refuse tables of another version; those of the first design have one log for all."""
    if version in of_first_design:
        raise DamagedFile(
            f"{store} holds one log for all experiments, as earlier versions of armrace wrote it; "
            "armrace upgrade OLD NEW writes it into a new store."
        )
    if version != SCHEMA:
        raise DamagedFile(f"{store} has the schema {version}; this version reads {SCHEMA}.")
