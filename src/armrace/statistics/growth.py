"""Growth rates, from replications that were measured at the same points."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.statistics.summaries import mean_interval

Floats = npt.NDArray[np.float64]


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
