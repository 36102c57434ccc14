"""Folding a log: from a snapshot to the end, and again after a ruling about past rewards."""

from __future__ import annotations

from typing import NamedTuple

from armrace.service.chain import BEGINNING, verified
from armrace.service.events import RULINGS, Created, Released, Retracted, decode
from armrace.service.experiment import Experiment, Rulings
from armrace.service.state import State, read_snapshot
from armrace.service.stores.base import Turn

__all__ = ["Refolded", "catch_up", "collect_rulings", "fold", "load_state", "refold"]


def collect_rulings(turn: Turn, after: int = 0) -> dict[int, dict[int, bool]]:
    """Return the last ruling about each decision that the log speaks of, by experiment."""
    rulings: dict[int, dict[int, bool]] = {}
    for record in turn.find(RULINGS, after):
        event = decode(record.payload)
        assert isinstance(event, (Retracted, Released))
        found = dict.fromkeys(event.decisions, isinstance(event, Released))
        rulings.setdefault(event.experiment, {}).update(found)
    return rulings


def fold(state: State, turn: Turn) -> None:
    """Apply the records of the log that follow a state.

    Their rulings must not concern decisions that the state has settled.
    """
    rulings = collect_rulings(turn, after=state.head.sequence)
    for experiment in state.experiments:
        experiment.foresee(rulings.get(experiment.number, {}))
    for record in verified(state.head, turn.read(after=state.head.sequence)):
        event = decode(record.payload)
        state.apply(record, event, rulings.get(event.experiment))
    for experiment in state.experiments:
        experiment.forget_rulings()


def load_state(turn: Turn) -> State:
    """Return the state at the end of a store's log, from its latest snapshot on."""
    snapshots = turn.snapshots()
    state = State.load(turn.load_snapshot(snapshots[-1])) if snapshots else State()
    fold(state, turn)
    return state


def catch_up(state: State, turn: Turn) -> State:
    """Return the state at the end of the log, given an earlier one of this process."""
    if turn.head == state.head:
        return state
    rulings = collect_rulings(turn, after=state.head.sequence)
    for number, found in rulings.items():
        past = {d: c for d, c in found.items() if d <= state.head.sequence}
        if any(state.experiments[number].overrules([d], counts) for d, counts in past.items()):
            return load_state(turn)
    fold(state, turn)
    return state


class Refolded(NamedTuple):
    """An experiment that was folded again, and the snapshot that the fold began with."""

    experiment: Experiment
    base: int


def refold(turn: Turn, number: int, rulings: Rulings) -> Refolded:
    """Fold an experiment again with new rulings, from the latest snapshot that they leave valid.

    Args:
        turn: a turn of the store.
        number: the number of the experiment.
        rulings: what is ruled about rewards, beyond what the log says.

    Returns:
        The experiment as if the rulings had been known from the beginning.
    """
    base, experiment, head = 0, None, BEGINNING
    for sequence in reversed(turn.snapshots()):
        data = read_snapshot(turn.load_snapshot(sequence))
        if number >= len(data.experiments):
            continue
        experiment = Experiment.load(data.experiments[number])
        made = {d: counts for d, counts in rulings.items() if d <= sequence}
        if not any(experiment.overrules([d], counts) for d, counts in made.items()):
            base, head = sequence, data.head
            break
        experiment = None
    logged = collect_rulings(turn, after=base).get(number, {})
    foreseen = {**logged, **rulings}
    if experiment is not None:
        experiment.foresee(foreseen)
    for record in verified(head, turn.read(after=base)):
        event = decode(record.payload)
        if event.experiment != number:
            continue
        if isinstance(event, Created):
            experiment = Experiment(event, foreseen)
        elif experiment is not None:
            experiment.apply(record.sequence, event)
    assert experiment is not None
    experiment.forget_rulings()
    return Refolded(experiment, base)
