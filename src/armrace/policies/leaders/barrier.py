"""The logarithmic barrier with a scale for each arm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

__all__ = ["barrier_weights", "least_place"]

_TOLERANCE = 1e-12
_MOST_STEPS = 100

Floats = npt.NDArray[np.float64]


@inlined
def least_place(losses: Floats) -> int:
    """The first arm with the least loss."""
    best, least = 0, losses[0]
    for arm in range(1, losses.size):
        if losses[arm] < least:
            best, least = arm, losses[arm]
    return best


@inlined
def barrier_weights(expected: Floats, scales: Floats, normaliser: float, out: Floats) -> float:
    """Probabilities ``scale / (expected loss - x)`` into ``out``; returns ``x``.

    They minimise the expected loss minus ``sum scale * ln(w)``. The search starts from
    ``normaliser``, the ``x`` of the round before. The distance of ``x`` from the least expected
    loss lies between the scale of that arm and the sum of all scales. The reciprocal of the sum of
    the weights is an increasing, concave function of the distance, so that a Newton step on it
    never ends beyond the root, wherever it starts. With each further step, error times slope falls
    to a quarter or less: from any start, ``22 + log4(sum of scales / least scale)`` steps are
    enough.
    """
    best = least_place(expected)
    least = expected[best]
    low, high = scales[best], 0.0
    for arm in range(out.size):
        high += scales[arm]
    distance = min(max(least - normaliser, low), high)
    total = 1.0
    for _ in range(_MOST_STEPS):
        # The divisions have a loop of their own, which compiled code does several at a time.
        for arm in range(out.size):
            out[arm] = 1.0 / (expected[arm] - least + distance)
        total, slope = 0.0, 0.0
        for arm in range(out.size):
            root = out[arm]
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
