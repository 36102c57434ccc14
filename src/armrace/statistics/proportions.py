"""Exact inference about a probability from the number of successes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from armrace.errors import InvalidParameter

__all__ = ["Interval", "binomial_tail", "clopper_pearson"]

_HALVINGS = 200
_NEGLIGIBLE = 1e-17


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


def binomial_tail(successes: int, runs: int, probability: float) -> float:
    """Return the probability of at least ``successes`` successes in independent runs.

    The smaller of the two tails is summed term by term, away from the middle, so that it keeps
    its relative accuracy however small it is.

    Args:
        successes: the least number of successes that counts.
        runs: the number of runs.
        probability: the probability of success in one run.

    >>> [round(binomial_tail(successes, 3, 0.5), 12) for successes in range(5)]
    [1.0, 0.875, 0.5, 0.125, 0.0]
    """
    if successes <= 0:
        return 1.0
    if successes > runs or probability <= 0:
        return 0.0
    if probability >= 1:
        return 1.0
    if successes > runs * probability:
        return _upper_sum(successes, runs, probability)
    return 1.0 - _upper_sum(runs - successes + 1, runs, 1 - probability)


def _upper_sum(first: int, runs: int, probability: float) -> float:
    """The sum of the terms from ``first`` on, which lies above the mean, so that they shrink."""
    logarithm = (
        math.lgamma(runs + 1)
        - math.lgamma(first + 1)
        - math.lgamma(runs - first + 1)
        + first * math.log(probability)
        + (runs - first) * math.log1p(-probability)
    )
    odds = probability / (1 - probability)
    term, total = 1.0, 0.0
    for count in range(first, runs + 1):
        total += term
        term *= odds * (runs - count) / (count + 1)
        if term < _NEGLIGIBLE * total:
            break
    return math.exp(logarithm) * total


def clopper_pearson(successes: int, runs: int, level: float = 0.05) -> Interval:
    """Return the exact interval of a probability; it misses with probability at most ``level``.

    Its ends are the probabilities at which ``successes`` or more, and ``successes`` or fewer, have
    probability ``level/2``.

    Args:
        successes: the number of successes seen.
        runs: the number of runs.
        level: the probability of a miss.

    >>> low, high = clopper_pearson(0, 10)  # 1 - 0.025^(1/10)
    >>> low, f"{high:.6f}"
    (0.0, '0.308497')
    """
    if not 0 <= successes <= runs or runs < 1:
        raise InvalidParameter(
            f"successes must be in [0, runs] and runs at least 1; got {successes} of {runs}."
        )
    if not 0 < level < 1:
        raise InvalidParameter(f"level must be in (0, 1); got {level:g}.")
    tail = level / 2
    low, high = 0.0, 1.0
    if successes > 0:
        low = _crossing(lambda p: binomial_tail(successes, runs, p) < tail)
    if successes < runs:
        high = 1 - _crossing(lambda p: binomial_tail(runs - successes, runs, p) < tail)
    return Interval(low, high)


def _crossing(is_below: Callable[[float], bool]) -> float:
    """Bisect for where a condition that holds at 0 and not at 1 ends, from below."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if is_below(middle):
            low = middle
        else:
            high = middle
    return low
