"""The logarithmic barrier, plain or as a hybrid with an entropy, with a scale for each arm.

With ``r = 1/(excess + d)``, where ``excess`` is how far an arm's loss lies above the least one, the
probabilities are ``scale * r``, and ``d`` is wanted for which their sum ``S`` is 1. The function
``f(d) = 1/S`` is a weighted harmonic mean of linear functions, so it is increasing and concave, and
nearly linear. A Newton step for ``f = 1`` therefore never ends beyond the root, wherever it
starts. From there on, error times slope falls to a quarter or less with each step: if ``h = 1 - f``
has the slope ``-s``, convexity gives ``h >= h' + s' (h/s)`` for the values after the step, that is
``h'/h + s'/s <= 1``.

Near the root, a second term makes the error of a step cubic. When a step is so small that its cube
does not matter, the probabilities are taken along it by their series, without divisions.

The *hybrid* barrier adds an entropy of the complement: that of a probability ``w`` is
``w - 1 - ln w + entropy * (w + (1-w) ln(1-w))``.
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.limits import Limits

_LAST_STEP = 1e-4
"""After a step of this size, relative to the distance, the error is below 1e-12."""
_MOST_STEPS = 100
_FARTHEST = 1e60
"""The largest distance to start from: the cube of its reciprocal is not 0 yet."""
_LARGEST_CORRECTION = 0.25

_TOLERANCE = 1e-12
_MOST_JOINT_STEPS = 12
_SMALL_STEP = 1e-7
"""After a Newton step of this relative size, the error is about its square."""
_PRECISION = 4e-16
_TINY = 1e-290
"""Probabilities this small are as good as 0, and their reciprocals are still finite."""

Floats = npt.NDArray[np.float64]

Optimism = Annotated[
    float, Limits("how many deviations are subtracted from an estimated loss", 0, 10)
]
FirstScale = Annotated[float, Limits("scale of the barrier at first", 0.1, 100)]
ScaleGrowth = Annotated[
    float, Limits("how fast scales grow with the errors of predictions", 0, 100)
]


@inlined
def arm_of_least_loss(losses: Floats) -> int:
    """The first arm with the least loss."""
    best, least = 0, losses[0]
    for arm in range(1, losses.size):
        if losses[arm] < least:
            best, least = arm, losses[arm]
    return best


@inlined
def corrected_step(step: float, bend: float) -> float:
    """A Newton step with the second term; ``bend`` is ``-f''/2f'``, which is not negative."""
    # Far from the root only the plain step is known not to pass it; the second term is for nearby.
    correction = step * bend
    return step * (1.0 + correction) if abs(correction) < _LARGEST_CORRECTION else step


@inlined
def barrier_weights(expected: Floats, scales: Floats, normaliser: float, out: Floats) -> float:
    """Probabilities ``scale / (expected loss - x)`` into ``out``; returns ``x``.

    They minimise the expected loss minus ``sum scale * ln(w)``. The distance of ``x`` from the
    least expected loss is at least the scale of that arm. The search starts from ``normaliser``,
    the ``x`` of the round before, from where two evaluations are nearly always enough.

    Args:
        expected: the loss that each arm is expected to have.
        scales: the scale of each arm's barrier, all positive.
        normaliser: the ``x`` of the round before.
        out: an array with an entry for each arm, which is overwritten.
    """
    best = arm_of_least_loss(expected)
    least = expected[best]
    low = scales[best]
    distance = min(max(least - normaliser, low), _FARTHEST)
    step = 0.0
    for _ in range(_MOST_STEPS):
        # The divisions have a loop of their own, which compiled code does several at a time.
        for arm in range(out.size):
            out[arm] = 1.0 / (expected[arm] - least + distance)
        total, slope, curvature = 0.0, 0.0, 0.0
        for arm in range(out.size):
            root = out[arm]
            weight = scales[arm] * root
            total += weight
            slope += weight * root
            curvature += weight * root * root
        # With S' = -slope and S'' = 2 curvature: (1 - f)/f' and -f''/2f' for f = 1/S.
        step = corrected_step(total * (total - 1.0) / slope, curvature / slope - slope / total)
        if abs(step) < _LAST_STEP * distance:
            break
        distance = max(distance + step, low)
    # The last step is taken on the probabilities themselves: 1/(1 + change) by its series up to the
    # third power, whose error is below 1e-15 for a change of 1e-4.
    for arm in range(out.size):
        change = step * out[arm]
        out[arm] = scales[arm] * out[arm] * (1.0 - change * (1.0 - change * (1.0 - change)))
    return least - (distance + step)


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
