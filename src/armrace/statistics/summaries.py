"""What a sample of runs says: mean, its error, and the quantiles that matter for tails."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["Summary", "mean_interval", "summarise"]

_NORMAL_QUANTILE_975 = 1.959963984540054


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


def mean_interval(sample: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The normal 95% interval of the mean, as it is asymptotically valid."""
    mean, error = float(sample.mean()), standard_error(sample)
    return mean - _NORMAL_QUANTILE_975 * error, mean + _NORMAL_QUANTILE_975 * error
