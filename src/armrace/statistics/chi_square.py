"""The upper tail of the chi-square distribution, without SciPy."""

from __future__ import annotations

import math

_TERMS = 10_000
_PRECISION = 1e-15
_SMALLEST = 1e-300


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the probability that a chi-square variable exceeds ``statistic``.

    It is the upper incomplete gamma function Q(k/2, x/2), by its series below k/2 + 1 and by its
    continued fraction above.

    >>> round(chi_square_tail(3.841458820694124, 1), 12)
    0.05
    """
    a, x = freedom / 2.0, statistic / 2.0
    if x <= 0.0:
        return 1.0
    scale = math.exp(a * math.log(x) - x - math.lgamma(a))
    return 1.0 - scale * _series(a, x) if x < a + 1.0 else scale * _fraction(a, x)


def _series(a: float, x: float) -> float:
    term = total = 1.0 / a
    for n in range(1, _TERMS):
        term *= x / (a + n)
        total += term
        if term < total * _PRECISION:
            break
    return total


def _fraction(a: float, x: float) -> float:
    """Lentz's evaluation of the continued fraction."""
    b = x + 1.0 - a
    c, d = 1.0 / _SMALLEST, 1.0 / b
    value = d
    for n in range(1, _TERMS):
        factor = -n * (n - a)
        b += 2.0
        d = 1.0 / (factor * d + b)
        c = b + factor / c
        value *= d * c
        if abs(d * c - 1.0) < _PRECISION:
            break
    return value
