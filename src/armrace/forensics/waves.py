"""Rewards of an arm that follow good ones, and those that follow bad ones.

Recurring bursts of corruption do not change the mean of a long period, but rewards within a burst
resemble each other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined

_MEMORIES = np.array([4.0, 16.0, 64.0])


class Waves(NamedTuple):
    """Rewards in bad times, when an arm pays less than usual, and in good times.

    Each arm (row) has three memories (column): exponentially weighted means of its latest rewards,
    over about 4, 16 or 64 of them. The last axis separates the plays made while that mean was at
    most the mean of all rewards from those made while it was above.

    A play is counted only if no other play of the arm is outstanding when it is made, since a
    reward does not say which play it belongs to. If another play follows before its reward has
    come, the reward stays unknown: the play is in ``assigned``, but never in ``pulls``.
    """

    recent: npt.NDArray[np.float64]
    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    waiting: npt.NDArray[np.bool_]
    """Whether the arm's next reward is that of a counted play."""


def make_waves(arms: int) -> Waves:
    """Make waves of arms that have no rewards yet."""
    shape = (arms, _MEMORIES.size)
    return Waves(
        recent=np.zeros(shape),
        assigned=np.zeros((*shape, 2), dtype=np.int64),
        pulls=np.zeros((*shape, 2), dtype=np.int64),
        sums=np.zeros((*shape, 2)),
        waiting=np.zeros(arms, dtype=np.bool_),
    )


@inlined
def _wave_side(recent: float, pulls: int, total: float) -> int:
    """1 in good times, when the latest rewards are above the mean of all; 0 in bad times."""
    return 1 if recent * pulls > total else 0


@inlined
def record_play(waves: Waves, arm: int, outstanding: int, pulls: int, total: float) -> None:
    """Count a play as made in good or in bad times, according to the rewards before it."""
    waves.waiting[arm] = outstanding == 0
    if outstanding == 0 and pulls > 0:
        for memory in range(waves.recent.shape[1]):
            side = _wave_side(waves.recent[arm, memory], pulls, total)
            waves.assigned[arm, memory, side] += 1


@inlined
def record_reward(waves: Waves, arm: int, pulls: int, total: float, reward: float) -> None:
    """Record a reward for the audit of waves, and update the means of the arm's latest rewards.

    If the reward is that of a counted play, it goes to the side (good or bad times) on which the
    play was made. The side is not stored: no reward of the arm has come since the play, so that it
    can be computed again.
    """
    for memory in range(waves.recent.shape[1]):
        recent = waves.recent[arm, memory]
        if pulls == 0:
            recent = reward
        else:
            if waves.waiting[arm]:
                side = _wave_side(recent, pulls, total)
                waves.pulls[arm, memory, side] += 1
                waves.sums[arm, memory, side] += reward
            recent += (reward - recent) / _MEMORIES[memory]
        waves.recent[arm, memory] = recent
    waves.waiting[arm] = False
