"""What a sample of runs says: mean, its error, and the quantiles that matter for tails."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Summary", "mean_interval", "standard_error", "student_quantile", "summarise"]


class Summary(NamedTuple):
    """A sample in six numbers."""

    mean: float
    stderr: float
    p05: float
    p50: float
    p95: float
    max: float


def summarise(sample: npt.NDArray[np.float64]) -> Summary:
    """Mean, standard error of the mean, quantiles and maximum.

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


def standard_error(sample: npt.NDArray[np.float64]) -> float:
    """Standard error of the mean; 0 for a single observation, of which nothing is known."""
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else 0.0


def mean_interval(sample: npt.NDArray[np.float64], level: float = 0.05) -> tuple[float, float]:
    """Student's interval of the mean, which misses it with probability ``level``.

    A single observation says nothing of its error; the interval is then the point itself.

    >>> low, high = mean_interval(np.array([1.0, 2.0, 3.0]))
    >>> f"{low:.4f} {high:.4f}"
    '-0.4841 4.4841'
    """
    mean = float(sample.mean())
    if sample.size < 2:
        return mean, mean
    margin = student_quantile(1 - level / 2, sample.size - 1) * standard_error(sample)
    return mean - margin, mean + margin


def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's law: exact for 1 and 2 degrees of freedom.

    From 3 on the Cornish-Fisher expansion (Abramowitz and Stegun 26.7.5), whose relative error
    at 0.975 is at most 0.13%.
    """
    if freedom == 1:
        return math.tan(math.pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) / math.sqrt(2 * probability * (1 - probability))
    z = NormalDist().inv_cdf(probability)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
