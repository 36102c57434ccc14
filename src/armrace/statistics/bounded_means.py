"""Intervals of the mean of bounded numbers, valid for any dependence on the past.

All rest on Ville's inequality: a nonnegative martingale that begins at 1 exceeds ``1/level`` with
probability at most ``level``. For :func:`betting_interval`, if each ``x`` in [0, ``top``] has the
mean ``m`` given those before it, a gambler who stakes a fixed part of the wealth on ``x`` being
larger, or smaller, than ``m`` has such a martingale as wealth, so a mean at which some gambler gets
that rich is excluded. Wealth is averaged over several stakes, which is a martingale too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from armrace.statistics.proportions import Interval, bisect


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
    is_inside, misses = means_for_all_times(total, count, level), max(0.0, count - total)
    middle = min(max(total / count, 1e-9), 1 - 1e-9)
    low = 0.0 if total == 0 else bisect(is_inside, middle, 0.0, 40)[1]
    high = 1.0 if misses == 0 else bisect(is_inside, middle, 1.0, 40)[1]
    return Interval(low, high)


def means_for_all_times(total: float, count: int, level: float) -> Callable[[float], bool]:
    """Return whether a mean between 0 and 1 is in the interval of :func:`interval_for_all_times`.

    To ask that of one mean takes a fortieth of the time of an end.
    """
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

    return is_inside


Floats = npt.NDArray[np.float64]

_STAKES = np.array([0.02, 0.05, 0.1, 0.2, 0.4, 0.8])


def betting_interval(sample: Floats, top: float, level: float) -> Interval:
    """Return an interval that misses the mean of ``sample`` with probability at most ``level``.

    >>> low, high = betting_interval(np.full(1000, 0.5), top=1.0, level=0.01)
    >>> 0.45 < low < 0.5 < high < 0.55
    True
    """
    rich = np.log(2 / level)
    low, _ = bisect(lambda mean: _log_wealth(sample / mean - 1) >= rich, 0.0, top, 30)
    room, _ = bisect(lambda room: _log_wealth((top - sample) / room - 1) >= rich, 0.0, top, 30)
    return Interval(low, top - room)


def _log_wealth(gains: Floats) -> float:
    """The logarithm of the mean wealth, over all stakes, at its largest along the sample."""
    paths = np.log1p(_STAKES[:, None] * gains).cumsum(axis=1)
    together = np.logaddexp.reduce(paths, axis=0) - np.log(_STAKES.size)
    return float(max(together.max(), 0.0))


_LARGEST, _RATIO = 0.9, 3.0


def bernstein_interval(
    total: float,
    squares: float,
    terms: float,
    above: float,
    below: float,
    level: float = 0.05,
    planned: float | None = None,
) -> Interval:
    """Return an interval for the mean of the conditional expectations of the terms.

    Let the terms be X_t, M_t the expectation of X_t given all before it, and c_t a number that is
    known before X_t, with -``below`` <= X_t - c_t <= ``above``. The interval contains
    (M_1 + ... + M_n) / n with a probability of at least 1 - ``level``, for any number of terms and
    any dependence between them. It is an empirical Bernstein bound: ``exp(l S - p(l) V)`` with
    S = sum (X_t - M_t) / ``below``, V = sum ((X_t - c_t) / ``below``)^2 and p(l) = -ln(1 - l) - l
    has an expectation of at most 1 for every l in [0, 1), and so does a mean of it over several l;
    the low end is where that mean exceeds 2 / ``level``, and the high end the same with signs
    changed and ``above``. The values of l cover the variances that ``planned`` terms allow, by
    default ``terms``.

    Terms of several runs on the same data may be given as means over the runs of ``total``,
    ``squares`` and ``terms``: the exponential of a mean is at most the mean of exponentials.

    >>> low, high = bernstein_interval(total=50.0, squares=47.5, terms=1000, above=1.0, below=1.0)
    >>> f"{low:.4f} to {high:.4f}"
    '0.0257 to 0.0743'
    """
    if terms <= 0:
        return Interval(-math.inf, math.inf)
    log_term, mean = math.log(2.0 / level), total / terms
    return Interval(
        mean - _deviation(squares / below**2, planned or terms, log_term) * below / terms,
        mean + _deviation(squares / above**2, planned or terms, log_term) * above / terms,
    )


def bernstein_for_all_times(
    total: float, squares: float, terms: int, bound: float, level: float
) -> Interval:
    """Return an interval as :func:`bernstein_interval` that holds for all numbers of terms at once.

    Below 64 terms, and then from each power of two to the next, the values of l are the same, so
    that Ville's inequality covers all of these numbers. The k-th of these ranges has the level
    ``level / (k (k + 1))``, and these add up to ``level``. The terms are between ``-bound`` and
    ``bound``.

    >>> low, high = bernstein_for_all_times(50.0, 47.5, terms=1000, bound=1.0, level=0.05)
    >>> f"{low:.4f} to {high:.4f}"
    '0.0164 to 0.0836'
    """
    epoch = max(1, terms.bit_length() - 5)
    own = level / (epoch * (epoch + 1))
    return bernstein_interval(total, squares, terms, bound, bound, own, planned=32.0 * 2**epoch)


def _deviation(variance: float, terms: float, log_term: float) -> float:
    """Return the deviation S at which the mean of exp(l S - p(l) V) is exp(log_term)."""
    # At the largest possible variance, a quarter a term, this l is the best; others are larger.
    smallest = min(math.sqrt(8.0 * log_term / terms), _LARGEST)
    steps = 1 + math.ceil(math.log(_LARGEST / smallest, _RATIO))
    rates = np.geomspace(smallest, _LARGEST, steps)
    costs = (-np.log1p(-rates) - rates) * variance
    most = float(np.min((log_term + math.log(steps) + costs) / rates))

    def is_below(deviation: float) -> bool:
        mean = np.logaddexp.reduce(rates * deviation - costs) - math.log(steps)
        return bool(mean < log_term)

    return bisect(is_below, 0.0, most, 60)[1]
