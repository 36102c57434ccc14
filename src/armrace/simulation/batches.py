"""Batches of replications that take about a given time each.

The cost of policies and attacks differs by a factor of a hundred, so it is measured: the first
batches of an experiment are small, later ones as large as the time allows. Results do not depend on
how replications are divided into batches.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import NamedTuple

from armrace.simulation.experiment import Experiment

_SECONDS_A_ROUND = 1e-5
"""The cost of slow policies, assumed for every experiment until its own is measured."""

_LEAST_SECONDS = 1e-7
"""Costs below this cannot be measured."""


class Batch(NamedTuple):
    """Some replications of the experiment at a position."""

    position: int
    replications: Sequence[int]


class Batches:
    """The replications that are left to do, in order, for each experiment."""

    def __init__(
        self, experiments: Sequence[Experiment], missing: Sequence[Sequence[int]], seconds: float
    ) -> None:
        self._missing = missing
        self._taken = [0] * len(missing)
        self._costs = [max(_LEAST_SECONDS, e.horizon * _SECONDS_A_ROUND) for e in experiments]
        self._seconds = seconds
        self._returned: list[Batch] = []
        # Ordered by the first replication that is missing, then by position.
        self._behind = [(numbers[0], at) for at, numbers in enumerate(missing) if numbers]
        heapq.heapify(self._behind)

    def take(self) -> Batch | None:
        """Return a batch of the experiment that is furthest behind; None when all are taken.

        In this order the first replications of all experiments are finished first, and an
        interruption leaves replications that are complete for all experiments.
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
        """Return a batch that was lost, to be taken again."""
        self._returned.append(batch)

    def learn(self, batch: Batch, seconds: float) -> None:
        """Record how long a batch took.

        The smallest cost counts: the first batch of a process compiles, and a busy machine is slow.
        """
        cost = max(_LEAST_SECONDS, seconds / len(batch.replications))
        self._costs[batch.position] = min(self._costs[batch.position], cost)
