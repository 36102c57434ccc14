"""The hybrid of a logarithmic barrier and an entropy of the complement, with a scale for each arm.

The barrier of a probability ``w`` is ``w - 1 - ln w + entropy * (w + (1-w) ln(1-w))``.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.policies.leaders.barrier import arm_of_least_loss

_TOLERANCE = 1e-12
_MOST_STEPS = 100
_MOST_JOINT_STEPS = 12
_SMALL_STEP = 1e-7
"""After a Newton step of this relative size, the error is about its square."""
_PRECISION = 4e-16
_TINY = 1e-290
"""Probabilities this small are as good as 0, and their reciprocals are still finite."""

Floats = npt.NDArray[np.float64]


@inlined
def _hybrid_slope(weight: float, entropy: float) -> float:
    """The derivative of the barrier."""
    return 1.0 - 1.0 / weight - entropy * math.log1p(-weight)


@inlined
def _hybrid_curvature(weight: float, entropy: float) -> float:
    return 1.0 / (weight * weight) + entropy / (1.0 - weight)


@inlined
def _kept_inside(weight: float) -> float:
    # The slope has a pole at 0 and a logarithm of 0 at 1.
    return min(max(weight, _TINY), 1.0 - _PRECISION)


@inlined
def _next_guess(weight: float, error: float, curvature: float) -> float:
    """Return the weight after a Newton step in ``1/w``, or in ``-ln(1-w)`` for large weights.

    In these variables the slope of the barrier is nearly linear, near 0 and near 1 respectively,
    so that few steps are needed even from a distant start.
    """
    reciprocal = 1.0 / weight + error / (curvature * weight * weight)
    if weight < 0.5 and reciprocal > 1.0:
        return 1.0 / reciprocal
    rest = 1.0 - weight
    guess = 1.0 - rest * math.exp(error / (curvature * rest))
    return guess if guess > 0.0 else 1.0 / reciprocal


@inlined
def _invert_hybrid_slope(target: float, entropy: float, start: float) -> float:
    """The weight at which the hybrid barrier has the slope ``target``.

    The slope is convex in ``1/w`` and concave in ``-ln(1-w)``, so that Newton steps converge
    from any start; the bracket guards against rounding.
    """
    low, high = 0.0, 1.0
    weight = _kept_inside(start)
    for _ in range(_MOST_STEPS):
        error = _hybrid_slope(weight, entropy) - target
        if error > 0.0:
            high = weight
        else:
            low = weight
        guess = _next_guess(weight, error, _hybrid_curvature(weight, entropy))
        if not low <= guess <= high:
            guess = 0.5 * (low + high)
        guess = _kept_inside(guess)
        change = abs(guess - weight)
        weight = guess
        if change <= _SMALL_STEP * min(weight, 1.0 - weight):
            break
    return weight


@inlined
def hybrid_barrier_weights(
    expected: Floats,
    scales: Floats,
    entropy: float,
    latest: Floats,
    normaliser: float,
    out: Floats,
) -> float:
    """Minimise the expected loss plus ``sum scale * barrier(w)``; returns the multiplier.

    The search starts from ``latest`` and ``normaliser``, weights and multiplier of the round
    before. The multiplier is bracketed: if one arm has the weight ``1/K`` and no other less, the
    weights sum to at least 1; if no other has more, to at most 1. From the latest solution, a few
    joint Newton steps of weights and multiplier are nearly always enough. Otherwise a safeguarded
    search within the bracket computes the exact weights for each multiplier.
    """
    least = expected[arm_of_least_loss(expected)]
    even = _hybrid_slope(1.0 / out.size, entropy)
    low, high = np.inf, -np.inf
    for arm in range(out.size):
        excess = expected[arm] - least
        low = min(low, excess + scales[arm] * even)
        high = max(high, excess + scales[arm] * even)
        out[arm] = _kept_inside(latest[arm])
    # Losses are measured from the least one, so that large losses do not cost precision.
    multiplier = min(max(normaliser - least, low), high)
    multiplier, found = _solve_jointly(expected, least, scales, entropy, low, high, multiplier, out)
    if not found:
        multiplier = _solve_in_turn(expected, least, scales, entropy, low, high, multiplier, out)
    total = 0.0
    for arm in range(out.size):
        total += out[arm]
    # What is left of the error, some rounding, is removed by normalising.
    for arm in range(out.size):
        out[arm] /= total
    return multiplier + least


@inlined
def _solve_jointly(
    expected: Floats,
    least: float,
    scales: Floats,
    entropy: float,
    low: float,
    high: float,
    multiplier: float,
    out: Floats,
) -> tuple[float, bool]:
    """Take Newton steps of all weights together; return the multiplier and whether they converged.

    In each iteration every weight takes a step, then the multiplier, and the weights are adjusted
    to the new multiplier. Convergence is quadratic: once all steps are small, the remaining errors
    are about their squares, and no further iteration is needed.
    """
    for _ in range(_MOST_JOINT_STEPS):
        total, slope, largest_step = 0.0, 0.0, 0.0
        for arm in range(out.size):
            start = out[arm]
            excess = expected[arm] - least
            error = _hybrid_slope(start, entropy) - (multiplier - excess) / scales[arm]
            curvature = _hybrid_curvature(start, entropy)
            weight = _kept_inside(_next_guess(start, error, curvature))
            out[arm] = weight
            total += weight
            slope += 1.0 / (scales[arm] * curvature)
            largest_step = max(largest_step, abs(weight - start) / min(start, 1.0 - start))
        # ``slope`` is the derivative of the sum of the weights with respect to the multiplier.
        following = min(max(multiplier + (1.0 - total) / slope, low), high)
        change = following - multiplier
        multiplier = following
        for arm in range(out.size):
            curvature = _hybrid_curvature(out[arm], entropy)
            out[arm] = _kept_inside(_next_guess(out[arm], -change / scales[arm], curvature))
        if largest_step < _SMALL_STEP and abs(change) < _SMALL_STEP:
            return multiplier, True
    return multiplier, False


@outlined
def _solve_in_turn(
    expected: Floats,
    least: float,
    scales: Floats,
    entropy: float,
    low: float,
    high: float,
    multiplier: float,
    out: Floats,
) -> float:
    """Newton's method for the multiplier, with exact weights and bisection as a safeguard."""
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for arm in range(out.size):
            target = (multiplier - (expected[arm] - least)) / scales[arm]
            out[arm] = _invert_hybrid_slope(target, entropy, out[arm])
            total += out[arm]
            slope += 1.0 / (scales[arm] * _hybrid_curvature(out[arm], entropy))
        if abs(total - 1.0) < _TOLERANCE:
            break
        if total > 1.0:
            high = multiplier
        else:
            low = multiplier
        following = multiplier + (1.0 - total) / slope
        multiplier = following if low < following < high else 0.5 * (low + high)
    return multiplier
