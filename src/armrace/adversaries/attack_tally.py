"""What attacks that learn keep and do: a tally of the plays, a deviation, a lowered reward."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

__all__ = ["Tally", "deviation", "lower_reward", "make_tally", "remember_clean", "tally_play"]


class Tally(NamedTuple):
    """Plays of each arm, and its rewards as they were drawn and as they were paid."""

    pulls: npt.NDArray[np.int64]
    clean_sums: npt.NDArray[np.float64]
    paid_sums: npt.NDArray[np.float64]
    clean: npt.NDArray[np.float64]
    """Rewards of the present round, before corruption."""


def make_tally(arms: int) -> Tally:
    """A tally before the first round."""
    return Tally(np.zeros(arms, dtype=np.int64), np.zeros(arms), np.zeros(arms), np.zeros(arms))


@inlined
def remember_clean(tally: Tally, rewards: npt.NDArray[np.float64]) -> None:
    """Keep the round's rewards until it is known which arm was played."""
    for arm in range(rewards.size):
        tally.clean[arm] = rewards[arm]


@inlined
def tally_play(tally: Tally, arm: int, reward: float) -> None:
    """Count a play that paid ``reward``, which tells what of the attack was applied."""
    tally.pulls[arm] += 1
    tally.clean_sums[arm] += tally.clean[arm]
    tally.paid_sums[arm] += reward


@inlined
def deviation(pulls: int, arms: int, delta: float) -> float:
    """How far a mean of rewards in [0, 1] may be off, for all arms and all numbers of pulls."""
    return math.sqrt(0.5 / pulls * math.log(math.pi**2 * arms * pulls * pulls / (3.0 * delta)))


@inlined
def lower_reward(rewards: npt.NDArray[np.float64], arm: int, amount: float, left: float) -> None:
    """Subtract as much of ``amount`` as the reward and the budget have."""
    applied = min(amount, left, rewards[arm])
    if applied > 0.0:
        rewards[arm] -= applied
