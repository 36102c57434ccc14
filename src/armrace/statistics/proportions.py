"""Inference about a probability from the number of successes, and the range of other rewards."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import NamedTuple

from armrace.errors import InvalidParameter

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
        successes: the number of successes.
        runs: the number of runs.
        probability: the probability of a success.

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
    """Return the binomial probability of at least ``first`` successes; ``first`` is above the mean.

    The terms then shrink from the first one on, and are summed relative to it.
    """
    # The first term, in logarithms: its factorials would overflow.
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
        # The ratio of neighbouring binomial terms.
        term *= odds * (runs - count) / (count + 1)
        if term < _NEGLIGIBLE * total:
            break
    return math.exp(logarithm) * total


def clopper_pearson(successes: int, runs: int, level: float = 0.05) -> Interval:
    """Return the exact interval of a probability; it misses with probability at most ``level``.

    Its ends are the probabilities at which ``successes`` or more, and ``successes`` or fewer, have
    probability ``level/2``.

    Args:
        successes: the number of successes.
        runs: the number of runs.
        level: the probability with which the interval may miss.

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
        low, _ = bisect(lambda p: binomial_tail(successes, runs, p) < tail, 0.0, 1.0)
    if successes < runs:
        least, _ = bisect(lambda p: binomial_tail(runs - successes, runs, p) < tail, 0.0, 1.0)
        high = 1 - least
    return Interval(low, high)


def wilson_interval(share: float, runs: int, level: float = 0.05) -> Interval:
    """Return Wilson's interval of a probability, which misses it about as often as ``level``.

    It takes far less time than the exact interval. Of means of numbers in [0, 1] other than 0 and 1
    it is conservative, since their variance is smaller.

    >>> low, high = wilson_interval(0.1, 50)
    >>> f"{low:.4f} {high:.4f}"
    '0.0435 0.2136'
    """
    squared = NormalDist().inv_cdf(1 - level / 2) ** 2 / runs
    middle = (share + squared / 2) / (1 + squared)
    half = math.sqrt(squared * share * (1 - share) + squared**2 / 4) / (1 + squared)
    return Interval(middle - half, middle + half)


def bisect(
    holds: Callable[[float], bool], inside: float, outside: float, halvings: int = 200
) -> tuple[float, float]:
    """Return neighbours of the place at which a condition that holds inside ends."""
    for _ in range(halvings):
        middle = (inside + outside) / 2
        if middle in {inside, outside}:  # no number lies between them any more
            break
        if holds(middle):
            inside = middle
        else:
            outside = middle
    return inside, outside


class Scale(NamedTuple):
    """The range of rewards, which is scaled to [0, 1].

    >>> scale = Scale(-1.0, 3.0)
    >>> scale.share(1.0), scale.reward(0.5), scale.difference(0.5)
    (0.5, 1.0, 2.0)
    """

    low: float = 0.0
    high: float = 1.0

    def share(self, reward: float) -> float:
        """Return where a reward lies in the range."""
        return (reward - self.low) / (self.high - self.low)

    def reward(self, share: float) -> float:
        """Return the reward at a share of the range."""
        return self.low + (self.high - self.low) * share

    def difference(self, share: float) -> float:
        """Return the difference of rewards that are this share of the range apart."""
        return (self.high - self.low) * share

    def interval(self, shares: Interval) -> Interval:
        """Return the interval of rewards for one of shares."""
        return Interval(self.reward(shares.low), self.reward(shares.high))
