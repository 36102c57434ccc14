"""The check of a whole store: its logs, its snapshots, and the states that they lead to."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from armrace.errors import DamagedFile
from armrace.service.background import uncollected
from armrace.service.loading import PART, check_subjects, events_of, in_parts, shortened
from armrace.service.log.chain import BEGINNING, Chain, Record, head_of
from armrace.service.log.marks import Marks, check_mark
from armrace.service.log.store import LogEntry, Store, Transaction
from armrace.service.model.events import ACTIONS, Deleted, decode, verdicts_in
from armrace.service.model.experiment import Experiment


class StoreReport(msgspec.Struct, frozen=True):
    """What an intact store holds."""

    records: int
    experiments: int
    deleted: int
    """Experiments that were deleted, of which the last record is left."""
    decisions: int
    open_decisions: int
    snapshots: int


def check_store_content(
    store: Store,
    secret: bytes,
    marks: Marks | None = None,
    note: Callable[[float], None] = lambda share: None,
) -> StoreReport:
    """Check all that a store holds, and change nothing; ``note`` is told the share that is done.

    For each log: the digests that chain its records, what records are found by, that its snapshots
    are the replay of the log up to them, and that the state a server starts with, from the latest
    snapshot on, is the replay of the whole log. Also the store's own structures, and the marks of
    its logs, if they are kept with the keys.
    """
    store.check()
    with store.transaction() as transaction:
        entries = transaction.logs()
    found: list[tuple[int, ...]] = [(0, 0, 0, 0, 0, 0)]
    for number, entry in enumerate(entries):
        mark = None if marks is None else marks.get(entry.log)  # before servers move it on
        # A transaction for each log, which sees it as it was at one moment.
        with store.transaction() as transaction:
            if mark is not None:
                check_mark(transaction, entry.log, mark)
            log = _LogCheck(transaction, entry, secret)
            try:
                found.append(log.check_deleted() if entry.is_deleted else log.check())
            except DamagedFile as error:
                where = f"experiment {entry.name!r} of {entry.tenant!r} (log {entry.log})"
                raise DamagedFile(f"{where}: {error}") from None
        note((number + 1) / len(entries))
    return StoreReport(*(sum(each) for each in zip(*found, strict=True)))


class _LogCheck:
    def __init__(self, transaction: Transaction, entry: LogEntry, secret: bytes) -> None:
        self._transaction, self._entry = transaction, entry
        self._chain = Chain(secret, entry.log)
        self._head, self._end = BEGINNING, transaction.head(entry.log)
        self._snapshots = list(transaction.snapshots(entry.log))
        self._actions = list(transaction.find_many(entry.log, (ACTIONS,)))
        self._verdicts = verdicts_in(self._actions)
        self._passed: list[int] = []
        """Actions that the replay has passed."""

    def check_deleted(self) -> tuple[int, ...]:
        """Check what is left of a log that was deleted."""
        left = list(self._transaction.read(self._entry.log))
        event = decode(left[0].payload) if len(left) == 1 else None
        if not isinstance(event, Deleted) or event.records != left[0].sequence - 1:
            raise DamagedFile("the log is marked as deleted, but has not been.")
        check_subjects(left)
        if self._snapshots:
            raise DamagedFile("the log is deleted, and a snapshot is left of it.")
        return 1, 0, 1, 0, 0, 0

    def check(self) -> tuple[int, ...]:
        """Check a log; return what it holds, as a report counts it."""
        if self._end == BEGINNING:
            raise DamagedFile("the log of an experiment is empty.")
        experiment = None
        for last in [*self._snapshots, self._end.sequence]:
            if last > self._end.sequence:
                raise shortened(self._end, last)
            experiment = self._replay(experiment, last)
            if last in self._snapshots and not _are_same(self._load(last), experiment):
                raise DamagedFile(
                    f"the snapshot after record {last} is not the replay of the log up to it."
                )
        assert experiment is not None
        if experiment.head != self._end:
            raise shortened(self._end, experiment.head.sequence + 1)
        if self._passed != [record.sequence for record in self._actions]:
            raise DamagedFile("the log is damaged: not all actions are found by their subject.")
        if (experiment.tenant, experiment.name) != (self._entry.tenant, self._entry.name):
            raise DamagedFile("the directory leads to the log of another experiment.")
        if experiment.is_deleted:
            raise DamagedFile("the log says that it was deleted, but has not been.")
        if self._snapshots and not _are_same(self._start(), experiment):
            raise DamagedFile("the state from the latest snapshot on is not the replay of the log.")
        counts = experiment.decisions, len(experiment.open), len(self._snapshots)
        return self._end.sequence, 1, 0, *counts

    def _replay(self, experiment: Experiment | None, last: int) -> Experiment | None:
        for part in self._read(self._head.sequence, last):
            self._chain.verify(self._head, part)  # before anything else is read from the records
            self._head = head_of(part[-1])
            check_subjects(part)
            self._passed += [record.sequence for record in part if record.subject == ACTIONS]
            with uncollected():
                experiment = Experiment.replay(events_of(part), experiment, self._verdicts)
        return experiment

    def _read(self, after: int, last: int) -> Iterator[list[Record]]:
        if last <= after:
            return iter(())
        return in_parts(self._transaction.read(self._entry.log, after, last - after), PART)

    def _load(self, sequence: int) -> Experiment | None:
        """Return a snapshot with what was ruled since; ``None`` if it contradicts that."""
        data = self._transaction.load_snapshot(self._entry.log, sequence)
        try:
            state = Experiment.load(data)
        except DamagedFile:
            return None
        later = verdicts_in(r for r in self._actions if r.sequence > sequence)
        if any(later.get(visit.sequence) == "void" for visit in state.open):
            return None
        state.preload(later)
        return state

    def _start(self) -> Experiment | None:
        """Return the state that a server starts with, from the latest snapshot on."""
        state = self._load(self._snapshots[-1])
        for part in self._read(self._snapshots[-1], self._end.sequence):
            state = Experiment.replay(events_of(part), state)
        return state


def _are_same(one: Experiment | None, other: Experiment | None) -> bool:
    return one is not None and other is not None and one.save() == other.save()
