"""Quantiles of Student's t distribution and the tail of chi-square, without SciPy.

Joint intervals of many policies ask for levels far beyond 0.975, where the usual expansion of
Student's quantiles in powers of one over the degrees of freedom is several per cent too small: so
the distribution function is inverted.
"""

from __future__ import annotations

import math
from functools import cache

from armrace.statistics.proportions import bisect

_TERMS = 10_000
_ACCURACY = 1e-14
_TINY = 1e-300


def student_quantile(probability: float, freedom: int) -> float:
    """Return the ``probability``-quantile of Student's law with ``freedom`` degrees of freedom.

    The relative error is below 1e-7 for tails down to 1e-9.

    >>> f"{student_quantile(0.999, 3):.3f}"
    '10.215'
    """
    size = _upper_quantile(min(probability, 1 - probability), freedom)
    return -size if probability < 0.5 else size


@cache  # tables ask for few different ones, many times
def _upper_quantile(tail: float, freedom: int) -> float:
    """The place, at least 0, that a Student variable exceeds with probability ``tail``."""
    high = 1.0
    while student_tail(high, freedom) > tail:
        high *= 2
    return bisect(lambda place: student_tail(place, freedom) > tail, 0.0, high)[0]


def student_tail(place: float, freedom: int) -> float:
    """Return the probability that a Student variable exceeds ``place``, at least 0.

    >>> f"{student_tail(10.214531852407, 3):.9f}"
    '0.001000000'
    """
    square = place * place
    inside = square / (freedom + square)
    outside = freedom / (freedom + square)
    # The continued fraction converges fast only on one side of the mean of the beta law; the
    # symmetry I_x(a, b) = 1 - I_(1-x)(b, a) gives the other side.
    if outside < (freedom + 2) / (freedom + 5):
        return 0.5 * _incomplete_beta(outside, inside, freedom / 2, 0.5)
    return 0.5 - 0.5 * _incomplete_beta(inside, outside, 0.5, freedom / 2)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """The regularised incomplete beta function at ``x``, where ``rest`` is ``1 - x``.

    Lentz's evaluation of its continued fraction (DLMF 8.17.22), whose terms come in pairs.
    """
    if x == 0.0:
        return 0.0
    log_factor = a * math.log(x) + b * math.log(rest)
    log_factor += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    ratio = 1.0
    inverse = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    fraction = inverse
    for m in range(1, _TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        change = 1.0
        for term in (even, odd):
            inverse = 1.0 / _away_from_zero(1.0 + term * inverse)
            ratio = _away_from_zero(1.0 + term / ratio)
            change = inverse * ratio
            fraction *= change
        if abs(change - 1.0) < _ACCURACY:
            break
    return math.exp(log_factor) * fraction / a


def _away_from_zero(number: float) -> float:
    return number if abs(number) > _TINY else _TINY


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``.

    It is a finite sum (DLMF 8.4.10 and 8.4.15), all of whose terms are positive.

    >>> round(chi_square_tail(3.841458820694124, 1), 12)
    0.05
    """
    half, odd = statistic / 2.0, freedom % 2
    if half <= 0.0:
        return 1.0
    orders = [number + odd / 2 for number in range(freedom // 2)]
    terms = (math.exp(n * math.log(half) - half - math.lgamma(n + 1)) for n in orders)
    return min(1.0, math.fsum(terms) + (math.erfc(math.sqrt(half)) if odd else 0.0))
