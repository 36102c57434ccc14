"""What transactions of all stores have in common: they know their logs, and refuse other writes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

from armrace.errors import AlreadyExists, InvalidParameter
from armrace.service.log.chain import BEGINNING, Head, Record, head_of
from armrace.service.log.store import Transaction, check_continues

__all__ = ["OF_FIRST_DESIGN", "CheckedTransaction"]

OF_FIRST_DESIGN = (
    "holds one log for all experiments, as earlier versions of armrace wrote it; "
    "armrace upgrade OLD NEW writes it into a new store."
)
"""The rest of a sentence that refuses the tables of an earlier version."""


class CheckedTransaction(Transaction):
    """A transaction that checks each write against the contract before the store performs it.

    Args:
        heads: the ends of the logs that it may append to: those that it was opened with, if they
            exist and are not deleted.
        creates: whether it may create logs.
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
