"""Summaries of samples of runs, paired differences and growth rates.

Policies of a comparison share rewards replication by replication, so the differences of two
vary much less than the figures of either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.statistics.distributions import student_quantile

Floats = npt.NDArray[np.float64]


class Summary(NamedTuple):
    """A sample in six numbers."""

    mean: float
    stderr: float
    p05: float
    p50: float
    p95: float
    max: float


def summarise(sample: Floats) -> Summary:
    """Return mean, standard error of the mean, quantiles and maximum of ``sample``.

    Args:
        sample: one number for each run.

    >>> summarise(np.array([1.0, 2.0, 3.0]))._replace(stderr=0)
    Summary(mean=2.0, stderr=0, p05=1.1, p50=2.0, p95=2.9, max=3.0)
    """
    p05, p50, p95 = np.quantile(sample, [0.05, 0.5, 0.95])
    return Summary(
        mean=float(sample.mean()),
        stderr=standard_error(sample),
        p05=float(p05),
        p50=float(p50),
        p95=float(p95),
        max=float(sample.max()),
    )


def standard_error(sample: Floats) -> float:
    """Return the standard error of the mean; 0 for a single observation.

    Args:
        sample: one number for each run.
    """
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else 0.0


def mean_interval(sample: Floats, level: float = 0.05) -> tuple[float, float]:
    """Return Student's interval of the mean, which misses it with probability ``level``.

    The interval of a single observation is that point, since its error is unknown.

    Args:
        sample: one number for each run.
        level: the probability with which the interval may miss.

    >>> low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> f"{low:.4f} {high:.4f}"
    '-0.4841 4.4841'
    """
    mean = float(sample.mean())
    margin = mean_margin(standard_error(sample), sample.size, level)
    return mean - margin, mean + margin


def mean_margin(stderr: float, size: int, level: float = 0.05) -> float:
    """Return half the width of Student's interval of the mean; 0 for a single observation.

    >>> f"{mean_margin(1.0, 2):.2f} {mean_margin(1.0, 10):.2f}"
    '12.71 2.26'
    """
    return student_quantile(1 - level / 2, size - 1) * stderr if size > 1 else 0.0


class Difference(NamedTuple):
    """A mean difference and its confidence interval."""

    mean: float
    low: float
    high: float


def differences_to(
    reference: str, samples: Mapping[str, Floats], level: float = 0.05
) -> dict[str, Difference]:
    """Return how much each other sample exceeds the reference's, pair by pair.

    The intervals hold together with probability ``1 - level`` (Bonferroni).

    Args:
        reference: the name of the sample to which others are compared.
        samples: the samples by name, with equal replications at equal places.
        level: the probability with which any interval may miss.
    """
    others = [name for name in samples if name != reference]
    each = level / max(1, len(others))
    return {name: _difference(samples[name] - samples[reference], each) for name in others}


def _difference(gaps: Floats, level: float) -> Difference:
    low, high = mean_interval(gaps, level)
    return Difference(float(gaps.mean()), low, high)


def indistinguishable_from(
    reference: str, samples: Mapping[str, Floats], level: float = 0.05
) -> list[str]:
    """Return the samples whose difference to the reference may be 0, at the joint ``level``.

    Args:
        reference: the name of the sample to which others are compared.
        samples: the samples by name, with equal replications at equal places.
        level: the probability with which any interval may miss.
    """
    found = differences_to(reference, samples, level)
    return [name for name, gap in found.items() if gap.low <= 0.0 <= gap.high]


class Growth(NamedTuple):
    """A slope and its confidence interval."""

    value: float
    low: float
    high: float


def slope_of_growth(points: npt.ArrayLike, sample: Floats, level: float = 0.05) -> Growth:
    """Return the slope of the mean over the points; ``sample`` has one row per replication.

    The least-squares slopes of replications are independent, so their interval is valid whatever
    the variances at the points and the correlations within a replication.

    Args:
        points: where each column of the sample was taken.
        sample: one row for each replication.
        level: the probability with which the interval may miss.

    >>> slope_of_growth([1, 2, 3], np.array([[2.0, 4.0, 6.0], [3.0, 5.0, 7.0]]))
    Growth(value=2.0, low=2.0, high=2.0)
    """
    slopes = sample @ _slope_weights(np.asarray(points, dtype=np.float64))
    return Growth(float(slopes.mean()), *mean_interval(slopes, level))


def _slope_weights(points: Floats) -> Floats:
    """Return the weight of each value in the least-squares slope."""
    centred = points - points.mean()
    weights: Floats = centred / (centred @ centred)
    return weights
