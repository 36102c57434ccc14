"""The arm of the largest index: what every index policy plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Eligible

__all__ = ["make_argmax"]


def make_argmax(
    index: Callable[[Any, int, float], float], least_plays: int = 1
) -> Callable[[Any, float, Eligible], int]:
    """Make the compiled search for the arm with the largest ``index(state, arm, term)``.

    The first eligible arm with fewer than ``least_plays`` assigned plays comes before all
    others; of equal indices the lowest arm wins. ``term`` is what the indices of all arms have
    in common, such as a logarithm of the round.

    Args:
        index: the index of an arm, given the state, the arm and ``term``; it must be
            :func:`inlined`.
        least_plays: how often an arm is played before its index counts.
    """

    @inlined
    def arm_of_largest_index(state: Any, term: float, eligible: Eligible) -> int:
        best, best_index = 0, -np.inf
        for arm in range(state.counts.assigned.size):
            if eligible is not None and not eligible[arm]:
                continue
            # By assigned plays: an arm whose first reward is late is not played again and again.
            if state.counts.assigned[arm] < least_plays:
                return arm
            value = index(state, arm, term)
            if value > best_index:
                best, best_index = arm, value
        return best

    return arm_of_largest_index
