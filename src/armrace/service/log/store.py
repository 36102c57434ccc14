"""The contract of stores.

A store keeps one append-only log of records for each experiment, some snapshots of each, and a
directory of the logs by tenant and name. It knows nothing of events: records are bytes with a
sequence number, a digest and perhaps a subject. These rules hold for every store, and
:func:`armrace.checking.check_store` checks them:

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
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, NamedTuple

from armrace.errors import InvalidParameter
from armrace.service.log.chain import Head, Record

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
    """The right to read, and to append to some logs, until the end of a ``with`` block."""

    @abstractmethod
    def logs(self, tenant: str | None = None) -> list[LogEntry]:
        """Return a tenant's logs, by default everybody's, by number; deleted logs included."""

    @abstractmethod
    def find_log(self, tenant: str, name: str) -> int | None:
        """Return the number of the log of this name that is not deleted, if there is one."""

    @abstractmethod
    def create_log(self, tenant: str, name: str) -> int:
        """Create a log in a transaction that was opened with ``creates``; return its number.

        The transaction may append to it. No log that is not deleted may have the name.
        """

    @abstractmethod
    def delete_log(self, log: int) -> None:
        """Remove all records but the last and all snapshots of one of the transaction's logs."""

    @abstractmethod
    def head(self, log: int) -> Head:
        """Return the end of a log, with what this transaction has appended."""

    @abstractmethod
    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[Record]:
        """Yield the records of a log whose sequence number is above ``after``, in order.

        Args:
            log: the log.
            after: the number of the last record that is not wanted.
            most: how many records are wanted at most; by default all.
        """

    @abstractmethod
    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[Record]:
        """Yield the records with one of these sequence numbers, in order.

        Args:
            log: the log.
            sequences: the sequence numbers; those that no record has are left out.
        """

    @abstractmethod
    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        """Yield the records with one of these subjects, in order; ``after`` as for :meth:`read`."""

    @abstractmethod
    def append(self, log: int, records: Sequence[Record]) -> None:
        """Append records, the first of which follows the head.

        Args:
            log: one of the transaction's logs.
            records: the records, numbered without gaps.
        """

    @abstractmethod
    def snapshots(self, log: int) -> dict[int, int]:
        """Return the size of each snapshot of a log by its sequence number, in increasing order."""

    @abstractmethod
    def load_snapshot(self, log: int, sequence: int) -> bytes:
        """Return a snapshot of the state of a log after the record ``sequence``."""

    @abstractmethod
    def save_snapshot(self, log: int, sequence: int, data: bytes) -> None:
        """Keep a snapshot of the state of a log after the record ``sequence``, in place of another.

        Args:
            log: one of the transaction's logs.
            sequence: the last record that the state includes.
            data: the state as bytes.
        """

    @abstractmethod
    def forget_snapshots(self, log: int, sequences: Collection[int]) -> None:
        """Remove snapshots of a log.

        Args:
            log: one of the transaction's logs.
            sequences: the records after which they were saved.
        """

    def time(self) -> int | None:
        """Return the store's own time in milliseconds, if processes share its clock."""
        return None


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
