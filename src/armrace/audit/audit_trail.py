"""The audit trail: a wrapper of a policy's state that records each arm's rewards.

The policy's decisions are unchanged.

Honest rewards of an arm with a fixed mean have one law at all times, so a change over time is a
sign of corruption or drift. To see one afterwards it is enough to keep each arm's sum

- at *marks*, numbers of rewards that grow by a fifth or so from one to the next;
- in *blocks* of 16, 32, 64, ... rewards, of which the most striking of each size is kept: marks
  would miss a short attack on an arm that has long been played;
- in *bursts*, separately for rewards that follow good ones and for those that follow bad ones.

Rewards may be late, and how late may depend on what they are. The rewards that have come are then
a biased sample, but the plays that have been *assigned* are not. So each mark and block also keeps
how many rewards of the arm were outstanding at that moment, each of which may be anything in
[0, 1]: samples consist of assigned plays, and their sums are known up to the outstanding ones.
:mod:`armrace.audit.evidence` measures the difference between two samples of one arm.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    drop,
    forwards,
    learn,
    pass_round,
)
from armrace.kernels.leaves import Leaves, make_leaves, row_of
from armrace.policies.common.blocks import SMALLEST_BLOCK, Blocks, end_blocks, make_blocks

_FIRST_MARK = 8
_MARKS_A_DOUBLING = 4


class RewardMarks(NamedTuple):
    """Sum of each arm's rewards, and the round, after certain numbers of rewards."""

    pulls: npt.NDArray[np.int64]
    reached: npt.NDArray[np.int64]
    """How many marks each arm has passed."""
    sums: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]
    outstanding: npt.NDArray[np.int64]
    """Plays of the arm without a reward at that moment."""


@forwards(distribution, choose, drop)
class Watched(NamedTuple):
    """A policy's state, and a record of its rewards; a dropped play stays outstanding."""

    inner: Any
    rounds: npt.NDArray[np.int64]
    """How many decisions have been made."""
    assigned: npt.NDArray[np.int64]
    """How often each arm has been played."""
    pulls: npt.NDArray[np.int64]
    """How many rewards of each arm have come, whichever layer has learned from them."""
    sums: npt.NDArray[np.float64]
    marks: RewardMarks
    blocks: Blocks
    waves: Bursts
    """Named as snapshots have it."""


def watch_unchecked(state: Any, arms: int, horizon: int) -> Any:
    """Wrap a policy's state, so that its rewards are recorded from now on.

    Those of a policy that plays each leaf apart are recorded apart: the state of each leaf is
    wrapped, and the arrays of the state are copied.
    """
    if isinstance(state, Leaves) and state.leaf_count > 1:
        return make_leaves(_watched(row_of(state.stack, 0), arms, horizon), state.leaf_count)
    return _watched(state, arms, horizon)


def has_trail_of_leaves(state: Any) -> bool:
    """Whether the rewards of each leaf are recorded apart."""
    return isinstance(state, Leaves) and isinstance(state.stack, Watched)


def unwatched(state: Any) -> Any:
    """Return the policy's own state, of one that may be wrapped."""
    if has_trail_of_leaves(state):
        return Leaves(state.stack.inner, state.leaf_count)
    return state.inner if isinstance(state, Watched) else state


def _watched(state: Any, arms: int, horizon: int) -> Watched:
    marks = _mark_pulls(horizon)
    marked = (arms, marks.size)
    return Watched(
        inner=state,
        rounds=np.zeros(1, dtype=np.int64),
        assigned=np.zeros(arms, dtype=np.int64),
        pulls=np.zeros(arms, dtype=np.int64),
        sums=np.zeros(arms),
        marks=RewardMarks(
            pulls=marks,
            reached=np.zeros(arms, dtype=np.int64),
            sums=np.zeros(marked),
            rounds=np.zeros(marked, dtype=np.int64),
            outstanding=np.zeros(marked, dtype=np.int64),
        ),
        blocks=make_blocks(arms, horizon),
        waves=make_bursts(arms),
    )


def _mark_pulls(horizon: int) -> npt.NDArray[np.int64]:
    """Return numbers of rewards from 8 up to the horizon, four per doubling."""
    doublings = math.log2(max(horizon, _FIRST_MARK) / _FIRST_MARK)
    steps = np.arange(1 + int(_MARKS_A_DOUBLING * doublings))
    return np.rint(_FIRST_MARK * 2.0 ** (steps / _MARKS_A_DOUBLING)).astype(np.int64)


@implement(assign, Watched)
def watched_assign(state: Watched, ticket: Ticket, context: Visitor = None) -> Ticket:
    state.rounds[0] += 1
    completed = assign(state.inner, ticket, context)
    arm = ticket.arm
    outstanding = state.assigned[arm] - state.pulls[arm]
    record_play(state.waves, arm, outstanding, state.pulls[arm], state.sums[arm])
    state.assigned[arm] += 1
    return completed


@implement(pass_round, Watched)
def watched_pass_round(state: Watched) -> None:
    state.rounds[0] += 1


@implement(learn, Watched)
def watched_learn(state: Watched, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    learn(state.inner, ticket, reward, context)
    arm = ticket.arm
    record_reward(state.waves, arm, state.pulls[arm], state.sums[arm], reward)
    pulls, total = state.pulls[arm] + 1, state.sums[arm] + reward
    state.pulls[arm] = pulls
    state.sums[arm] = total
    outstanding = max(0, state.assigned[arm] - pulls)
    marks, reached = state.marks, state.marks.reached[arm]
    if reached < marks.pulls.size and pulls == marks.pulls[reached]:
        marks.sums[arm, reached] = total
        marks.rounds[arm, reached] = state.rounds[0]
        marks.outstanding[arm, reached] = outstanding
        marks.reached[arm] = reached + 1
    if pulls % SMALLEST_BLOCK == 0:
        end_blocks(state.blocks, arm, pulls, total, outstanding, state.rounds[0])


_MEMORIES = np.array([4.0, 16.0, 64.0])


class Bursts(NamedTuple):
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


def make_bursts(arms: int) -> Bursts:
    """Make bursts of arms that have no rewards yet."""
    shape = (arms, _MEMORIES.size)
    return Bursts(
        recent=np.zeros(shape),
        assigned=np.zeros((*shape, 2), dtype=np.int64),
        pulls=np.zeros((*shape, 2), dtype=np.int64),
        sums=np.zeros((*shape, 2)),
        waiting=np.zeros(arms, dtype=np.bool_),
    )


@inlined
def _burst_side(recent: float, pulls: int, total: float) -> int:
    """1 in good times, when the latest rewards are above the mean of all; 0 in bad times."""
    return 1 if recent * pulls > total else 0


@inlined
def record_play(bursts: Bursts, arm: int, outstanding: int, pulls: int, total: float) -> None:
    """Count a play as made in good or in bad times, according to the rewards before it."""
    bursts.waiting[arm] = outstanding == 0
    if outstanding == 0 and pulls > 0:
        for memory in range(bursts.recent.shape[1]):
            side = _burst_side(bursts.recent[arm, memory], pulls, total)
            bursts.assigned[arm, memory, side] += 1


@inlined
def record_reward(bursts: Bursts, arm: int, pulls: int, total: float, reward: float) -> None:
    """Record a reward for the audit of bursts, and update the means of the arm's latest rewards.

    If the reward is that of a counted play, it goes to the side (good or bad times) on which the
    play was made. The side is not stored: no reward of the arm has come since the play, so that it
    can be computed again.
    """
    for memory in range(bursts.recent.shape[1]):
        recent = bursts.recent[arm, memory]
        if pulls == 0:
            recent = reward
        else:
            if bursts.waiting[arm]:
                side = _burst_side(recent, pulls, total)
                bursts.pulls[arm, memory, side] += 1
                bursts.sums[arm, memory, side] += reward
            recent += (reward - recent) / _MEMORIES[memory]
        bursts.recent[arm, memory] = recent
    bursts.waiting[arm] = False
