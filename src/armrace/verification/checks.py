"""Claims, and the outcomes of checking them.

``verify`` checks many claims. Each confidence interval is computed at the same small level, the
error probability of the whole divided by the number of claims (Bonferroni), so that the probability
that *any* true claim is called refuted is at most that error probability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import count
from armrace.simulation.experiment import Experiment
from armrace.statistics import Interval, clopper_pearson, mean_interval, slope_of_growth
from armrace.verification.runs import Runs

Floats = npt.NDArray[np.float64]


def describe_means(means: Iterable[float]) -> str:
    """Return the means of the arms as part of a setting.

    >>> describe_means([0.5, 0.25])
    'means 0.5, 0.25'
    """
    return f"means {', '.join(map(count, means))}"


class Judgement(NamedTuple):
    """The outcome of the runs for one claim."""

    runs: int
    failures: int
    interval: Interval
    """A confidence interval of the quantity that is measured; a point where it is known exactly."""
    limit: float
    """The limit with which the interval is compared."""
    holds: bool


@dataclass(frozen=True)
class Claim:
    """A statement, the experiments that may refute it, and the function that judges them."""

    claim: str
    policy: str
    setting: str
    measure: str
    """The quantity that the interval estimates, and how it must relate to the limit."""
    experiments: tuple[Experiment, ...]
    """What must be played to judge it; nothing where the judge plays by itself."""
    judge: Callable[[Sequence[Runs], float], Judgement]
    theorem: str
    """The theorem or lemma that it checks."""


class Check(msgspec.Struct, frozen=True):
    """A row of the table: a claim that was checked."""

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
    """The version of the library that checked it."""
    form: Literal["quick", "full"]


def rarely(failed: npt.NDArray[np.bool_], limit: float, level: float) -> Judgement:
    """Judge whether something fails with probability at most ``limit`` (exact binomial test)."""
    failures = int(failed.sum())
    interval = clopper_pearson(failures, failed.size, level)
    return Judgement(failed.size, failures, interval, limit, interval.low <= limit)


def never(failed: npt.NDArray[np.bool_], level: float) -> Judgement:
    """Judge whether something never fails, for any random draws."""
    return rarely(failed, 0.0, level)


def mean_at_least(sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether a mean is at least ``limit``; runs below it are counted as failures."""
    interval = Interval(*mean_interval(sample, level))
    failures = int((sample < limit).sum())
    return Judgement(sample.size, failures, interval, limit, interval.high >= limit)


def slope_at_most(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether a mean grows by at most ``limit`` per unit; steeper runs count as failures."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope > limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low <= limit)


def slope_above(points: Sequence[float], sample: Floats, limit: float, level: float) -> Judgement:
    """Judge whether the whole interval of a slope lies above ``limit`` per unit."""
    growth = slope_of_growth(points, sample, level)
    failures = _count(points, sample, lambda slope: slope <= limit)
    interval = Interval(growth.low, growth.high)
    return Judgement(len(sample), failures, interval, limit, growth.low > limit)


def _count(points: Sequence[float], sample: Floats, wrong: Callable[[float], bool]) -> int:
    return sum(wrong(slope_of_growth(points, row[None, :]).value) for row in sample)
