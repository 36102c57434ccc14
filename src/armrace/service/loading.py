"""Reading, replaying and checking logs, in short transactions beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import msgspec

from armrace.errors import DamagedFile, ForeignTicket
from armrace.kernels.compiling import compiling_refused
from armrace.learner import Learner
from armrace.learner.learner import compile_learner
from armrace.service.background import AskAhead, ask_ahead, uncollected
from armrace.service.log.chain import (
    BEGINNING,
    Chain,
    Head,
    LogRecord,
    head_of,
    make_record,
)
from armrace.service.log.marks import Marks, check_mark
from armrace.service.log.store import LogEntry, Store, Transaction
from armrace.service.model.events import (
    ACTIONS,
    Deleted,
    Event,
    Verdicts,
    decode,
    decode_many,
    subject,
    verdicts_in,
)
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.settings import FIRST_HORIZON, Settings
from armrace_client.answers import Verdict

STEP = 10_000
"""How many records lie between two snapshots at least."""
_PER_LEVEL = 4


def outdated(sizes: Mapping[int, int], budget: int, step: int = STEP) -> list[int]:
    """Return the snapshots that are not to be kept; the latest always is.

    The first snapshot in each of the last four stretches of length ``step``, ``2 step``, ``4 step``
    and so on is kept, some 27 for a log of 10^8 records. A ruling about the last share ``x`` of a
    log then replays at most some ``1.7 x`` of it.

    Of each snapshot, the size in bytes is given by its sequence number, in increasing order; all
    may have ``budget`` bytes. The shortest stretch has the length ``step``.

    >>> outdated(dict.fromkeys(range(10, 200, 10), 1), budget=100, step=10)
    [20, 30, 50, 60, 70, 90, 100, 110, 130, 150]
    """
    while len(kept := _kept(list(sizes), step)) > 1 and sum(sizes[each] for each in kept) > budget:
        step *= 2
    return [each for each in sizes if each not in kept]


def _kept(sequences: list[int], step: int) -> Collection[int]:
    last = sequences[-1] if sequences else 0
    kept = {last}
    while sequences and step <= 2 * last:
        firsts: dict[int, int] = {}
        for each in sequences:
            firsts.setdefault(each // step, each)
        kept.update(list(firsts.values())[-_PER_LEVEL:])
        step *= 2
    return kept


T = TypeVar("T")
PART = 500
"""How many records are read in one transaction, and applied before others are served."""


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of at most ``size``."""
    remaining = iter(items)
    while part := list(islice(remaining, size)):
        yield part


def events_of(part: list[LogRecord]) -> list[tuple[LogRecord, Event]]:
    """Return records that were verified, each with its event."""
    return list(zip(part, decode_many([record.payload for record in part]), strict=True))


def check_subjects(part: list[LogRecord]) -> None:
    """Refuse records that are not found by what they are about, which digests do not cover."""
    for record, event in events_of(part):
        if record.subject != subject(event):
            raise DamagedFile(
                f"the log is damaged: record {record.sequence} is kept under a wrong subject."
            )


def shortened(end: Head, seen: int) -> DamagedFile:
    """Return the error that a log does not hold a record that was seen in it."""
    return DamagedFile(
        f"the log has lost acknowledged events: it ends with record {end.sequence}, and does not "
        f"hold record {seen} as it was."
    )


class Gone(ForeignTicket):
    """There is no such log, or its experiment was deleted."""

    def __init__(self) -> None:
        super().__init__(
            "the decision is of another log, or of an experiment that is not there any more."
        )


def check_there(transaction: Transaction, log: int) -> None:
    """Refuse a log that does not exist, or of which only the record of its deletion is left."""
    last = list(transaction.read_many(log, [transaction.head(log).sequence]))
    if not last or isinstance(decode(last[0].payload), Deleted):
        raise Gone


def compile_policy(settings: Settings) -> None:
    """Compile, or load, what every experiment of these settings calls."""
    horizon = settings.horizon or FIRST_HORIZON
    learner = Learner(settings.make_policy(), 2, horizon, log=False, shape=settings.shape)
    compile_learner(learner, batches=False)


class Replayed(NamedTuple):
    """An experiment that was replayed, and what the replay began with and passed."""

    experiment: ExperimentState
    base: int
    """The snapshot that it began with; 0 for the beginning of the log."""
    snapshots: dict[int, bytes]
    """Snapshots that were made anew on the way."""


class LogReader:
    """Reads one log beside the engine, here or in a helper, to which it can be sent."""

    def __init__(self, ask_ahead: AskAhead, log: int, secret: bytes) -> None:
        self._ask_ahead = ask_ahead
        self._log, self._secret = log, secret
        self._chain = Chain(secret, log)

    @property
    def identity(self) -> tuple[int, bytes]:
        """What tells its log from all others, also of other stores."""
        return self._log, self._secret

    def __reduce__(self) -> tuple[Any, ...]:
        return LogReader, (ask_ahead, self._log, self._secret)

    def _ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return self._ask_ahead(work, self._log, *arguments)()

    def parts(self, after: Head = BEGINNING, end: int | None = None) -> Iterator[list[LogRecord]]:
        """Yield records in parts that were checked against the chain.

        They are those after ``after`` up to ``end``, by default the last one that there is now.
        """
        if end is None:
            end = self._ask(_end_of)
        if after.sequence >= end:
            return
        ahead = self._ask_ahead(_part, self._log, after.sequence, end)
        while after.sequence < end:
            part = list(map(make_record, ahead()))
            if not part:
                raise shortened(after, end)
            # The next part is read while this one is looked at.
            if part[-1].sequence < end:
                ahead = self._ask_ahead(_part, self._log, part[-1].sequence, end)
            self._chain.verify(after, part)
            yield part
            after = head_of(part[-1])

    def visits(self, sequences: Collection[int], end: int) -> Iterator[list[LogRecord]]:
        """Yield the records up to ``end`` of some visits and of all actions, in their order.

        They are found by what they are about, and not checked against the chain.
        """
        yield list(map(make_record, self._ask(_visits, [*sequences], end)))

    def verdicts(self, after: int = 0) -> Verdicts:
        """Return the last ruling about each visit that records after ``after`` speak of."""
        verdicts: Verdicts = self._ask(_verdicts, after)
        return verdicts

    def load(self) -> tuple[ExperimentState, int]:
        """Return the experiment at the end of its log, and its latest snapshot or 0."""
        while True:
            base, data, verdicts, end = self._ask(_latest)
            experiment = None if data is None else ExperimentState.load(data)
            if experiment is not None:
                experiment.preload(verdicts)
            replayed = self._apply(experiment, verdicts, end.sequence)
            if replayed.head == end:
                replayed.verdicts = {}
                return replayed, base
            # Else the log was rewritten while it was read, as by a failover.

    def _apply(
        self, experiment: ExperimentState | None, verdicts: Mapping[int, Verdict], end: int | None
    ) -> ExperimentState:
        after = BEGINNING if experiment is None else experiment.head
        for part in self.parts(after, end):
            with uncollected():
                experiment = ExperimentState.replay(events_of(part), experiment, verdicts)
        if experiment is None:
            raise DamagedFile("the log of an experiment is empty.")
        return experiment

    def replay(self, ruled: Mapping[int, Verdict], end: int) -> Replayed:
        """Replay the log up to ``end`` with rulings beyond what it says.

        It begins with the latest snapshot that they leave valid.
        """
        sequences = [each for each in self._ask(_snapshots) if each <= end]
        base, experiment = self._base(sequences, ruled)
        # The new rulings last: they overrule what the log says about the same visits.
        verdicts = {**self.verdicts(after=base), **ruled}
        if experiment is not None:
            experiment.preload(verdicts)
        snapshots = {}
        for stop in [*(each for each in sequences if each > base), end]:
            experiment = self._apply(experiment, verdicts, stop)
            if stop < end:
                snapshots[stop] = experiment.save()
        assert experiment is not None
        return Replayed(experiment, base, snapshots)

    def follow(self, experiment: ExperimentState) -> None:
        """Apply what has come since a replay, until little is left."""
        while (end := self._ask(_end_of)) - experiment.head.sequence > PART:
            self._apply(experiment, experiment.verdicts, end)

    def _base(
        self, sequences: list[int], ruled: Mapping[int, Verdict]
    ) -> tuple[int, ExperimentState | None]:
        """Return the latest snapshot that rulings leave valid; 0 and nothing if there is none."""
        first_void = min((each for each in ruled if ruled[each] == "void"), default=None)
        for sequence in reversed(sequences):
            if first_void is not None and sequence >= first_void:
                continue
            if (data := self._ask(_snapshot, sequence)) is None:
                continue
            experiment = ExperimentState.load(data)
            made = {each: verdict for each, verdict in ruled.items() if each <= sequence}
            if not experiment.needs_replay(made):
                return sequence, experiment
        return 0, None


# What a reader asks for, each in a transaction of its own.


def _end_of(transaction: Transaction, log: int) -> int:
    return transaction.head(log).sequence


def _part(transaction: Transaction, log: int, after: int, end: int) -> list[tuple[Any, ...]]:
    # What was appended since is not wanted: the caller sees the log of one moment.
    part = [*map(tuple, transaction.read(log, after, min(PART, end - after)))]
    if not part or part[0][0] != after + 1:
        check_there(transaction, log)  # it may have been deleted meanwhile
    return part


def _visits(
    transaction: Transaction, log: int, sequences: list[int], end: int
) -> list[tuple[Any, ...]]:
    found = [*transaction.read_many(log, sequences)]
    found += transaction.find_many(log, {ACTIONS, *sequences})
    found.sort(key=lambda each: each.sequence)
    return [tuple(each) for each in found if each.sequence <= end]


def _verdicts(transaction: Transaction, log: int, after: int) -> Verdicts:
    return verdicts_in(transaction.find_many(log, (ACTIONS,), after))


def _latest(transaction: Transaction, log: int) -> tuple[int, bytes | None, Verdicts, Head]:
    base = max(transaction.snapshots(log), default=0)
    data = transaction.load_snapshot(log, base) if base else None
    return base, data, _verdicts(transaction, log, base), transaction.head(log)


def _snapshots(transaction: Transaction, log: int) -> list[int]:
    return [*transaction.snapshots(log)]


def _snapshot(transaction: Transaction, log: int, sequence: int) -> bytes | None:
    found = sequence in transaction.snapshots(log)
    return transaction.load_snapshot(log, sequence) if found else None


def catch_up(
    experiment: ExperimentState, transaction: Transaction, log: int, chain: Chain, most: int
) -> bool:
    """Apply what others have appended to a log; return whether that was possible.

    It is not if they ruled about what was learned, appended more than ``most`` records, or deleted
    the experiment: it must be loaded again then.
    """
    head = transaction.head(log)
    if head == experiment.head:
        return True
    if head.sequence <= experiment.head.sequence:  # as after a failover to a replica that lagged
        raise shortened(head, experiment.head.sequence)
    if head.sequence - experiment.head.sequence > most:
        return False
    records = list(transaction.read(log, experiment.head.sequence))
    if records[0].sequence != experiment.head.sequence + 1:  # of a deleted log, the last is left
        return False
    chain.verify(experiment.head, records)
    verdicts = verdicts_in(records)
    known = {each: v for each, v in verdicts.items() if each <= experiment.head.sequence}
    if experiment.needs_replay(known):
        return False
    experiment.preload(verdicts)
    with compiling_refused():
        ExperimentState.replay(events_of(records), experiment, verdicts)
    experiment.verdicts = {}
    return True


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

    def _replay(self, experiment: ExperimentState | None, last: int) -> ExperimentState | None:
        for part in self._read(self._head.sequence, last):
            self._chain.verify(self._head, part)  # before anything else is read from the records
            self._head = head_of(part[-1])
            check_subjects(part)
            self._passed += [record.sequence for record in part if record.subject == ACTIONS]
            with uncollected():
                experiment = ExperimentState.replay(events_of(part), experiment, self._verdicts)
        return experiment

    def _read(self, after: int, last: int) -> Iterator[list[LogRecord]]:
        if last <= after:
            return iter(())
        return in_parts(self._transaction.read(self._entry.log, after, last - after), PART)

    def _load(self, sequence: int) -> ExperimentState | None:
        """Return a snapshot with what was ruled since; ``None`` if it contradicts that."""
        data = self._transaction.load_snapshot(self._entry.log, sequence)
        try:
            state = ExperimentState.load(data)
        except DamagedFile:
            return None
        later = verdicts_in(r for r in self._actions if r.sequence > sequence)
        if any(later.get(visit.sequence) == "void" for visit in state.open):
            return None
        state.preload(later)
        return state

    def _start(self) -> ExperimentState | None:
        """Return the state that a server starts with, from the latest snapshot on."""
        state = self._load(self._snapshots[-1])
        for part in self._read(self._snapshots[-1], self._end.sequence):
            state = ExperimentState.replay(events_of(part), state)
        return state


def _are_same(one: ExperimentState | None, other: ExperimentState | None) -> bool:
    return one is not None and other is not None and one.save() == other.save()
