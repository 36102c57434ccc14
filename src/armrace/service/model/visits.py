"""Visits whose window has not closed, which rewards are held, and counts of arms and sources.

Sources are text that strangers may choose, so that only some have counts of their own. They are
counted by day: days are those of decisions, in UTC, so that a day is final when the windows of its
decisions have closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec
import numpy as np

from armrace.contexts import Code
from armrace.errors import DamagedFile
from armrace.kernels.generics import Ticket
from armrace.service.model.events import HoldChanged, Rewarded
from armrace.service.model.settings import GRID
from armrace_client.answers import StandingHold, Verdict

_NEVER = float("inf")
Standing = Literal["counted", "quarantined", "retracted"]
_STANDINGS: dict[Verdict, Standing] = {
    "release": "counted",
    "hold": "quarantined",
    "retract": "retracted",
}


class VisitState(msgspec.Struct, array_like=True, gc=False):
    """A visit whose decision can still be rewarded."""

    sequence: int
    time: int
    arm: int
    probability: float | None
    generation: int
    number: int
    """The number of the decision in its learner; -1 if the learner does not know of it."""
    ticket: Ticket | None
    unit: bytes | None = None
    request: bytes | None = None
    source: str | None = None
    labels: dict[str, str] | None = None
    lease: int = 0
    draw: int = 0
    steps: int | None = None
    is_held: bool = False
    """Whether the reward was held when it came."""
    verdict: Verdict | None = None
    """What was ruled about the visit."""
    learned: bool = False
    """Whether the reward was learned before the window closed."""
    code: Code | None = None
    """The encoded features of the visitor, if the experiment declares some."""
    held_out: bool | None = None
    """Whether the visit was of the holdout; ``None`` if that was not left to chance."""
    metrics: dict[str, int] | None = None
    """The guardrails that came with its reward, on their grids."""
    parts: dict[bytes, tuple[int, dict[str, int] | None]] | None = None
    """The rewards that are added up and the guardrails that came with each, if they are."""

    def take(self, event: Rewarded) -> bool:
        """Take a reward, or a part of it; return whether it had not come before."""
        if event.part is None:
            if self.steps is not None:
                return False
            self.steps, self.metrics = event.steps, event.metrics
            return True
        parts = self.parts or {}
        if event.part in parts:
            return False
        self.parts = {**parts, event.part: (event.steps, event.metrics)}
        # Limited at each step or once in the end: that is the same, since no part is negative.
        self.steps = min((self.steps or 0) + event.steps, GRID)
        sums = dict(self.metrics or {})
        for name, steps in (event.metrics or {}).items():
            sums[name] = min(sums.get(name, 0) + steps, GRID)
        self.metrics = sums or None
        return True

    @property
    def standing(self) -> Standing:
        """Whether the reward of the visit counts, and if not, why."""
        if self.verdict is None:
            return "quarantined" if self.is_held else "counted"
        return _STANDINGS[self.verdict]

    @property
    def counted_steps(self) -> int | None:
        """The reward, unless there is none or it does not count."""
        if self.verdict is None and not self.is_held:  # first: nearly all are like that
            return self.steps
        return self.steps if self.standing == "counted" else None


class OpenVisits:
    """Open visits by sequence number, by unit and by request, the oldest first."""

    def __init__(self, visits: Iterable[VisitState] = ()) -> None:
        self.oldest_time: float = _NEVER
        """When the oldest open visit began; infinite if there is none."""
        self._order: deque[VisitState] = deque()
        self._by_sequence: dict[int, VisitState] = {}
        self._by_unit: dict[bytes, VisitState] = {}
        self._by_request: dict[bytes, VisitState] = {}
        for visit in visits:
            self.add(visit)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[VisitState]:
        return iter(self._order)

    def add(self, visit: VisitState) -> None:
        """Add a visit, which must be later than all others."""
        if not self._order:
            self.oldest_time = visit.time
        self._order.append(visit)
        self._by_sequence[visit.sequence] = visit
        if visit.unit is not None:
            self._by_unit[visit.unit] = visit
        if visit.request is not None:
            self._by_request[visit.request] = visit

    def get(self, sequence: int) -> VisitState | None:
        """Return the open visit with this sequence number, if there is one."""
        return self._by_sequence.get(sequence)

    def of_unit(self, unit: bytes) -> VisitState | None:
        """Return the latest open visit of a unit, if there is one."""
        return self._by_unit.get(unit)

    def of_request(self, request: bytes) -> VisitState | None:
        """Return the open visit that a request led to, if there is one."""
        return self._by_request.get(request)

    def pop_before(self, time: int) -> VisitState | None:
        """Remove and return the oldest visit if it began at ``time`` or before."""
        if self.oldest_time > time:
            return None
        visit = self._order.popleft()
        self.oldest_time = self._order[0].time if self._order else _NEVER
        del self._by_sequence[visit.sequence]
        for index, key in ((self._by_unit, visit.unit), (self._by_request, visit.request)):
            # A later visit of the same unit may have taken its place in the index.
            if key is not None and index.get(key) is visit:
                del index[key]
        return visit


class Holds:
    """Which rewards are held when they come: by a suspicion above a threshold, or a standing hold.

    It stands for a place of the log, up to which events were taken.
    """

    def __init__(self, threshold: float | None, standing: Iterable[StandingHold] = ()) -> None:
        self._threshold = threshold
        self.standing = [*standing]

    def take(self, event: HoldChanged) -> None:
        """Begin or end a standing hold."""
        same = event.source, event.labels
        self.standing = [each for each in self.standing if (each.source, each.labels) != same]
        if event.begins:
            hold = StandingHold(event.source, event.labels, event.time, event.reason)
            self.standing.append(hold)

    def hold_back(
        self, source: str | None, labels: Mapping[str, str] | None, suspicion: float | None
    ) -> bool:
        """Whether a reward is held when it comes."""
        if suspicion is not None and self._threshold is not None and suspicion > self._threshold:
            return True
        return any(
            hold.source in (None, source) and hold.labels.items() <= (labels or {}).items()
            for hold in self.standing
        )


DAY = 86_400_000
"""The milliseconds of a day."""

DELAY_BINS = 36
"""Bin ``b`` counts delays in milliseconds below ``2^b`` that are not in an earlier one."""

MOST_SOURCES, MOST_DAYS = 200, 60

_TOGETHER = 512
"""How many decisions wait until their probabilities are added to the sums, for speed."""


class ArmTotals(msgspec.Struct, array_like=True):
    """What was counted of one arm."""

    decisions: int = 0
    closed: int = 0
    """Decisions whose window has closed."""
    rewarded: int = 0
    """Closed decisions with a reward that counts."""
    withheld: int = 0
    """Closed decisions whose reward was retracted or is in quarantine."""
    steps: int = 0
    """The sum of the rewards that count, on the grid; integers, whose sum has no order."""
    comparable: int = 0
    """Decisions for which the probabilities of all arms are known."""
    expected: float = 0.0
    """The sum of the arm's probabilities over all comparable decisions."""

    def learned(self, missing: int | None) -> tuple[int, int]:
        """Return how many decisions taught something, and what they earned on the grid.

        A missing reward counts as ``missing``; if that is ``None``, its decision teaches nothing.
        """
        if missing is None:
            return self.rewarded, self.steps
        return self.closed, self.steps + missing * (self.closed - self.rewarded)


class Totals:
    """What was counted of each arm, in the order of the arms."""

    def __init__(self, arms: list[ArmTotals]) -> None:
        self._arms = arms
        self._shares: list[bytes] = []
        """Probabilities of decisions that are not yet part of the sums."""

    @property
    def arms(self) -> list[ArmTotals]:
        """What was counted of each arm, with all decisions in the sums."""
        self._add_shares()
        return self._arms

    def copied(self) -> Totals:
        """Return a copy, to be shown while these go on."""
        # As copy() does, in less than half the time: there may be thousands of arms.
        return Totals([each.__copy__() for each in self.arms])  # type: ignore[attr-defined]  # of msgspec

    def count_decision(self, arm: int, shares: bytes) -> None:
        """Count a decision, with the probabilities of all arms as its event has them."""
        totals = self._arms[arm]
        totals.decisions += 1
        if shares:
            totals.comparable += 1
            self._shares.append(shares)
            if len(self._shares) >= _TOGETHER:
                self._add_shares()

    def _add_shares(self) -> None:
        """Add up what is waiting, in the order in which it came, on which the last bits depend."""
        if not self._shares:
            return
        width = len(self._arms)
        rows = np.frombuffer(b"".join(self._shares), dtype="<f4")
        if rows.size != width * len(self._shares):
            raise DamagedFile("the log has a decision with probabilities of other arms.")
        self._shares = []
        before = np.array([[each.expected for each in self._arms]])
        # Not ``sum``, which need not add in order: the result must be that of one by one.
        sums = np.cumsum(np.vstack([before, rows.reshape(-1, width)]), axis=0)[-1]
        for totals, expected in zip(self._arms, sums.tolist(), strict=True):
            totals.expected = expected

    def count_closed(self, visit: VisitState) -> None:
        """Count a visit whose window has closed."""
        totals, steps = self._arms[visit.arm], visit.counted_steps
        totals.closed += 1
        if steps is not None:
            totals.rewarded += 1
            totals.steps += steps
        elif visit.steps is not None:
            totals.withheld += 1


class MetricTotals(msgspec.Struct, array_like=True):
    """What closed visits of an arm have brought of a guardrail, with rewards that count."""

    count: int = 0
    steps: int = 0
    squares: float = 0.0
    """The sum of squared differences from the mean before each."""

    def add(self, steps: int) -> None:
        """Count the number that a visit has brought."""
        self.squares += ((steps - (self.steps + GRID / 2) / (self.count + 1)) / GRID) ** 2
        self.count += 1
        self.steps += steps


class HoldoutComparison(msgspec.Struct, array_like=True):
    """What visits of the holdout and of the policy have earned: closed ones, in their order.

    Whether a visit is held out is decided by a coin, whatever visitor it is of. So the difference
    of what the policy and the holdout would earn from it is the expectation of ``x / (1 - share)``
    if it is not held out and of ``-x / share`` if it is, where ``x`` is what it earns beyond a
    number that is known before.
    """

    policy_visits: int = 0
    policy_steps: int = 0
    visits: int = 0
    steps: int = 0
    difference: float = 0.0
    """The sum of these terms, and of their squares."""
    squares: float = 0.0

    def count(self, held_out: bool, steps: int, share: float) -> None:
        """Count a closed visit by what it has earned on the grid."""
        # Beyond the mean so far, which makes squares small.
        known = (self.policy_steps + self.steps + GRID / 2) / (self.policy_visits + self.visits + 1)
        beyond = (steps - known) / GRID
        term = -beyond / share if held_out else beyond / (1.0 - share)
        self.difference += term
        self.squares += term * term
        if held_out:
            self.visits += 1
            self.steps += steps
        else:
            self.policy_visits += 1
            self.policy_steps += steps


class SourceDay(msgspec.Struct, array_like=True):
    """The rewards of one source for the decisions of one day."""

    counted: int = 0
    quarantined: int = 0
    retracted: int = 0
    steps: int = 0
    """The sum of all of them, on the grid, whether they count or not."""
    visits: int = 0
    """Visits that said where they came from when they were decided, rewarded or not."""


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
                earlier = self.days.setdefault(-1, SourceDay())
                oldest = self.days.pop(min(day for day in self.days if day >= 0))
                for name in oldest.__struct_fields__:
                    setattr(earlier, name, getattr(earlier, name) + getattr(oldest, name))
                # The new day may itself have been the oldest.
                found = self.days.get(number, earlier)
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

    def count(self, visit: VisitState, time: int) -> None:
        """Count the reward of a visit that came at ``time``."""
        assert visit.steps is not None
        counts, standing = self.of(visit.source), visit.standing
        counts.delays[min((time - visit.time).bit_length(), DELAY_BINS - 1)] += 1
        day = counts.day(visit.time // DAY)
        day.steps += visit.steps
        setattr(day, standing, getattr(day, standing) + 1)

    def add(self, visit: VisitState, steps: int, before: Standing) -> None:
        """Count what another part has added to a reward, and its new standing."""
        self.of(visit.source).day(visit.time // DAY).steps += steps
        self.move(visit, before)

    def move(self, visit: VisitState, before: Standing) -> None:
        """Count a reward that has come by its new standing."""
        after = visit.standing
        if visit.steps is None or after == before:
            return
        day = self.of(visit.source).day(visit.time // DAY)
        setattr(day, before, getattr(day, before) - 1)
        setattr(day, after, getattr(day, after) + 1)
