"""The visits of an experiment whose window has not closed, and which of their rewards are held."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

import msgspec

from armrace.kernels.generics import Ticket
from armrace.service.model.events import HoldChanged
from armrace_client.answers import StandingHold, Verdict

_NEVER = float("inf")
Standing = Literal["counted", "quarantined", "retracted"]
_STANDINGS: dict[Verdict, Standing] = {
    "release": "counted",
    "hold": "quarantined",
    "retract": "retracted",
}


class Visit(msgspec.Struct, array_like=True, gc=False):
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

    def __init__(self, visits: Iterable[Visit] = ()) -> None:
        self.oldest_time: float = _NEVER
        """When the oldest open visit began; infinite if there is none."""
        self._order: deque[Visit] = deque()
        self._by_sequence: dict[int, Visit] = {}
        self._by_unit: dict[bytes, Visit] = {}
        self._by_request: dict[bytes, Visit] = {}
        for visit in visits:
            self.add(visit)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._order)

    def add(self, visit: Visit) -> None:
        """Add a visit, which must be later than all others."""
        if not self._order:
            self.oldest_time = visit.time
        self._order.append(visit)
        self._by_sequence[visit.sequence] = visit
        if visit.unit is not None:
            self._by_unit[visit.unit] = visit
        if visit.request is not None:
            self._by_request[visit.request] = visit

    def get(self, sequence: int) -> Visit | None:
        """Return the open visit with this sequence number, if there is one."""
        return self._by_sequence.get(sequence)

    def of_unit(self, unit: bytes) -> Visit | None:
        """Return the latest open visit of a unit, if there is one."""
        return self._by_unit.get(unit)

    def of_request(self, request: bytes) -> Visit | None:
        """Return the open visit that a request led to, if there is one."""
        return self._by_request.get(request)

    def pop_before(self, time: int) -> Visit | None:
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
