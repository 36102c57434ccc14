"""Whether two programs play the same algorithm: a speed comparison is worthless otherwise.

The random numbers differ, so pulls agree in law only: for each arm the difference of the mean
pulls, in units of its standard error, stays small. All arms but the best have the same gap, so
this covers the pseudo-regret as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.problem import Problem, Run

__all__ = ["LIMIT", "Agreement", "Averages", "compare_runs", "pool"]

LIMIT = 5.0
"""Largest difference that passes, in standard errors; by chance, less than 1 in 100 suites."""

Counts = npt.NDArray[np.int64]


class Agreement(NamedTuple):
    """Mean pseudo-regret of two programs, and the largest difference in the pulls of an arm."""

    name: str
    regret: tuple[float, float]
    error: tuple[float, float]
    largest: float

    @property
    def holds(self) -> bool:
        """Whether the two play the same game, as far as can be told."""
        return self.largest <= LIMIT


class Averages(NamedTuple):
    """What arms pay on average over visitors who differ, in place of a problem without them."""

    best: float
    means: list[float]


def pool(runs: Sequence[Run]) -> Counts:
    """The pulls of all replications of several runs."""
    return np.concatenate([run.pulls for run in runs])


def compare_runs(
    name: str, problem: Problem | Averages, horizon: int, ours: Counts, theirs: Counts
) -> Agreement:
    """Compare pulls, a row a replication, of armrace and another program."""
    for pulls in (ours, theirs):
        if not (pulls.sum(axis=1) == horizon).all():
            raise ValueError(f"{name}: the pulls do not add up to {horizon} rounds")
    difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    error = np.hypot(_errors(ours), _errors(theirs))
    gaps = problem.best - np.array(problem.means)
    regrets = [pulls @ gaps for pulls in (ours, theirs)]
    return Agreement(
        name,
        (float(regrets[0].mean()), float(regrets[1].mean())),
        (_error(regrets[0]), _error(regrets[1])),
        float((difference / np.maximum(error, 0.5)).max()),
    )


def _errors(pulls: Counts) -> npt.NDArray[np.float64]:
    return np.asarray(pulls.std(axis=0, ddof=1) / np.sqrt(len(pulls)))


def _error(sample: npt.NDArray[np.float64]) -> float:
    return float(sample.std(ddof=1) / np.sqrt(sample.size))
