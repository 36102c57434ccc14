"""Upper confidence bounds around truncated means.

The ``s``-th reward ``X`` of an arm counts in round ``t`` if ``X^2 <= s / (2 ln t)``, else as 0.
Since ``X <= 1``, only the first ``2 ln t`` rewards can be cut. Only these are stored, and they are
counted again only when the growing logarithm reaches the next one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    learn,
)
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.indices.argmax import make_argmax, plays_next_arm

_EARLY = 72
"""More than ``2 ln t`` for any ``t`` that can be reached."""
_NEVER = 1e300


class Cuts(NamedTuple):
    """The part of each arm's early rewards that is cut; recomputed when it may have changed."""

    total: npt.NDArray[np.float64]
    """Sum of the early rewards that are cut at present."""
    following: npt.NDArray[np.float64]
    """The ``2 ln t`` above which one more of them is cut."""


class TruncatedMeans(NamedTuple):
    """Counts and the early rewards of each arm."""

    counts: Counts
    early: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    scratch: Cuts


def make_truncated_means(arms: int) -> TruncatedMeans:
    """The state before the first round."""
    return TruncatedMeans(
        counts=make_counts(arms),
        early=np.zeros((arms, _EARLY)),
        spread=np.zeros(arms),
        scratch=Cuts(total=np.zeros(arms), following=np.zeros(arms)),
    )


@inlined
def truncated_index(state: TruncatedMeans, arm: int, doubled: float) -> float:
    """Truncated mean plus ``4 sqrt(2 ln t / n)``, given ``2 ln t``."""
    pulls = state.counts.pulls[arm]
    bonus = 4.0 * math.sqrt(doubled) * state.spread[arm]
    if pulls == 0:
        return 1.0 + bonus
    # ``2 ln t`` only grows, and from ``following`` on one more reward is cut: until then the sum of
    # what is cut stays the same.
    cuts = state.scratch
    if doubled > cuts.following[arm]:
        cuts.total[arm], cuts.following[arm] = _recount(state, arm, doubled)
    return (state.counts.sums[arm] - cuts.total[arm]) / pulls + bonus


@inlined
def _recount(state: TruncatedMeans, arm: int, doubled: float) -> tuple[float, float]:
    """Recompute what is cut, and from which ``2 ln t`` on one more reward will be."""
    cut, following = 0.0, _NEVER
    for place in range(min(_EARLY, state.counts.pulls[arm])):
        reward = state.early[arm, place]
        square = reward * reward
        if doubled * square > place + 1:
            cut += reward
        elif square > 0.0:
            following = min(following, (place + 1) / square)
    return cut, following


_arm_of_largest_index = make_argmax(truncated_index)


@plays_next_arm(TruncatedMeans)
@inlined
def _next_arm(state: TruncatedMeans, eligible: Eligible) -> int:
    return _arm_of_largest_index(state, 2.0 * math.log(state.counts.rounds[0] + 1), eligible)


@implement(assign, TruncatedMeans)
def truncated_assign(state: TruncatedMeans, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.spread[ticket.arm] = 1.0 / math.sqrt(state.counts.assigned[ticket.arm])
    return ticket


@implement(learn, TruncatedMeans)
def truncated_learn(state: TruncatedMeans, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    place = state.counts.pulls[arm]
    if place <= _EARLY:
        state.early[arm, place - 1] = reward
        if reward > 0.0:
            # The new reward may have to be cut before any of the earlier ones.
            following = min(state.scratch.following[arm], place / (reward * reward))
            state.scratch.following[arm] = following
