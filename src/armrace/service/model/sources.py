"""Where visits and rewards come from, by source and day, as part of an experiment's state.

Days are those of decisions, in UTC, so that a day is final when the windows of its decisions have
closed. Sources are text that strangers may choose, so that only some have counts of their own.
"""

from __future__ import annotations

import msgspec

from armrace.service.model.visits import Standing, Visit

__all__ = ["DAY", "DELAY_BINS", "SourceCounts", "SourceDay", "Sources"]

DAY = 86_400_000
"""The milliseconds of a day."""

DELAY_BINS = 36
"""Bin ``b`` counts delays in milliseconds below ``2^b`` that are not in an earlier one."""

MOST_SOURCES, MOST_DAYS = 200, 60


class SourceDay(msgspec.Struct, array_like=True):
    """The rewards of one source for the decisions of one day."""

    counted: int = 0
    quarantined: int = 0
    retracted: int = 0
    steps: int = 0
    """The sum of all of them, on the grid, whether they count or not."""
    visits: int = 0
    """Visits that said where they came from when they were decided, rewarded or not."""

    def add(self, other: SourceDay) -> None:
        """Add the counts of another day."""
        self.counted += other.counted
        self.quarantined += other.quarantined
        self.retracted += other.retracted
        self.steps += other.steps
        self.visits += other.visits


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

    def count_visit(self, source: str, time: int) -> None:
        """Count a visit that said where it comes from."""
        self.of(source).day(time // DAY).visits += 1

    def count(self, visit: Visit, time: int) -> None:
        """Count the reward of a visit that came at ``time``."""
        assert visit.steps is not None
        counts, standing = self.of(visit.source), visit.standing
        counts.delays[min((time - visit.time).bit_length(), DELAY_BINS - 1)] += 1
        day = counts.day(visit.time // DAY)
        day.steps += visit.steps
        setattr(day, standing, getattr(day, standing) + 1)

    def move(self, visit: Visit, before: Standing) -> None:
        """Count a reward that has come by its new standing."""
        after = visit.standing
        if visit.steps is None or after == before:
            return
        day = self.of(visit.source).day(visit.time // DAY)
        setattr(day, before, getattr(day, before) - 1)
        setattr(day, after, getattr(day, after) + 1)
