"""A store in memory, for tests and for trying things out: it lasts as long as its process."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from operator import attrgetter

from armrace.service.chain import BEGINNING, Head, Record
from armrace.service.stores.base import Store, Turn, check_continues

__all__ = ["MemoryStore"]


class MemoryStore(Store):
    """A list of records."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.kept_snapshots: dict[int, bytes] = {}
        self.subjects: dict[int, list[Record]] = {}
        self._lock = threading.RLock()

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        with self._lock:
            turn = _MemoryTurn(self)
            yield turn
            turn.commit()

    def close(self) -> None:
        pass


class _MemoryTurn(Turn):
    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._new: list[Record] = []
        # A copy, so that a turn that fails leaves nothing behind.
        self._snapshots = dict(store.kept_snapshots)

    @property
    def head(self) -> Head:
        for records in (self._new, self._store.records):
            if records:
                return Head(records[-1].sequence, records[-1].digest)
        return BEGINNING

    def read(self, after: int = 0, most: int | None = None) -> Iterator[Record]:
        kept = self._store.records
        found = chain(kept[after:], self._new[max(0, after - len(kept)) :])
        return islice(found, most)

    def read_many(self, sequences: Collection[int]) -> Iterator[Record]:
        wanted = sorted({each for each in sequences if 0 < each <= self.head.sequence})
        return (next(self.read(each - 1, 1)) for each in wanted)

    def find_many(self, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        wanted = set(subjects)
        kept = chain.from_iterable(self._store.subjects.get(each, []) for each in wanted)
        new = [record for record in self._new if record.subject in wanted]
        found = [record for record in (*kept, *new) if record.sequence > after]
        return iter(sorted(found, key=attrgetter("sequence")))

    def append(self, records: Sequence[Record]) -> None:
        check_continues(self.head, records)
        self._new.extend(records)

    def snapshots(self) -> list[int]:
        return sorted(self._snapshots)

    def load_snapshot(self, sequence: int) -> bytes:
        return self._snapshots[sequence]

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        self._snapshots[sequence] = data

    def forget_snapshots(self, sequences: Sequence[int]) -> None:
        for sequence in sequences:
            self._snapshots.pop(sequence, None)

    def commit(self) -> None:
        self._store.records.extend(self._new)
        for record in self._new:
            if record.subject is not None:
                self._store.subjects.setdefault(record.subject, []).append(record)
        self._store.kept_snapshots = self._snapshots
