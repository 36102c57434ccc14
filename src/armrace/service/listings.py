"""Lists that are read from the whole log: decisions with their rewards, and the quarantine.

The log is read in parts, so that others are served meanwhile. The list is that of the moment at
which it is asked for: what is appended later is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

import msgspec

from armrace.service.answers import DecisionRow, QuarantinedReward
from armrace.service.aside import uncollected
from armrace.service.books import Books
from armrace.service.chain import Record
from armrace.service.events import Decided, Event, Rewarded, decode_many
from armrace.service.experiment import Experiment, Rulings
from armrace.service.folding import collect_rulings
from armrace.service.ledger import Ledger
from armrace.service.log_parts import read_log

__all__ = ["export_rows", "list_quarantine"]


class _Moment(msgspec.Struct, frozen=True):
    """What a list needs to know of an experiment at the moment at which it is asked for."""

    experiment: Experiment
    end: int
    """The last record of the log."""
    rulings: Rulings
    quarantined: int
    """How many rewards are in quarantine."""


class _Look(msgspec.Struct, frozen=True):
    """Return what a list needs to know of an experiment now."""

    tenant: str
    name: str

    def perform(self, books: Books) -> _Moment:
        """Return what the list needs to know."""
        experiment = books.experiment(self.tenant, self.name)
        turn = books.flush()
        rulings = collect_rulings(turn).get(experiment.number, {})
        return _Moment(experiment, turn.head.sequence, rulings, experiment.sources.quarantined())


def export_rows(ledger: Ledger, tenant: str, name: str) -> Iterator[DecisionRow]:
    """Yield all decisions of an experiment in their order, with their rewards.

    A decision is yielded when it has its reward or when its window has closed, and all before it
    too. In memory are as many as the service itself has open, however long the log is.

    Args:
        ledger: performs the turns in which the log is read.
        tenant: whose experiment it is.
        name: the experiment.
    """
    moment = ledger.ask(_Look(tenant, name))
    experiment = moment.experiment
    waiting: deque[DecisionRow] = deque()
    unrewarded: dict[int, DecisionRow] = {}
    for record, event in _events(ledger, moment):
        if isinstance(event, Decided):
            row = unrewarded[record.sequence] = _row(experiment, record.sequence, event)
            waiting.append(row)
        elif isinstance(event, Rewarded):
            row = unrewarded.pop(event.decision)
            _reward(experiment, row, event, moment.rulings.get(event.decision))
        while waiting and (
            waiting[0].reward is not None or waiting[0].time + experiment.window <= event.time
        ):
            row = waiting.popleft()
            unrewarded.pop(row.decision, None)
            yield row
    yield from waiting


def _events(ledger: Ledger, moment: _Moment) -> Iterator[tuple[Record, Event]]:
    """Yield what the log says of an experiment up to a moment."""
    number = moment.experiment.number
    for part in read_log(ledger, moment.end):
        with uncollected():  # not while the reader of this list pauses, which may be long
            events = decode_many([record.payload for record in part])
        for record, event in zip(part, events, strict=True):
            if event.experiment == number:
                yield record, event


def _row(experiment: Experiment, sequence: int, event: Decided) -> DecisionRow:
    return DecisionRow(
        sequence,
        event.time,
        experiment.arms[event.arm],
        event.probability,
        event.ticket is None,
        event.unit,
    )


def _reward(experiment: Experiment, row: DecisionRow, event: Rewarded, ruling: bool | None) -> None:
    row.reward = experiment.scale.reward(event.steps)
    row.reward_time, row.source, row.suspicion = event.time, event.source, event.suspicion
    row.counts = not experiment.is_suspicious(event.suspicion) if ruling is None else ruling


def list_quarantine(ledger: Ledger, tenant: str, name: str) -> list[QuarantinedReward]:
    """Return the rewards in quarantine in the order in which they came.

    Args:
        ledger: performs the turns in which the log is read.
        tenant: whose experiment it is.
        name: the experiment.
    """
    moment = ledger.ask(_Look(tenant, name))
    # The fold has counted them, so that the log is read no further than to the last of them.
    return list(islice(_quarantined(ledger, moment), moment.quarantined))


def _quarantined(ledger: Ledger, moment: _Moment) -> Iterator[QuarantinedReward]:
    experiment = moment.experiment
    for _, event in _events(ledger, moment):
        if (
            isinstance(event, Rewarded)
            and experiment.is_suspicious(event.suspicion)
            and event.decision not in moment.rulings
        ):
            yield QuarantinedReward(
                event.decision,
                event.time,
                experiment.scale.reward(event.steps),
                event.source,
                event.suspicion,
            )
