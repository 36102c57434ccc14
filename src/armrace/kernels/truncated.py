"""Upper confidence bounds around truncated means.

The ``s``-th reward ``X`` of an arm counts in round ``t`` if ``X^2 <= s / (2 ln t)``, else as 0.
Since ``X <= 1``, only the first ``2 ln t`` rewards can be cut: they alone are kept, and counted
again only when the growing logarithm reaches the next of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream

__all__ = ["TruncatedMeans", "make_truncated_means", "truncated_index"]

_EARLY = 72
"""More than ``2 ln t`` for any ``t`` that can be reached."""
_NEVER = 1e300


class TruncatedMeans(NamedTuple):
    """Counts, the early rewards of each arm, and what is cut of them."""

    counts: Counts
    early: npt.NDArray[np.float64]
    cut: npt.NDArray[np.float64]
    """Sum of the early rewards that are cut at present."""
    next_cut: npt.NDArray[np.float64]
    """The ``2 ln t`` above which one more of them is cut."""
    spread: npt.NDArray[np.float64]


def make_truncated_means(arms: int) -> TruncatedMeans:
    """The state before the first round."""
    return TruncatedMeans(
        counts=make_counts(arms),
        early=np.zeros((arms, _EARLY)),
        cut=np.zeros(arms),
        next_cut=np.full(arms, _NEVER),
        spread=np.zeros(arms),
    )


@inlined
def truncated_index(state: TruncatedMeans, arm: int, doubled: float, keep: bool) -> float:
    """Truncated mean plus ``4 sqrt(2 ln t / n)``, given ``2 ln t``."""
    pulls = state.counts.pulls[arm]
    bonus = 4.0 * math.sqrt(doubled) * state.spread[arm]
    if pulls == 0:
        return 1.0 + bonus
    cut = state.cut[arm]
    if doubled > state.next_cut[arm]:
        cut, following = _recount(state, arm, doubled)
        if keep:
            state.cut[arm] = cut
            state.next_cut[arm] = following
    return (state.counts.sums[arm] - cut) / pulls + bonus


@inlined
def _recount(state: TruncatedMeans, arm: int, doubled: float) -> tuple[float, float]:
    """What is cut, and when the next reward will be."""
    cut, following = 0.0, _NEVER
    for place in range(min(_EARLY, state.counts.pulls[arm])):
        reward = state.early[arm, place]
        square = reward * reward
        if doubled * square > place + 1:
            cut += reward
        elif square > 0.0:
            following = min(following, (place + 1) / square)
    return cut, following


@inlined
def _next_arm(state: TruncatedMeans, keep: bool) -> int:
    played = state.counts.rounds[0]
    arms = state.cut.size
    if played < arms:
        return played
    doubled = 2.0 * math.log(played + 1)
    best, best_index = 0, -np.inf
    for arm in range(arms):
        index = truncated_index(state, arm, doubled, keep)
        if index > best_index:
            best, best_index = arm, index
    return best


@implement(distribution, TruncatedMeans)
def truncated_distribution(state: TruncatedMeans, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state, False)] = 1.0


@implement(decide, TruncatedMeans)
def truncated_decide(state: TruncatedMeans, stream: Stream) -> Ticket:
    arm = _next_arm(state, True)
    assign(state.counts, arm)
    state.spread[arm] = 1.0 / math.sqrt(state.counts.assigned[arm])
    return Ticket(arm, 0, 1.0, 0)


@implement(learn, TruncatedMeans)
def truncated_learn(state: TruncatedMeans, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    place = state.counts.pulls[arm]
    if place <= _EARLY:
        state.early[arm, place - 1] = reward
        if reward > 0.0:
            state.next_cut[arm] = min(state.next_cut[arm], place / (reward * reward))
