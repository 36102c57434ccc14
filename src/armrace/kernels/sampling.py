"""Drawing an arm from weights."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.generics import Eligible, Ticket, make_ticket, weight_of_eligible
from armrace.kernels.streams import Stream, uniform


@inlined
def total_weight(weights: npt.NDArray[np.float64]) -> float:
    """The sum, in order of index, so that it is the same wherever it is computed.

    Args:
        weights: a number for each arm, none of them negative.
    """
    total = 0.0
    for weight in weights:
        total += weight
    return total


@inlined
def draw_arm(weights: npt.NDArray[np.float64], total: float, stream: Stream) -> int:
    """Draw an arm with probability proportional to its weight, never one of weight zero.

    Args:
        weights: a number for each arm, none of them negative.
        total: their sum, by :func:`total_weight`.
        stream: the random numbers to draw with.
    """
    level = uniform(stream) * total
    passed = 0.0
    for arm in range(weights.size):
        passed += weights[arm]
        if level < passed:  # never at a weight of zero, which does not raise what was passed
            return arm
    return _last_possible(weights)


@outlined
def _last_possible(weights: npt.NDArray[np.float64]) -> int:
    """The last arm of positive weight, where rounding has taken a level up to the total."""
    last = 0
    for arm in range(weights.size):
        if weights[arm] > 0.0:
            last = arm
    return last


@inlined
def choose_by_weights(
    weights: npt.NDArray[np.float64], total: float, stream: Stream, eligible: Eligible
) -> Ticket:
    """Draw an arm in proportion to its weight, among the eligible arms if they are given.

    ``total`` is the sum of all weights. If the weights of all eligible arms are zero, each of
    them is equally likely.

    Args:
        weights: a number for each arm, none of them negative.
        total: their sum, by :func:`total_weight`.
        stream: the random numbers to draw with.
        eligible: which arms may be chosen, or ``None`` for all.
    """
    if eligible is None:
        arm = draw_arm(weights, total, stream)
        return make_ticket(arm, 0, weights[arm] / total)
    eligible_weight, count = weight_of_eligible(weights, eligible)
    level = uniform(stream) * (eligible_weight if eligible_weight > 0.0 else float(count))
    passed, last = 0.0, 0
    for arm in range(weights.size):
        weight = weights[arm] if eligible_weight > 0.0 else 1.0
        if eligible[arm] and weight > 0.0:
            passed += weight
            last = arm
            if level < passed:
                break
    return make_ticket(last, 0, restricted_probability(weights, last, eligible))


@inlined
def restricted_probability(
    weights: npt.NDArray[np.float64], arm: int, eligible: npt.NDArray[np.bool_]
) -> float:
    """The probability of an arm when it is drawn by its weight among eligible arms.

    Args:
        weights: a number for each arm, none of them negative.
        arm: the arm.
        eligible: which arms may be chosen.
    """
    if not eligible[arm]:
        return 0.0
    eligible_weight, count = weight_of_eligible(weights, eligible)
    return weights[arm] / eligible_weight if eligible_weight > 0.0 else 1.0 / count
