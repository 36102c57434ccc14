"""Estimated losses, and the probabilities that follow from them.

A reward seen with probability ``p`` stands for ``1/p`` of its kind, so that the sum of
``loss / p`` over the plays of an arm estimates, without bias, what the arm would have lost in
all rounds. Probabilities then solve ``min <w, losses> + regulariser(w) / rate``:

- negative entropy gives ``w`` proportional to ``exp(-rate * loss)`` (EXP3 and its variants);
- Tsallis entropy gives ``w = 1 / (rate/2 * (loss - x))^2`` and the logarithmic barrier
  ``w = 1 / (rate * (loss - x))``, each with the one ``x`` below all losses that makes them
  sum to 1.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

LOGARITHMIC_BARRIER, TSALLIS_ENTROPY = 1, 2
"""Powers of ``1 / (scale * (loss - x))``."""

_SMALLEST_PROBABILITY = 1e-300
_TOLERANCE = 1e-12
_MOST_STEPS = 100


class Estimates(NamedTuple):
    """Estimated losses, and the ``x`` from which the next solution starts."""

    losses: npt.NDArray[np.float64]
    normaliser: npt.NDArray[np.float64]


def make_estimates(arms: int) -> Estimates:
    """Estimates before the first round.

    Args:
        arms: the number of arms.
    """
    return Estimates(np.zeros(arms), np.zeros(1))


class Solution(NamedTuple):
    """The probabilities of the next decision, solved once and used until the state changes.

    This is scratch space: ``distribution`` and ``choose`` fill it, ``assign`` and ``learn`` mark
    it as out of date.
    """

    weights: npt.NDArray[np.float64]
    normaliser: npt.NDArray[np.float64]
    up_to_date: npt.NDArray[np.bool_]


def make_solution(arms: int) -> Solution:
    """Make a solution that is marked as out of date.

    Args:
        arms: the number of arms.
    """
    return Solution(np.full(arms, 1.0 / arms), np.zeros(1), np.zeros(1, dtype=np.bool_))


@inlined
def add_loss(losses: npt.NDArray[np.float64], arm: int, loss: float, probability: float) -> None:
    """Count a loss that was seen with ``probability``.

    Args:
        losses: the estimated losses, one for each arm.
        arm: the arm that was played.
        loss: its loss, in [0, 1].
        probability: the probability with which it was chosen.
    """
    # A floor far below every probability that is ever drawn, so that estimates stay finite.
    losses[arm] += loss / max(probability, _SMALLEST_PROBABILITY)


@inlined
def smallest(losses: npt.NDArray[np.float64]) -> float:
    """The least of the losses."""
    least = losses[0]
    for arm in range(1, losses.size):
        least = min(least, losses[arm])
    return least


@inlined
def exponential_weights(
    losses: npt.NDArray[np.float64], rate: float, out: npt.NDArray[np.float64]
) -> None:
    """Probabilities proportional to ``exp(-rate * loss)``.

    Args:
        losses: the estimated losses, one for each arm.
        rate: the learning rate.
        out: an array with an entry for each arm, which is overwritten.
    """
    # Measured from the least loss, the largest exponent is 0: nothing overflows, and the total is
    # at least 1 however large the losses are.
    least = smallest(losses)
    total = 0.0
    for arm in range(losses.size):
        weight = math.exp(-rate * (losses[arm] - least))
        out[arm] = weight
        total += weight
    for arm in range(losses.size):
        out[arm] /= total


@inlined
def power_weights(
    losses: npt.NDArray[np.float64],
    scale: float,
    power: int,
    normaliser: float,
    out: npt.NDArray[np.float64],
) -> float:
    """Probabilities ``(scale * (loss - x))^-power``; returns ``x``.

    Newton's method solves for ``distance = scale * (least loss - x)``, which lies between 1 and
    ``K^(1/power)``. The sum of the probabilities is a convex, decreasing function of the distance.
    From a distance that is too small, Newton steps therefore never pass the root; a step from one
    that is too large lands below it. So the method converges from any start, and from
    ``normaliser``, the ``x`` of the round before, two or three steps are enough. Losses are
    measured from the least one, so that large losses do not cost precision.

    Args:
        losses: the estimated losses, one for each arm.
        power: the power, such as :data:`TSALLIS_ENTROPY`.
        scale: the learning rate, as the formula has it.
        normaliser: the ``x`` of the last solution, from which the search starts.
        out: an array with an entry for each arm, which is overwritten.
    """
    least = smallest(losses)
    # Below 1, the arm with the least loss alone would have a probability above 1.
    distance = max(1.0, scale * (least - normaliser))
    total = 1.0
    for _ in range(_MOST_STEPS):
        total, slope = 0.0, 0.0
        for arm in range(losses.size):
            root = 1.0 / (scale * (losses[arm] - least) + distance)
            weight = root * root if power == TSALLIS_ENTROPY else root
            out[arm] = weight
            total += weight
            slope += weight * root
        if abs(total - 1.0) < _TOLERANCE:
            break
        # The derivative of the sum is -power * slope.
        distance = max(1.0, distance + (total - 1.0) / (power * slope))
    # The rest of the error, below the tolerance, is divided out: draws rely on a sum of 1.
    for arm in range(losses.size):
        out[arm] /= total
    return least - distance / scale
