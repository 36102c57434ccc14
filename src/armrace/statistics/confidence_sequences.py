"""Confidence sequences: intervals of means that hold at all times at once."""

from __future__ import annotations

import math
from collections.abc import Callable

from armrace.statistics.proportions import Interval

_HALVINGS = 40


def interval_for_all_times(total: float, count: int, level: float) -> Interval:
    """Return an interval of the mean of rewards in [0, 1], given their sum.

    The likelihood of the rewards under a mean that is drawn by Jeffreys' prior, divided by that
    under the true mean, is at most a martingale. So with probability ``1 - level`` it never exceeds
    ``1/level``, and the interval holds at all times at once, even if what was seen before decided
    which rewards came.

    Args:
        total: the sum of the rewards.
        count: their number.
        level: the probability with which the interval may miss at any time.

    >>> low, high = interval_for_all_times(total=70.0, count=100, level=0.05)
    >>> f"{low:.3f} {high:.3f}"
    '0.537 0.834'
    >>> interval_for_all_times(total=0.0, count=0, level=0.05)
    Interval(low=0.0, high=1.0)
    """
    if count == 0:
        return Interval(0.0, 1.0)
    misses = max(0.0, count - total)
    mixture = (
        math.lgamma(total + 0.5)
        + math.lgamma(misses + 0.5)
        - math.lgamma(count + 1)
        - math.log(math.pi)
    )

    def is_inside(mean: float) -> bool:
        likelihood = total * math.log(mean) if total else 0.0
        likelihood += misses * math.log1p(-mean) if misses else 0.0
        return mixture - likelihood <= -math.log(level)

    middle = min(max(total / count, 1e-9), 1 - 1e-9)
    low = 0.0 if total == 0 else _boundary(is_inside, middle, 0.0)
    high = 1.0 if misses == 0 else _boundary(is_inside, middle, 1.0)
    return Interval(low, high)


def _boundary(is_inside: Callable[[float], bool], inside: float, outside: float) -> float:
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if is_inside(middle):
            inside = middle
        else:
            outside = middle
    return outside
