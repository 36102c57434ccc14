"""Where rewards come from, by source and day, as part of the fold of an experiment.

Days are those of decisions, in UTC, so that a day is final when the windows of its decisions have
closed. Sources are text that strangers may choose, so that only some have counts of their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

import msgspec

from armrace.service.open_decisions import OpenDecision

__all__ = ["DAY", "DELAY_BINS", "SourceCounts", "SourceDay", "Sources", "Standing", "standing_of"]

DAY = 86_400_000
"""The milliseconds of a day."""

DELAY_BINS = 36
"""Bin ``b`` counts delays in milliseconds below ``2^b`` that are not in an earlier one."""

MOST_SOURCES, MOST_DAYS = 200, 60
Standing = Literal["counted", "quarantined", "retracted"]
Kind = tuple[str | None, int, Standing, int, int]
"""What is counted of a reward: its source, day, standing, bin of delays, and value on the grid."""


class SourceDay(msgspec.Struct, array_like=True):
    """The rewards of one source for the decisions of one day."""

    counted: int = 0
    quarantined: int = 0
    retracted: int = 0
    steps: int = 0
    """The sum of all of them, on the grid, whether they count or not."""

    def add(self, other: SourceDay) -> None:
        """Add the counts of another day."""
        self.counted += other.counted
        self.quarantined += other.quarantined
        self.retracted += other.retracted
        self.steps += other.steps


class SourceCounts(msgspec.Struct, array_like=True):
    """The rewards of one source."""

    days: dict[int, SourceDay] = msgspec.field(default_factory=dict)
    """By the number of the day since 1970; -1 for all days before the latest ones."""
    delays: list[int] = msgspec.field(default_factory=lambda: [0] * DELAY_BINS)

    def day(self, number: int) -> SourceDay:
        """Return the counts of a day, which begin with 0; the oldest of many are put together."""
        found = self.days.get(number)
        if found is None:
            found = self.days[number] = SourceDay()
            if len(self.days) > MOST_DAYS:
                oldest = min(day for day in self.days if day >= 0)
                self.days.setdefault(-1, SourceDay()).add(self.days.pop(oldest))
                # The new day may itself have been the oldest.
                found = self.days.get(number, self.days[-1])
        return found


class Sources(msgspec.Struct, array_like=True):
    """The rewards of all sources."""

    named: dict[str, SourceCounts] = msgspec.field(default_factory=dict)
    """By source; rewards without one are under the empty text, which is not a valid source."""
    others: SourceCounts = msgspec.field(default_factory=SourceCounts)
    """The rewards of sources that came when there were too many."""

    def of(self, source: str | None) -> SourceCounts:
        """Return the counts of a source."""
        name = source or ""
        found = self.named.get(name)
        if found is None:
            if len(self.named) >= MOST_SOURCES:
                return self.others
            found = self.named[name] = SourceCounts()
        return found

    def quarantined(self) -> int:
        """Return how many rewards are in quarantine."""
        counts = (*self.named.values(), self.others)
        return sum(day.quarantined for each in counts for day in each.days.values())

    def count(self, decision: OpenDecision, time: int) -> None:
        """Count the reward of a decision that came at ``time``."""
        self._add(*_kind_of(decision, time), 1)

    def count_many(self, kinds: Iterable[Kind]) -> None:
        """Count rewards in the order in which they came, each given by what is counted of it."""
        # Equal ones are counted together; the first of each come in their order, which decides
        # about the sources and days that have counts of their own.
        for kind, times in Counter(kinds).items():
            self._add(*kind, times)

    def _add(
        self,
        source: str | None,
        number: int,
        standing: Standing,
        delay: int,
        steps: int,
        times: int,
    ) -> None:
        counts = self.of(source)
        counts.delays[delay] += times
        day = counts.day(number)
        day.steps += times * steps
        setattr(day, standing, getattr(day, standing) + times)

    def move(self, decision: OpenDecision, before: Standing) -> None:
        """Count a reward that has come by its new standing."""
        after = standing_of(decision)
        if decision.steps is None or after == before:
            return
        day = self.of(decision.source).day(decision.time // DAY)
        setattr(day, before, getattr(day, before) - 1)
        setattr(day, after, getattr(day, after) + 1)


def _kind_of(decision: OpenDecision, time: int) -> Kind:
    """Return what is counted of a reward that came at a time."""
    steps = decision.steps
    assert steps is not None
    delay = min((time - decision.time).bit_length(), DELAY_BINS - 1)
    return decision.source, decision.time // DAY, standing_of(decision), delay, steps


def standing_of(decision: OpenDecision) -> Standing:
    """Return whether the reward of a decision counts, and if not, why."""
    if decision.ruling is None:
        return "quarantined" if decision.suspicious else "counted"
    return "counted" if decision.ruling else "retracted"
