"""What happened over time: the course of an experiment, its sources, and all at a glance."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

import msgspec

from armrace.service.answers import (
    Deletion,
    ExperimentHealth,
    HistoryView,
    RulingView,
    SourceDayView,
    SourceView,
)
from armrace.service.aside import Later
from armrace.service.books import Books
from armrace.service.defaults import AUDIT_LEVEL
from armrace.service.experiment import Experiment
from armrace.service.history import Mark, current_mark, learned_of
from armrace.service.rewards import GRID
from armrace.service.sources import DAY, SourceCounts, SourceDay

__all__ = ["ListSources", "ReadHealth", "ReadHistory", "history_of"]

_LEAST_SHOWN, _MOST_SHOWN = 8, 100_000
"""How many moments of a course are shown, and how many counts of arms in all."""
_RECENT = 10
"""Decisions since this many marks ago count as recent."""


class ReadHistory(msgspec.Struct, frozen=True):
    """Return the course of an experiment."""

    tenant: str
    name: str

    def perform(self, books: Books) -> HistoryView | Later[HistoryView]:
        """Settle what is due, and return the course."""
        return Later(partial(history_of, books.settled(self.tenant, self.name).still(), books.time))


def history_of(experiment: Experiment, time: int) -> HistoryView:
    """Return the course of an experiment up to ``time`` as plain data."""
    history, scale = experiment.history, experiment.scale
    now = current_mark(experiment, time)
    arms = range(len(experiment.arms))
    begin = Mark(experiment.created, 0, 0, [], [], [], 0, 0.0)
    marks = [begin, *(mark for mark in history.marks if mark.time < time), now]
    deletions = _deletions(experiment, marks)
    # With thousands of arms, fewer moments are shown, so that the answer stays small.
    step = -(-len(marks) // max(_LEAST_SHOWN, _MOST_SHOWN // len(arms)))
    marks = [begin, *marks[:0:-step][::-1]]

    def earned(mark: Mark, arm: int) -> float:
        learned, steps = _entry(mark.learned, arm), _entry(mark.steps, arm)
        return scale.low * (learned - steps / GRID) + scale.high * (steps / GRID)

    return HistoryView(
        bucket=history.bucket,
        times=[mark.time for mark in marks],
        arms=list(experiment.arms),
        decisions=[[_entry(mark.decisions, arm) for mark in marks] for arm in arms],
        learned=[[_entry(mark.learned, arm) for mark in marks] for arm in arms],
        earned=[[earned(mark, arm) for mark in marks] for arm in arms],
        alarms=[mark.alarms for mark in marks],
        certificates=[mark.certificate for mark in marks],
        level=AUDIT_LEVEL,
        tolerated=experiment.generation.learner.tolerated(),
        deletions=deletions,
        rulings=[RulingView(*msgspec.structs.astuple(note)) for note in history.rulings],
    )


def _entry(counts: list[int], arm: int) -> int:
    """Return the count of an arm, which is 0 in marks from before it was added."""
    return counts[arm] if arm < len(counts) else 0


def _deletions(experiment: Experiment, marks: list[Mark]) -> list[Deletion]:
    own = [mark for mark in marks if mark.generation == experiment.generation.number]
    places = experiment.generation.places
    found = [
        Deletion(
            layer,
            experiment.arms[places[arm]],
            by,
            when,
            next((mark.time for mark in own if mark.rounds >= when), marks[-1].time),
        )
        for layer, arm, when, by in experiment.generation.learner.deletions()
    ]
    return sorted(found, key=lambda each: (each.round, each.layer))


class ListSources(msgspec.Struct, frozen=True):
    """Return the rewards of each source by day."""

    tenant: str
    name: str

    def perform(self, books: Books) -> list[SourceView]:
        """Return the sources in the order in which they came."""
        experiment = books.settled(self.tenant, self.name)
        sources, final = experiment.sources, books.time - experiment.window

        def view(source: str | None, counts: SourceCounts, others: bool = False) -> SourceView:
            days = [_day(experiment, *each, final) for each in sorted(counts.days.items())]
            return SourceView(source, others, days, counts.delays)

        found = [view(name or None, counts) for name, counts in sources.named.items()]
        return found + ([view(None, sources.others, True)] if sources.others.days else [])


def _day(experiment: Experiment, number: int, day: SourceDay, final: int) -> SourceDayView:
    count = day.counted + day.quarantined + day.retracted
    date = datetime.fromtimestamp(number * DAY / 1000, UTC).date().isoformat()
    return SourceDayView(
        "earlier" if number < 0 else date,
        (number + 1) * DAY <= final,
        day.counted,
        day.quarantined,
        day.retracted,
        experiment.scale.reward(day.steps / count),
    )


class ReadHealth(msgspec.Struct, frozen=True):
    """Return the experiments of a tenant that can be used in this process, at a glance."""

    tenant: str

    def perform(self, books: Books) -> list[ExperimentHealth]:
        """Return the experiments in the order of their creation."""
        known = books.state.of_tenant(self.tenant)
        return [_health(each, books.time) for each in known if not each.is_dormant]


def _health(experiment: Experiment, time: int) -> ExperimentHealth:
    marks, totals = experiment.history.marks, experiment.totals.arms
    past = marks[-_RECENT].decisions if len(marks) >= _RECENT else []
    recent = [each.decisions - _entry(past, arm) for arm, each in enumerate(totals)]
    arm = max(range(len(totals)), key=recent.__getitem__)
    best = totals[arm] if any(each.rewarded for each in totals) and recent[arm] else None
    mean = None
    if best is not None:
        learned, steps = learned_of(experiment, best)
        mean = experiment.scale.reward(steps / learned) if learned else None
    return ExperimentHealth(
        name=experiment.name,
        phase=experiment.phase,
        policy=str(experiment.settings.policy["name"]),
        created=experiment.created,
        decisions=experiment.decisions,
        open=len(experiment.open),
        best=None if best is None else experiment.arms[arm],
        share=None if best is None else recent[arm] / sum(recent),
        mean=mean,
        alarms=marks[-1].alarms if marks else 0,
        times=[experiment.created, *(mark.time for mark in marks), time],
        traffic=[0, *(sum(mark.decisions) for mark in marks), experiment.decisions],
    )
