"""A store in memory, for tests and for trying things out: it lasts as long as its process."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from operator import attrgetter

from armrace.service.log.chain import BEGINNING, Head, LogRecord, head_of
from armrace.service.log.store import NO_LOGS, LogEntry, Store, Transaction

_sequence = attrgetter("sequence")


class _Log:
    """A log with its place in the directory."""

    def __init__(self, entry: LogEntry) -> None:
        self.entry = entry
        self.records: list[LogRecord] = []
        self.subjects: defaultdict[int, list[LogRecord]] = defaultdict(list)
        self.snapshots: dict[int, bytes] = {}

    @property
    def head(self) -> Head:
        return head_of(self.records[-1]) if self.records else BEGINNING

    def append(self, records: Sequence[LogRecord]) -> None:
        self.records.extend(records)
        for record in records:
            if record.subject is not None:
                self.subjects[record.subject].append(record)

    def cut(self, length: int) -> None:
        for record in self.records[length:]:
            if record.subject is not None:
                self.subjects[record.subject].pop()
        del self.records[length:]


class MemoryStore(Store):
    """Lists of records; all transactions are serial."""

    def __init__(self) -> None:
        self._logs: dict[int, _Log] = {}
        self._lock = threading.RLock()

    @contextmanager
    def transaction(
        self, logs: Mapping[int, int] = NO_LOGS, *, creates: bool = False
    ) -> Iterator[Transaction]:
        with self._lock:
            transaction = _MemoryTransaction(self._logs, logs, creates)
            try:
                yield transaction
            except BaseException:
                transaction.roll_back()
                raise

    def close(self) -> None:
        pass


class _MemoryTransaction(Transaction):
    def __init__(self, logs: dict[int, _Log], opened: Collection[int], creates: bool) -> None:
        found = ((log, logs.get(log)) for log in opened)
        super().__init__(
            {log: each.head for log, each in found if each and not each.entry.is_deleted}, creates
        )
        self._logs = logs
        self._undo: list[Callable[[], object]] = []
        """What leads back to the state before the transaction, last change last."""

    def roll_back(self) -> None:
        while self._undo:
            self._undo.pop()()

    def logs(self, tenant: str | None = None) -> list[LogEntry]:
        entries = (log.entry for log in self._logs.values())
        return [entry for entry in entries if tenant is None or entry.tenant == tenant]

    def find_log(self, tenant: str, name: str) -> int | None:
        wanted = (tenant, name, False)
        return next((entry.log for entry in self.logs(tenant) if entry[1:] == wanted), None)

    def _create(self, tenant: str, name: str) -> int:
        log = len(self._logs) + 1
        self._logs[log] = _Log(LogEntry(log, tenant, name))
        self._undo.append(partial(self._logs.pop, log))
        return log

    def _delete(self, log: int, head: Head) -> None:
        before = self._logs[log]
        gone = _Log(before.entry._replace(is_deleted=True))
        gone.append(before.records[-1:])
        self._logs[log] = gone
        self._undo.append(partial(self._logs.__setitem__, log, before))

    def _read_head(self, log: int) -> Head:
        return self._log(log).head

    def _log(self, log: int) -> _Log:
        return self._logs.get(log) or _Log(LogEntry(log, "", ""))

    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[LogRecord]:
        records = self._log(log).records
        start = bisect_right(records, after, key=_sequence)
        return islice(records, start, None if most is None else start + most)

    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[LogRecord]:
        for sequence in sorted(set(sequences)):
            for record in self.read(log, sequence - 1, 1):
                if record.sequence == sequence:
                    yield record

    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[LogRecord]:
        known = self._log(log).subjects
        found = chain.from_iterable(known.get(subject, ()) for subject in set(subjects))
        later = (record for record in found if record.sequence > after)
        return iter(sorted(later, key=_sequence))

    def _append(self, log: int, records: Sequence[LogRecord]) -> None:
        kept = self._logs[log]
        self._undo.append(partial(kept.cut, len(kept.records)))
        kept.append(records)

    def snapshots(self, log: int) -> dict[int, int]:
        known = self._log(log).snapshots
        return {sequence: len(known[sequence]) for sequence in sorted(known)}

    def load_snapshot(self, log: int, sequence: int) -> bytes:
        return self._logs[log].snapshots[sequence]

    def _save(self, log: int, sequence: int, data: bytes) -> None:
        self._change_snapshots(log)[sequence] = data

    def _forget(self, log: int, sequences: Collection[int]) -> None:
        kept = self._change_snapshots(log)
        for sequence in sequences:
            kept.pop(sequence, None)

    def _change_snapshots(self, log: int) -> dict[int, bytes]:
        """Return a copy of a log's snapshots that takes their place."""
        kept = self._logs[log]
        self._undo.append(partial(setattr, kept, "snapshots", kept.snapshots))
        kept.snapshots = dict(kept.snapshots)
        return kept.snapshots
