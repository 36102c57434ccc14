"""Estimated losses with a prediction of the next one, and probabilities that follow from both.

An optimistic leader expects arm ``i`` to lose ``m[i]`` in the coming round and solves
``min <w, losses + m> + regulariser(w)``. What it learns from a play with probability ``p`` is
how far the prediction was off: every arm is charged its prediction, and the arm that was played
``(loss - m[i]) / p`` on top. The charge does not depend on the reward. It is made when the
decision is assigned, and the ticket keeps the prediction of its arm, so that a late reward leaves
the estimate unbiased.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.declarations import LIMITED, PROBABILITIES, UNIT, declare
from armrace.policies.leaders.estimates import Solution

__all__ = [
    "PredictedLosses",
    "barrier_weights",
    "charge_predictions",
    "hybrid_barrier_weights",
    "make_predicted_losses",
]

_FIRST_PREDICTION = 0.5
_TOLERANCE = 1e-12
_MOST_STEPS = 100
_MOST_JOINT_STEPS = 12
_SMALL_STEP = 1e-7
"""After a Newton step of this relative size, the error is about its square."""
_PRECISION = 4e-16
_TINY = 1e-290
"""Probabilities this small are as good as 0, and their reciprocals are still finite."""

Floats = npt.NDArray[np.float64]


@declare(losses=LIMITED, predictions=UNIT, weights=PROBABILITIES, normaliser=LIMITED)
class PredictedLosses(NamedTuple):
    """Estimated and predicted losses, and the solution for the latest decision."""

    losses: Floats
    predictions: Floats
    weights: Floats
    """The probabilities of the latest decision."""
    normaliser: Floats
    """The multiplier of the condition that these sum to 1."""


def make_predicted_losses(arms: int) -> PredictedLosses:
    """Estimates before the first round."""
    return PredictedLosses(
        losses=np.zeros(arms),
        predictions=np.full(arms, _FIRST_PREDICTION),
        weights=np.full(arms, 1.0 / arms),
        normaliser=np.zeros(1),
    )


@inlined
def charge_predictions(estimates: PredictedLosses, solution: Solution) -> None:
    """Add to every arm's estimate its prediction, and keep the solution of the decision."""
    for arm in range(estimates.losses.size):
        estimates.losses[arm] += estimates.predictions[arm]
        estimates.weights[arm] = solution.weights[arm]
    estimates.normaliser[0] = solution.normaliser[0]


@inlined
def _least_expected(estimates: PredictedLosses) -> int:
    """The arm for which estimate and prediction are least."""
    best, least = 0, estimates.losses[0] + estimates.predictions[0]
    for arm in range(1, estimates.losses.size):
        expected = estimates.losses[arm] + estimates.predictions[arm]
        if expected < least:
            best, least = arm, expected
    return best


@inlined
def barrier_weights(estimates: PredictedLosses, scales: Floats, out: Floats) -> float:
    """Probabilities ``scale / (loss + prediction - x)`` into ``out``; returns ``x``.

    They minimise the expected loss minus ``sum scale * ln(w)``. The distance of ``x`` from the
    least expected loss lies between the scale of that arm and the sum of all scales. The
    reciprocal of the sum of the weights is a concave function of the distance, so that a Newton
    step on it never ends beyond the root, wherever it starts.
    """
    best = _least_expected(estimates)
    least = estimates.losses[best] + estimates.predictions[best]
    low, high = scales[best], 0.0
    for arm in range(out.size):
        high += scales[arm]
    distance = min(max(least - estimates.normaliser[0], low), high)
    total = 1.0
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for arm in range(out.size):
            excess = estimates.losses[arm] + estimates.predictions[arm] - least
            root = 1.0 / (excess + distance)
            weight = scales[arm] * root
            out[arm] = weight
            total += weight
            slope += weight * root
        if abs(total - 1.0) < _TOLERANCE:
            break
        # The Newton step for 1/total = 1, whose derivative is slope/total^2.
        distance = min(max(distance + total * (total - 1.0) / slope, low), high)
    for arm in range(out.size):
        out[arm] /= total
    return least - distance


@inlined
def _hybrid_slope(weight: float, entropy: float) -> float:
    """Derivative of the hybrid barrier, ``w - 1 - ln w + entropy * (w + (1-w) ln(1-w))``."""
    return 1.0 - 1.0 / weight - entropy * math.log1p(-weight)


@inlined
def _hybrid_curvature(weight: float, entropy: float) -> float:
    return 1.0 / (weight * weight) + entropy / (1.0 - weight)


@inlined
def _kept_inside(weight: float) -> float:
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
    estimates: PredictedLosses, scales: Floats, entropy: float, out: Floats
) -> float:
    """Minimise the expected loss plus ``sum scale * barrier(w)``; returns the multiplier.

    The barrier is ``w - 1 - ln w + entropy * (w + (1-w) ln(1-w))``. This brackets the multiplier:
    if one arm has the weight ``1/K`` and no other less, the weights sum to at least 1; if no other
    has more, to at most 1. From the latest solution, a few joint Newton steps of weights and
    multiplier are nearly always enough. Otherwise a safeguarded search within the bracket computes
    the exact weights for each multiplier.
    """
    best = _least_expected(estimates)
    least = estimates.losses[best] + estimates.predictions[best]
    even = _hybrid_slope(1.0 / out.size, entropy)
    low, high = np.inf, -np.inf
    for arm in range(out.size):
        expected = estimates.losses[arm] + estimates.predictions[arm] - least
        low = min(low, expected + scales[arm] * even)
        high = max(high, expected + scales[arm] * even)
        out[arm] = _kept_inside(estimates.weights[arm])
    multiplier = min(max(estimates.normaliser[0] - least, low), high)
    multiplier, found = _solve_jointly(
        estimates, least, scales, entropy, low, high, multiplier, out
    )
    if not found:
        multiplier = _solve_in_turn(estimates, least, scales, entropy, low, high, multiplier, out)
    total = 0.0
    for arm in range(out.size):
        total += out[arm]
    # What is left of the error, some rounding, is removed by normalising.
    for arm in range(out.size):
        out[arm] /= total
    return multiplier + least


@inlined
def _solve_jointly(
    estimates: PredictedLosses,
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
            expected = estimates.losses[arm] + estimates.predictions[arm] - least
            error = _hybrid_slope(start, entropy) - (multiplier - expected) / scales[arm]
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
    estimates: PredictedLosses,
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
            expected = estimates.losses[arm] + estimates.predictions[arm] - least
            target = (multiplier - expected) / scales[arm]
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
