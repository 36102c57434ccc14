"""The divergence of Bernoulli laws, and the confidence bounds that it gives.

``kl(p, q) = p ln(p/q) + (1-p) ln((1-p)/(1-q))``, with ``0 ln 0 = 0``. It is convex in ``q`` with
its zero at ``p``, and ``kl(p, q) >= 2 (q-p)^2`` (Pinsker), which brackets its roots.
"""

from __future__ import annotations

import math

import numpy as np

from armrace.kernels.compiling import inlined

_STEPS = 100
_PRECISION = 1e-16
_NOTHING = 1e-200
"""Means below count as 0: ratios to them overflow, and they contribute nothing."""


@inlined
def kl(p: float, q: float) -> float:
    """The divergence of Bernoulli(p) from Bernoulli(q); accurate also where they are close.

    Args:
        p: a mean in [0, 1].
        q: another mean in [0, 1].
    """
    if p == q:
        return 0.0
    # After the test for equality: the divergence of a law from itself is 0 at 0 and 1, too.
    if q <= 0.0 or q >= 1.0:
        return np.inf
    total = 0.0
    if p > _NOTHING:
        total -= p * _log_of_ratio(q - p, q, p)
    if p < 1.0:
        total -= (1.0 - p) * _log_of_ratio(p - q, 1.0 - q, 1.0 - p)
    # The two terms nearly cancel where the means are close: rounding may leave a negative number.
    return max(total, 0.0)


@inlined
def _log_of_ratio(difference: float, upper: float, lower: float) -> float:
    """``ln(upper/lower)``, from the difference where the ratio is near 1."""
    change = difference / lower
    return math.log1p(change) if abs(change) < 0.5 else math.log(upper / lower)


@inlined
def upper_kl(p: float, level: float) -> float:
    """The largest ``q`` with ``kl(p, q) <= level``.

    Args:
        p: a mean in [0, 1].
        level: the largest divergence.
    """
    # The upper end of the bracket is not inside it: the search starts in the middle.
    return improve_upper_kl(p, level, p + math.sqrt(0.5 * level))


@inlined
def lower_kl(p: float, level: float) -> float:
    """The smallest ``q`` with ``kl(p, q) <= level``.

    Args:
        p: a mean in [0, 1].
        level: the largest divergence.
    """
    # Exchanging successes and failures leaves the divergence as it is.
    return 1.0 - upper_kl(1.0 - p, level)


@inlined
def improve_upper_kl(p: float, level: float, guess: float) -> float:
    """Solve for :func:`upper_kl` from a guess by Newton's method, with bisection as a safeguard.

    A step ``s`` leaves an error of about ``s^2 / 2 (1/(q-p) + 1/(1-q))``. The iteration can
    therefore stop after a small step, without another evaluation of the divergence.
    """
    if p >= 1.0 or level <= 0.0:
        return min(p, 1.0)
    if p <= _NOTHING:
        return -math.expm1(-level)  # kl(0, q) = -ln(1 - q), solved for q
    low, high = p, min(1.0, p + math.sqrt(0.5 * level))
    q = guess if low < guess < high else 0.5 * (low + high)
    for _ in range(_STEPS):
        if q <= low or q >= high:  # no number lies strictly between the ends any more
            break
        excess = kl(p, q) - level
        if excess > 0.0:
            high = q
        else:
            low = q
        # The derivative of kl(p, q) in q is (q - p) / (q (1 - q)).
        step = excess * q * (1.0 - q) / (q - p)
        following = q - step
        if step * step * (1.0 / (q - p) + 1.0 / (1.0 - q)) < _PRECISION:
            return following
        q = following if low < following < high else 0.5 * (low + high)
    return q
