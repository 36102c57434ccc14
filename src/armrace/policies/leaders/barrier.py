"""The logarithmic barrier with a scale for each arm.

With ``r = 1/(excess + d)``, where ``excess`` is how far an arm's loss lies above the least one, the
probabilities are ``scale * r``, and ``d`` is wanted for which their sum ``S`` is 1. The function
``f(d) = 1/S`` is a weighted harmonic mean of linear functions, so it is increasing and concave, and
nearly linear. A Newton step for ``f = 1`` therefore never ends beyond the root, wherever it
starts. From there on, error times slope falls to a quarter or less with each step: if ``h = 1 - f``
has the slope ``-s``, convexity gives ``h >= h' + s' (h/s)`` for the values after the step, that is
``h'/h + s'/s <= 1``.

Near the root, a second term makes the error of a step cubic. When a step is so small that its cube
does not matter, the probabilities are taken along it by their series, without divisions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

_LAST_STEP = 1e-4
"""After a step of this size, relative to the distance, the error is below 1e-12."""
_MOST_STEPS = 100
_FARTHEST = 1e60
"""The largest distance to start from: the cube of its reciprocal is not 0 yet."""
_LARGEST_CORRECTION = 0.25

Floats = npt.NDArray[np.float64]


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
