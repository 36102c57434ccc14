"""Cutting replications into batches that take about a given time each.

Policies and attacks differ a hundredfold in cost, so it is measured: the first batches of an
experiment are small, the later ones as large as the time allows. Which replications share a
batch changes nothing in what they yield.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from armrace.simulation.experiment import Experiment

__all__ = ["Batch", "Batches"]

_SECONDS_A_ROUND = 1e-5
"""What slow policies take; believed of all until something is measured."""

_LEAST_SECONDS = 1e-7
"""Below this a clock tells nothing of the cost of a replication."""


class Batch(NamedTuple):
    """Some replications of one experiment, which is named by its position."""

    position: int
    replications: Sequence[int]


class Batches:
    """What is left to do, an ordered sequence of replications an experiment."""

    def __init__(
        self, experiments: Sequence[Experiment], missing: Sequence[Sequence[int]], seconds: float
    ) -> None:
        self._missing = missing
        self._taken = [0] * len(missing)
        self._costs = [max(_LEAST_SECONDS, e.horizon * _SECONDS_A_ROUND) for e in experiments]
        self._seconds = seconds
        self._returned: list[Batch] = []
        self._behind = [(numbers[0], at) for at, numbers in enumerate(missing) if numbers]
        heapq.heapify(self._behind)

    def take(self) -> Batch | None:
        """The next batch, of the experiment that is furthest behind; None when all are taken.

        So the first replications of all experiments are finished first, and an interruption
        leaves replications that are complete.
        """
        if self._returned:
            return self._returned.pop()
        if not self._behind:
            return None
        _, position = heapq.heappop(self._behind)
        numbers, first = self._missing[position], self._taken[position]
        last = first + max(1, int(self._seconds / self._costs[position]))
        self._taken[position] = last
        if last < len(numbers):
            heapq.heappush(self._behind, (numbers[last], position))
        return Batch(position, numbers[first:last])

    def give_back(self, batch: Batch) -> None:
        """Have a batch that was lost taken again."""
        self._returned.append(batch)

    def learn(self, batch: Batch, seconds: float) -> None:
        """Note what a batch took.

        The least cost that was seen is believed: the first batch of a process compiles, and a
        busy machine is slow.
        """
        cost = max(_LEAST_SECONDS, seconds / len(batch.replications))
        self._costs[batch.position] = min(self._costs[batch.position], cost)
