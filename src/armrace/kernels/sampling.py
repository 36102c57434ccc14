"""Drawing an arm from weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.streams import Stream, uniform

__all__ = ["draw_arm", "total_weight"]


@inlined
def total_weight(weights: npt.NDArray[np.float64]) -> float:
    """The sum, in order of index, so that it is the same wherever it is computed."""
    total = 0.0
    for weight in weights:
        total += weight
    return total


@inlined
def draw_arm(weights: npt.NDArray[np.float64], total: float, stream: Stream) -> int:
    """An arm with probability proportional to its weight; never one of weight zero."""
    level = uniform(stream) * total
    passed, last = 0.0, 0
    for arm in range(weights.size):
        if weights[arm] > 0.0:
            passed += weights[arm]
            last = arm
            if level < passed:
                break
    return last
