"""Shared parts of attacks that learn: a tally of plays, a deviation bound, a lowered reward."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined


class Tally(NamedTuple):
    """Plays of each arm, and sums of its rewards before and after corruption."""

    pulls: npt.NDArray[np.int64]
    clean_sums: npt.NDArray[np.float64]
    paid_sums: npt.NDArray[np.float64]
    clean: npt.NDArray[np.float64]
    """Rewards of the current round before corruption."""
    sigma: float
    """By how much honest rewards deviate: they are sub-Gaussian with this parameter."""
    floor: float
    """The least reward that may be shown."""


def make_tally(arms: int, sigma: float = 0.5, floor: float = 0.0) -> Tally:
    """Make a tally before the first round.

    Args:
        arms: the number of arms.
        sigma: the sub-Gaussian parameter of honest rewards; 1/2 for any in [0, 1].
        floor: the least reward that may be shown.
    """
    pulls, sums = np.zeros(arms, dtype=np.int64), np.zeros((3, arms))
    return Tally(pulls, sums[0].copy(), sums[1].copy(), sums[2].copy(), float(sigma), float(floor))


@inlined
def remember_clean(tally: Tally, rewards: npt.NDArray[np.float64]) -> None:
    """Store the round's rewards until the arm is known.

    Args:
        tally: the tally to change.
        rewards: the round's rewards before corruption.
    """
    # ``observe`` is told only what the played arm paid after corruption.
    for arm in range(rewards.size):
        tally.clean[arm] = rewards[arm]


@inlined
def tally_play(tally: Tally, arm: int, reward: float) -> None:
    """Count a play that paid ``reward`` after corruption.

    Args:
        tally: the tally to change.
        arm: the arm that was played.
        reward: what it paid after corruption.
    """
    tally.pulls[arm] += 1
    tally.clean_sums[arm] += tally.clean[arm]
    tally.paid_sums[arm] += reward


@inlined
def deviation(pulls: int, arms: int, delta: float, sigma: float = 0.5) -> float:
    """``sqrt(2 sigma^2 ln(pi^2 K N^2/(3 delta))/N)``, for ``N`` pulls and ``K`` arms.

    With probability ``1 - delta``, no empirical mean of sub-Gaussian rewards deviates by more, for
    all arms and numbers of pulls at once: equation (23) of Liu and Shroff (2019).

    Args:
        pulls: the number of pulls.
        arms: the number of arms.
        delta: the probability with which some bound may fail.
        sigma: the sub-Gaussian parameter; 1/2 for rewards in [0, 1].

    >>> f"{deviation(10, 2, 0.05):.6f} {deviation(100, 2, 0.05):.6f}"
    '0.688654 0.265425'
    """
    return math.sqrt(
        2.0 * sigma * sigma / pulls * math.log(math.pi**2 * arms * pulls * pulls / (3.0 * delta))
    )


@inlined
def excess_over_allowed(
    tally: Tally, target: int, margin: float, delta: float, arm: int, reward: float
) -> float:
    """Return how far the sum of an arm that pays ``reward`` would exceed its goal.

    The goal is a mean below that of the target by ``margin`` and twice its deviation.
    """
    pulls = tally.pulls[target]
    # The target is never attacked: its sums before and after corruption are the same.
    allowed = tally.paid_sums[target] / pulls - margin
    allowed -= 2.0 * deviation(pulls, tally.pulls.size, delta, tally.sigma)
    # Sums include the play to come, so that a deficit of earlier rounds is carried over to it.
    excess: float = tally.paid_sums[arm] + reward - (tally.pulls[arm] + 1) * allowed
    return excess


@inlined
def lower_reward(
    rewards: npt.NDArray[np.float64], arm: int, amount: float, left: float, floor: float = 0.0
) -> None:
    """Subtract ``amount``, or as much of it as the reward and the budget allow.

    Args:
        rewards: the round's rewards, of which one is changed.
        arm: the arm whose reward is lowered.
        amount: by how much.
        left: what remains of the budget.
        floor: the least reward that may be shown.
    """
    applied = min(amount, left, rewards[arm] - floor)
    if applied > 0.0:
        rewards[arm] -= applied
