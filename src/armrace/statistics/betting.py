"""Conservative confidence intervals for the mean of a bounded sample, by betting.

If each ``x`` in [0, ``top``] has the mean ``m`` given those before it, a gambler who stakes a fixed
part of the wealth on ``x`` being larger, or smaller, than ``m`` has a nonnegative martingale as
wealth. By Ville's inequality it exceeds ``1/level`` with probability at most ``level`` for every
distribution, so a mean at which some gambler gets that rich is excluded. Wealth is averaged over
several stakes, which is a martingale too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from armrace.statistics.proportions import Interval

Floats = npt.NDArray[np.float64]

_STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])
_HALVINGS = 30


def betting_interval(sample: Floats, top: float, level: float) -> Interval:
    """Return an interval that misses the mean of ``sample`` with probability at most ``level``.

    >>> low, high = betting_interval(np.full(1000, 0.5), top=1.0, level=0.01)
    >>> 0.45 < low < 0.5 < high < 0.55
    True
    """
    rich = np.log(2 / level)
    low = _edge(lambda mean: _log_wealth(sample / mean - 1) >= rich, 0.0, top)
    high = top - _edge(lambda room: _log_wealth((top - sample) / room - 1) >= rich, 0.0, top)
    return Interval(low, high)


def _log_wealth(gains: Floats) -> float:
    """The logarithm of the mean wealth, over all stakes, at its largest along the sample."""
    paths = np.log1p(_STAKES[:, None] * gains).cumsum(axis=1)
    together = np.logaddexp.reduce(paths, axis=0) - np.log(_STAKES.size)
    return float(max(together.max(), 0.0))


def _edge(is_excluded: Callable[[float], bool], low: float, high: float) -> float:
    """The upper end of the range in which a condition holds; ``low`` if it holds nowhere."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_excluded(middle) else (low, middle)
    return low
