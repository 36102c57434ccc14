"""The contract of stores.

A store keeps an append-only log of records and some snapshots. It knows nothing of events: records
are bytes with a sequence number, a digest and perhaps a subject. To read or write is to take a
*turn*; turns exclude one another, within the process and among processes. These rules hold for
every store, and :func:`armrace.checking.check_store` checks them:

1. **A turn is a transaction.** When the ``with`` block of a turn ends without an exception, all
   that was appended is durable: it survives the end of the process and, if the store is on a
   disk, a loss of power. If the block ends with an exception, nothing of it is kept.
2. **Turns are serial.** A turn sees everything that earlier turns kept, in any process.
3. **Records are numbered without gaps** from 1 in the order in which they were appended, and come
   back as they were given, bit for bit. Records that do not follow the head are refused.
4. **Records are found by their subjects**, in order, and by their numbers: many with one query.
5. **Snapshots are kept by sequence number.** They belong to the same transaction as records.
6. **A store that cannot keep its word raises** :class:`~armrace.errors.StoreFailed`, in the turn or
   at its end, and never returns as if it had.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import ClassVar

from armrace.errors import InvalidParameter
from armrace.service.chain import Head, Record

__all__ = ["Store", "Turn", "check_continues"]


class Turn(ABC):
    """The exclusive right to read and append, until the end of a ``with`` block."""

    @property
    @abstractmethod
    def head(self) -> Head:
        """The end of the log, with what this turn has appended."""

    @abstractmethod
    def read(self, after: int = 0, most: int | None = None) -> Iterator[Record]:
        """Yield the records whose sequence number is above ``after``, in order.

        Args:
            after: the number of the last record that is not wanted.
            most: how many records are wanted at most; by default all.
        """

    @abstractmethod
    def read_many(self, sequences: Collection[int]) -> Iterator[Record]:
        """Yield the records with one of these sequence numbers, in order.

        Args:
            sequences: the sequence numbers; those that no record has are left out.
        """

    @abstractmethod
    def find_many(self, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        """Yield the records with one of these subjects and a number above ``after``, in order.

        Args:
            subjects: the subjects.
            after: the number of the last record that is not wanted.
        """

    def find(self, subject: int, after: int = 0) -> Iterator[Record]:
        """Yield the records with this subject and a number above ``after``, in order.

        Args:
            subject: the subject.
            after: the number of the last record that is not wanted.
        """
        return self.find_many((subject,), after)

    @abstractmethod
    def append(self, records: Sequence[Record]) -> None:
        """Append records, the first of which follows the head.

        Args:
            records: the records, numbered without gaps.
        """

    @abstractmethod
    def snapshots(self) -> list[int]:
        """Return the sequence numbers of all snapshots, in increasing order."""

    @abstractmethod
    def load_snapshot(self, sequence: int) -> bytes:
        """Return a snapshot.

        Args:
            sequence: the record after which it was saved.
        """

    @abstractmethod
    def save_snapshot(self, sequence: int, data: bytes) -> None:
        """Keep a snapshot of the state after the record ``sequence``.

        Args:
            sequence: the last record that the state includes.
            data: the state as bytes.
        """

    @abstractmethod
    def forget_snapshots(self, sequences: Sequence[int]) -> None:
        """Remove snapshots.

        Args:
            sequences: the records after which they were saved.
        """

    def time(self) -> int | None:
        """Return the store's own time in milliseconds, if processes share its clock."""
        return None


class Store(ABC):
    """A log of records with snapshots."""

    is_shared: ClassVar[bool] = False
    """Whether several servers may write to it."""

    name: str = ""
    """Where it is, so that stores can be told apart; empty if it does not outlast the process."""

    restored: bool = False
    """Whether it was just accepted as one from a backup."""

    is_current: bool = True
    """Whether the tables have this version's schema; they may be older where nothing is changed."""

    recovers: ClassVar[bool] = False
    """Whether the store can be used again after it has failed, without being opened again."""

    @abstractmethod
    def turn(self) -> AbstractContextManager[Turn]:
        """Wait for the store to be free and take a turn."""

    def check(self) -> None:  # noqa: B027  # some stores keep nothing else
        """Look for damage of what the store keeps beside the records, such as indices.

        Raises:
            DamagedFile: there is some.
        """

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


def check_continues(head: Head, records: Sequence[Record]) -> None:
    """Refuse records that are not numbered from the head on.

    Args:
        head: the end of the log.
        records: the records that are to follow it.
    """
    for expected, record in enumerate(records, head.sequence + 1):
        if record.sequence != expected:
            raise InvalidParameter(
                f"the next record must have the number {expected}; got {record.sequence}."
            )
