"""A claim before it is tried, and what a trial says of it.

``verify`` tries many claims. Each interval is computed at the same small level, the error
probability of the whole divided by the number of claims, so that it calls *any* true claim
refuted with at most that probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.simulation.experiment import Experiment
from armrace.statistics import Interval, clopper_pearson, mean_interval, slope_of_growth
from armrace.verification.runs import Runs

__all__ = [
    "Check",
    "Claim",
    "Judgement",
    "mean_at_least",
    "never",
    "rarely",
    "slope_above",
    "slope_at_most",
]

Floats = npt.NDArray[np.float64]


class Judgement(NamedTuple):
    """What the runs say."""

    runs: int
    failures: int
    interval: Interval
    """A confidence interval of the quantity that is measured; a point where it is known exactly."""
    limit: float
    """What the interval is held against."""
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A statement, the experiments that may refute it, and how."""

    claim: str
    policy: str
    setting: str
    measure: str
    """The quantity that the interval estimates, and how it must relate to the limit."""
    experiments: tuple[Experiment, ...]
    """What must be played to judge it; nothing where the judge plays by itself."""
    judge: Callable[[Sequence[Runs], float], Judgement]
    theorem: str
    """The theorem or lemma that it tries."""


class Check(msgspec.Struct, frozen=True):
    """A row of the table: a claim that was tried."""

    claim: str
    policy: str
    setting: str
    measure: str
    runs: int
    failures: int
    interval: tuple[float, float]
    limit: float
    verdict: Literal["holds", "fails"]
    theorem: str
    seed: int
    version: str
    """The version of the library that tried it."""
    form: Literal["quick", "full"]


def rarely(failed: npt.NDArray[np.bool_], limit: float, level: float) -> Judgement:
    """That something fails with probability ``limit`` at most: an exact binomial test."""
    failures = int(failed.sum())
    interval = clopper_pearson(failures, failed.size, level)
    return Judgement(failed.size, failures, interval, limit, interval.low <= limit)


def never(failed: npt.NDArray[np.bool_], level: float) -> Judgement:
    """That something never fails, whatever is drawn."""
    return rarely(failed, 0.0, level)


def mean_at_least(sample: Floats, limit: float, level: float) -> Judgement:
    """That a mean is ``limit`` or more; runs below it are counted as failures."""
    interval = Interval(*mean_interval(sample, level))
    failures = int((sample < limit).sum())
    return Judgement(sample.size, failures, interval, limit, interval.high >= limit)


def slope_at_most(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """That a mean grows no faster than ``limit`` per unit; steeper runs are counted as failures."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope > limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low <= limit)


def slope_above(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """That a mean is *shown* to grow faster than ``limit`` per unit, by all of the interval."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope <= limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low > limit)


def _count(points: Sequence[float], sample: Floats, wrong: Callable[[float], bool]) -> int:
    return sum(wrong(slope_of_growth(points, row[None, :]).value) for row in sample)
