"""Summaries of a sample of runs: mean, standard error, quantiles and a confidence interval."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.statistics.student import student_quantile


class Summary(NamedTuple):
    """A sample in six numbers."""

    mean: float
    stderr: float
    p05: float
    p50: float
    p95: float
    max: float


def summarise(sample: npt.NDArray[np.float64]) -> Summary:
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


def standard_error(sample: npt.NDArray[np.float64]) -> float:
    """Return the standard error of the mean; 0 for a single observation.

    Args:
        sample: one number for each run.
    """
    return float(sample.std(ddof=1) / math.sqrt(sample.size)) if sample.size > 1 else 0.0


def mean_interval(sample: npt.NDArray[np.float64], level: float = 0.05) -> tuple[float, float]:
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
