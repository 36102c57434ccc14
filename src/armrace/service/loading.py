"""Reading logs, and replaying them into experiments, in short transactions beside the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from time import sleep
from typing import NamedTuple, TypeVar

from armrace.errors import DamagedFile, ForeignTicket
from armrace.kernels.refusals import compiling_refused
from armrace.online import Learner
from armrace.online.compilation import compile_learner
from armrace.service.background import uncollected
from armrace.service.log.chain import BEGINNING, Chain, Head, Record, head_of
from armrace.service.log.store import Store, Transaction
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
from armrace.service.model.experiment import Experiment
from armrace.service.model.settings import FIRST_HORIZON, Settings
from armrace_client.answers import Verdict

T = TypeVar("T")
PART = 1000
"""How many records are read in one transaction, and applied before others are served."""


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of at most ``size``."""
    remaining = iter(items)
    while part := list(islice(remaining, size)):
        yield part


def events_of(part: list[Record]) -> list[tuple[Record, Event]]:
    """Return records that were verified, each with its event."""
    return list(zip(part, decode_many([record.payload for record in part]), strict=True))


def check_subjects(part: list[Record]) -> None:
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
    compile_learner(Learner(settings.make_policy(), 2, horizon, log=False), batches=False)


class Replayed(NamedTuple):
    """An experiment that was replayed, and what the replay began with and passed."""

    experiment: Experiment
    base: int
    """The snapshot that it began with; 0 for the beginning of the log."""
    snapshots: dict[int, bytes]
    """Snapshots that were made anew on the way."""


class LogReader:
    """Reads one log beside the engine, which is let go first while it is busy."""

    def __init__(
        self, store: Store, log: int, secret: bytes, is_busy: Callable[[], bool] = lambda: False
    ) -> None:
        self._store, self._log = store, log
        self._chain = Chain(secret, log)
        self._is_busy = is_busy

    def parts(self, after: Head = BEGINNING, end: int | None = None) -> Iterator[list[Record]]:
        """Yield records in parts that were checked against the chain.

        They are those after ``after`` up to ``end``, by default the last one that there is now.
        """
        if end is None:
            with self._store.transaction() as transaction:
                end = transaction.head(self._log).sequence
        while after.sequence < end:
            for _ in range(20):  # the engine serves what waits first, but not for ever
                if not self._is_busy():
                    break
                sleep(0.0005)
            with self._store.transaction() as transaction:
                # What was appended since is not wanted: the caller sees the log of one moment.
                most = min(PART, end - after.sequence)
                part = list(transaction.read(self._log, after.sequence, most))
                if not part or part[0].sequence != after.sequence + 1:
                    check_there(transaction, self._log)  # it may have been deleted meanwhile
            if not part:
                raise shortened(after, end)
            self._chain.verify(after, part)
            yield part
            after = head_of(part[-1])

    def verdicts(self, after: int = 0) -> Verdicts:
        """Return the last ruling about each visit that records after ``after`` speak of."""
        with self._store.transaction() as transaction:
            return verdicts_in(transaction.find_many(self._log, (ACTIONS,), after))

    def load(self) -> tuple[Experiment, int]:
        """Return the experiment at the end of its log, and its latest snapshot or 0."""
        while True:
            with self._store.transaction() as transaction:
                base = max(transaction.snapshots(self._log), default=0)
                data = transaction.load_snapshot(self._log, base) if base else None
                found = transaction.find_many(self._log, (ACTIONS,), base)
                verdicts, end = verdicts_in(found), transaction.head(self._log)
            experiment = None if data is None else Experiment.load(data)
            if experiment is not None:
                experiment.preload(verdicts)
            replayed = self._apply(experiment, verdicts, end.sequence)
            if replayed.head == end:
                replayed.verdicts = {}
                return replayed, base
            # Else the log was rewritten while it was read, as by a failover.

    def _apply(
        self, experiment: Experiment | None, verdicts: Mapping[int, Verdict], end: int | None
    ) -> Experiment:
        after = BEGINNING if experiment is None else experiment.head
        for part in self.parts(after, end):
            with uncollected():
                experiment = Experiment.replay(events_of(part), experiment, verdicts)
        if experiment is None:
            raise DamagedFile("the log of an experiment is empty.")
        return experiment

    def replay(self, ruled: Mapping[int, Verdict], end: int) -> Replayed:
        """Replay the log up to ``end`` with rulings beyond what it says.

        It begins with the latest snapshot that they leave valid.
        """
        with self._store.transaction() as transaction:
            sequences = [each for each in transaction.snapshots(self._log) if each <= end]
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

    def _base(
        self, sequences: list[int], ruled: Mapping[int, Verdict]
    ) -> tuple[int, Experiment | None]:
        """Return the latest snapshot that rulings leave valid; 0 and nothing if there is none."""
        first_void = min((each for each in ruled if ruled[each] == "void"), default=None)
        for sequence in reversed(sequences):
            if first_void is not None and sequence >= first_void:
                continue
            with self._store.transaction() as transaction:
                if sequence not in transaction.snapshots(self._log):
                    continue
                experiment = Experiment.load(transaction.load_snapshot(self._log, sequence))
            made = {each: verdict for each, verdict in ruled.items() if each <= sequence}
            if not experiment.needs_replay(made):
                return sequence, experiment
        return 0, None


def catch_up(
    experiment: Experiment, transaction: Transaction, log: int, chain: Chain, most: int
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
        Experiment.replay(events_of(records), experiment, verdicts)
    experiment.verdicts = {}
    return True
