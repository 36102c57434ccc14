"""The logarithmic barrier with a scale for each arm."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.leaders.steps import FARTHEST, LAST_STEP, MOST_STEPS, lengthened, moved

__all__ = ["barrier_weights", "least_place"]

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

    They minimise the expected loss minus ``sum scale * ln(w)``. The distance of ``x`` from the
    least expected loss is at least the scale of that arm. The search starts from ``normaliser``,
    the ``x`` of the round before, from where two evaluations are nearly always enough; see
    :mod:`armrace.policies.leaders.steps`.
    """
    best = least_place(expected)
    least = expected[best]
    low = scales[best]
    distance = min(max(least - normaliser, low), FARTHEST)
    step = 0.0
    for _ in range(MOST_STEPS):
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
        step = lengthened(total * (total - 1.0) / slope, curvature / slope - slope / total)
        if abs(step) < LAST_STEP * distance:
            break
        distance = max(distance + step, low)
    for arm in range(out.size):
        out[arm] = moved(scales[arm] * out[arm], step * out[arm], 1)
    return least - (distance + step)
