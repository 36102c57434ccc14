"""Folding a log: from a snapshot to the end, and again after a ruling about past rewards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np

from armrace.errors import DamagedFile
from armrace.service.aside import uncollected
from armrace.service.bulk import apply_many, is_long
from armrace.service.chain import BEGINNING, Head, Record, verify
from armrace.service.columns import Columns
from armrace.service.dormant import Dormant
from armrace.service.events import (
    RULINGS,
    Event,
    decode_many,
    rulings_in,
    subject,
)
from armrace.service.experiment import Experiment, Rulings
from armrace.service.state import Ready, State, always, not_created, read_snapshot
from armrace.service.stores.base import Turn

__all__ = [
    "Refolded",
    "Refolding",
    "apply_events",
    "catch_up",
    "check_short_log",
    "check_subjects",
    "collect_rulings",
    "contradicts",
    "events_of",
    "fold",
    "fold_records",
    "in_parts",
    "load_state",
    "refold",
    "shortened",
]

T = TypeVar("T")
_TOGETHER = 50_000
"""How many records are applied at once."""
_CHECKED_AT_ONCE = 100_000
"""A log of at most this many records is checked completely when it is opened, in under a second."""


def collect_rulings(turn: Turn, after: int = 0) -> dict[int, dict[int, bool]]:
    """Return the last ruling about each decision that the log speaks of, by experiment.

    Args:
        turn: a turn of the store.
        after: rulings up to this record are left out.
    """
    return rulings_in(turn.find(RULINGS, after))


def fold(state: State, turn: Turn) -> None:
    """Apply the records of the log that follow a state.

    Their rulings must not concern decisions that the state has settled.

    Args:
        state: the state, which is changed.
        turn: a turn of the store.
    """
    rulings = collect_rulings(turn, after=state.head.sequence)
    fold_records(state, turn.read(after=state.head.sequence), rulings)


def fold_records(state: State, records: Iterable[Record], rulings: Mapping[int, Rulings]) -> None:
    """Apply records that follow a state.

    Args:
        state: the state, which is changed.
        records: the records.
        rulings: what they say about rewards, by experiment and decision.
    """
    for experiment in state.experiments:
        experiment.foresee(rulings.get(experiment.number, {}))
    with uncollected():
        for part in in_parts(records, _TOGETHER):
            _apply_part(state, part, rulings)
    for experiment in state.experiments:
        experiment.forget_rulings()


def in_parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in lists of at most ``size``.

    Args:
        items: the items.
        size: the length of all lists but the last.
    """
    remaining = iter(items)
    while part := list(islice(remaining, size)):
        yield part


def events_of(head: Head, part: list[Record]) -> Iterable[tuple[Record, Event]]:
    """Return records that continue a log, each with its event.

    Args:
        head: the record that they follow.
        part: the records.
    """
    verify(head, part)
    return zip(part, decode_many([record.payload for record in part]), strict=True)


def apply_events(state: State, records: Iterable[tuple[Record, Event]]) -> None:
    """Apply some records that were checked and that hold no rulings, each with its event.

    Args:
        state: the state, which is changed.
        records: the records, which follow the state.
    """
    for record, event in records:
        state.apply(record, event)


def _apply_part(state: State, part: list[Record], rulings: Mapping[int, Rulings]) -> None:
    """Apply records that continue a log."""
    if not is_long(len(part)):
        for record, event in events_of(state.head, part):
            state.apply(record, event, rulings.get(event.experiment))
        return
    verify(state.head, part)
    for created, events in Columns.read(part).between_creations():
        if created is not None:
            place, event = created
            state.apply(part[place], event, rulings.get(event.experiment))
        if events.size:
            state.note_many(events)
            # Those of each experiment together: experiments know nothing of each other.
            for number in np.unique(events.events["experiment"]).tolist():
                _apply_own(state.experiments[number], events.of_experiment(number), part)
    state.head = Head(part[-1].sequence, part[-1].digest)


def _apply_own(experiment: Experiment, events: Columns, part: list[Record]) -> None:
    """Apply the events of one experiment among those of a part of the log."""
    if isinstance(experiment, Dormant):
        first = part[0].sequence
        experiment.keep(part[sequence - first] for sequence in events.sequences.tolist())
    else:
        apply_many(experiment, events)


def load_state(turn: Turn, ready: Ready = always) -> State:
    """Return the state at the end of a store's log, from its latest snapshot on.

    Args:
        turn: a turn of the store.
        ready: returns whether an experiment can be folded now; others stay dormant.
    """
    snapshots = turn.snapshots()
    state = State.load(turn.load_snapshot(snapshots[-1]), ready) if snapshots else State(ready)
    fold(state, turn)
    if state.head != turn.head:
        raise shortened(turn.head, state.head.sequence)
    return state


def shortened(end: Head, seen: int) -> DamagedFile:
    """Return the error that a log does not hold a record that was seen in it.

    Args:
        end: where the log ends.
        seen: the record that is missing.
    """
    return DamagedFile(
        f"the log has lost acknowledged events: it ends with record {end.sequence}, and does not "
        f"hold record {seen} as it was."
    )


def check_short_log(turn: Turn) -> bool:
    """Check all records of a log that is not long; return whether it was short enough.

    A state that begins with a snapshot says nothing about the records before it.

    Raises:
        DamagedFile: a record is missing or was changed.
    """
    if turn.head.sequence > _CHECKED_AT_ONCE:
        return False
    with uncollected():
        records = list(turn.read())
        verify(BEGINNING, records)
        check_subjects(records)
    return True


def check_subjects(records: list[Record]) -> None:
    """Refuse records that are not found by what they are about, which digests do not cover."""
    events = decode_many([record.payload for record in records])
    for record, event in zip(records, events, strict=True):
        if record.subject != subject(event):
            raise DamagedFile(
                f"the log is damaged: record {record.sequence} is kept under a wrong subject."
            )


def catch_up(state: State, turn: Turn) -> State:
    """Return the state at the end of the log, given an earlier one of this process.

    Args:
        state: the earlier state, which may be changed.
        turn: a turn of the store.

    Raises:
        DamagedFile: the log does not hold what the state was folded from.
    """
    if turn.head == state.head:
        return state
    if turn.head.sequence <= state.head.sequence:  # as after a failover to a replica that lagged
        raise shortened(turn.head, state.head.sequence)
    # Not in memory all at once; and another server may have saved a snapshot that is nearer.
    if turn.head.sequence - state.head.sequence > _TOGETHER:
        return load_state(turn, state.ready)
    # Read once, since a store on another machine takes time for each question.
    records = list(turn.read(after=state.head.sequence))
    rulings = rulings_in(records)
    if contradicts(state, rulings):
        return load_state(turn, state.ready)
    fold_records(state, records, rulings)
    return state


def contradicts(state: State, rulings: Mapping[int, Rulings]) -> bool:
    """Return whether later rulings concern rewards that a state has learned.

    Args:
        state: the state.
        rulings: rulings that follow it, by experiment and decision.
    """
    return any(
        state.experiments[number].overrules([decision], counts)
        for number, found in rulings.items()
        for decision, counts in found.items()
        if decision <= state.head.sequence
    )


class Refolded(NamedTuple):
    """An experiment that was folded again, and the snapshot that the fold began with."""

    experiment: Experiment
    base: int


class Refolding:
    """An experiment that is folded again with new rulings, part by part.

    The fold begins with the latest snapshot that the rulings leave valid. Parts can be read in
    turns of their own, so that others can append to the log meanwhile.

    Args:
        turn: a turn of the store.
        number: the number of the experiment.
        rulings: what is ruled about rewards, beyond what the log says.
        through: the last record that the fold may begin after; by default any.
    """

    def __init__(
        self, turn: Turn, number: int, rulings: Rulings, through: int | None = None
    ) -> None:
        self._number = number
        self._experiment: Experiment | None = None
        self.base, self.head = 0, BEGINNING
        for sequence in reversed(turn.snapshots()):
            if through is not None and sequence > through:
                continue
            data = read_snapshot(turn.load_snapshot(sequence))
            # The experiment was created after this snapshot.
            if number >= len(data.experiments):
                continue
            experiment = Experiment.load(data.experiments[number])
            made = {d: counts for d, counts in rulings.items() if d <= sequence}
            if not any(experiment.overrules([d], counts) for d, counts in made.items()):
                self.base, self.head, self._experiment = sequence, data.head, experiment
                break
        # The new rulings last: they overrule what the log says about the same rewards.
        self._rulings = {**collect_rulings(turn, after=self.base).get(number, {}), **rulings}
        if self._experiment is not None:
            self._experiment.foresee(self._rulings)

    def foresee(self, rulings: Rulings) -> None:
        """Take more rulings, about rewards that were not folded yet."""
        if rulings:
            self._rulings = {**self._rulings, **rulings}
            if self._experiment is not None:
                self._experiment.foresee(self._rulings)

    def apply(self, part: list[Record]) -> None:
        """Apply the records that follow those that were applied."""
        if part:
            with uncollected():
                self._apply(part)
            self.head = Head(part[-1].sequence, part[-1].digest)

    def _apply(self, part: list[Record]) -> None:
        verify(self.head, part)
        for created, events in Columns.read(part).between_creations():
            if created is not None and created[1].experiment == self._number:
                self._experiment = Experiment(created[1], self._rulings)
            own = events.of_experiment(self._number)
            if own.size:
                apply_many(self._found(), own)

    def finish(self, turn: Turn) -> Refolded:
        """Apply what is left of the log, and return the experiment."""
        for part in in_parts(turn.read(after=self.head.sequence), _TOGETHER):
            self.apply(part)
        experiment = self._found()
        experiment.forget_rulings()
        return Refolded(experiment, self.base)

    def _found(self) -> Experiment:
        if self._experiment is None:
            raise not_created(self._number)
        return self._experiment


def refold(turn: Turn, number: int, rulings: Rulings) -> Refolded:
    """Fold an experiment again with new rulings, from the latest snapshot that they leave valid.

    Args:
        turn: a turn of the store.
        number: the number of the experiment.
        rulings: what is ruled about rewards, beyond what the log says.

    Returns:
        The experiment as if the rulings had been known from the beginning.
    """
    return Refolding(turn, number, rulings).finish(turn)
