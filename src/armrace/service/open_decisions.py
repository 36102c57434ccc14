"""The decisions of an experiment whose window has not closed, in their order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from armrace.kernels.generics import Ticket

__all__ = ["OpenDecision", "OpenDecisions"]


_NEVER = float("inf")


class OpenDecision(msgspec.Struct, array_like=True, gc=False):
    """A decision that can still be rewarded."""

    sequence: int
    time: int
    arm: int
    probability: float | None
    generation: int
    number: int
    """The number of the decision in its learner; -1 if the learner does not know of it."""
    ticket: Ticket | None
    unit: str | None = None
    request: str | None = None
    steps: int | None = None
    source: str | None = None
    suspicious: bool = False
    ruling: bool | None = None
    """What was ruled about the reward: ``True`` if it counts, ``False`` if it was retracted."""
    learned: bool = False
    """Whether the reward was learned before the window closed."""

    @property
    def counted_steps(self) -> int | None:
        """The reward, unless there is none or it does not count."""
        counts = not self.suspicious if self.ruling is None else self.ruling
        return self.steps if counts else None


class OpenDecisions:
    """Open decisions by sequence number, by unit and by request, the oldest first."""

    def __init__(self, decisions: list[OpenDecision] | None = None) -> None:
        self.oldest_time: float = _NEVER
        """When the oldest open decision was made; infinite if there is none."""
        self._order: deque[OpenDecision] = deque()
        self._by_sequence: dict[int, OpenDecision] = {}
        self._by_unit: dict[str, OpenDecision] = {}
        self._by_request: dict[str, OpenDecision] = {}
        for decision in decisions or ():
            self.add(decision)

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[OpenDecision]:
        return iter(self._order)

    def add(self, decision: OpenDecision) -> None:
        """Add a decision, which must be later than all others."""
        if not self._order:
            self.oldest_time = decision.time
        self._order.append(decision)
        self._by_sequence[decision.sequence] = decision
        if decision.unit is not None:
            self._by_unit[decision.unit] = decision
        if decision.request is not None:
            self._by_request[decision.request] = decision

    def get(self, sequence: int) -> OpenDecision | None:
        """Return the open decision with this sequence number, if there is one."""
        return self._by_sequence.get(sequence)

    def of_unit(self, unit: str) -> OpenDecision | None:
        """Return the latest open decision of a unit, if there is one."""
        return self._by_unit.get(unit)

    def of_request(self, request: str) -> OpenDecision | None:
        """Return the open decision that a request led to, if there is one."""
        return self._by_request.get(request)

    def pop_before(self, time: int) -> OpenDecision | None:
        """Remove and return the oldest decision if it was made at ``time`` or before."""
        if self.oldest_time > time:
            return None
        decision = self._order.popleft()
        self.oldest_time = self._order[0].time if self._order else _NEVER
        del self._by_sequence[decision.sequence]
        _forget(self._by_unit, decision.unit, decision)
        _forget(self._by_request, decision.request, decision)
        return decision


def _forget(index: dict[str, OpenDecision], key: str | None, decision: OpenDecision) -> None:
    # A later decision of the same unit may have taken its place in the index.
    if key is not None and index.get(key) is decision:
        del index[key]
