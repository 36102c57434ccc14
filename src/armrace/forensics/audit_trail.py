"""The audit trail: a wrapper of a policy's state that records each arm's rewards.

The policy's decisions are unchanged.

Honest rewards of an arm with a fixed mean have one law at all times, so a change over time is a
sign of corruption or drift. To see one afterwards it is enough to keep each arm's sum

- at *marks*, numbers of rewards that grow by a fifth or so from one to the next;
- in *blocks* of 16, 32, 64, ... rewards, of which the most striking of each size is kept: marks
  would miss a short attack on an arm that has long been played (:mod:`armrace.forensics.blocks`);
- in *waves*, separately for rewards that follow good ones and for those that follow bad ones
  (:mod:`armrace.forensics.waves`).

Rewards may be late, and how late may depend on what they are. The rewards that have come are then
a biased sample, but the plays that have been *assigned* are not. So each mark and block also keeps
how many rewards of the arm were outstanding at that moment, each of which may be anything in
[0, 1]: samples consist of assigned plays, and their sums are known up to the outstanding ones.
:mod:`armrace.forensics.evidence` measures the difference between two samples of one arm.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.forensics.blocks import SMALLEST_BLOCK, Blocks, end_blocks, make_blocks
from armrace.forensics.waves import Waves, make_waves, record_play, record_reward
from armrace.kernels.dispatch import implement
from armrace.kernels.forwarding import forwards
from armrace.kernels.generics import Ticket, assign, choose, distribution, drop, learn, pass_round

_FIRST_MARK = 8
_MARKS_A_DOUBLING = 4


class Marks(NamedTuple):
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
    marks: Marks
    blocks: Blocks
    waves: Waves


def watch(state: Any, arms: int, horizon: int) -> Watched:
    """Wrap a policy's state, so that its rewards are recorded from now on."""
    marks = _mark_pulls(horizon)
    marked = (arms, marks.size)
    return Watched(
        inner=state,
        rounds=np.zeros(1, dtype=np.int64),
        assigned=np.zeros(arms, dtype=np.int64),
        pulls=np.zeros(arms, dtype=np.int64),
        sums=np.zeros(arms),
        marks=Marks(
            pulls=marks,
            reached=np.zeros(arms, dtype=np.int64),
            sums=np.zeros(marked),
            rounds=np.zeros(marked, dtype=np.int64),
            outstanding=np.zeros(marked, dtype=np.int64),
        ),
        blocks=make_blocks(arms, horizon),
        waves=make_waves(arms),
    )


def _mark_pulls(horizon: int) -> npt.NDArray[np.int64]:
    """Return numbers of rewards from 8 up to the horizon, four per doubling."""
    doublings = math.log2(max(horizon, _FIRST_MARK) / _FIRST_MARK)
    steps = np.arange(1 + int(_MARKS_A_DOUBLING * doublings))
    return np.rint(_FIRST_MARK * 2.0 ** (steps / _MARKS_A_DOUBLING)).astype(np.int64)


@implement(assign, Watched)
def watched_assign(state: Watched, ticket: Ticket) -> Ticket:
    state.rounds[0] += 1
    completed = assign(state.inner, ticket)
    arm = ticket.arm
    outstanding = state.assigned[arm] - state.pulls[arm]
    record_play(state.waves, arm, outstanding, state.pulls[arm], state.sums[arm])
    state.assigned[arm] += 1
    return completed


@implement(pass_round, Watched)
def watched_pass_round(state: Watched) -> None:
    state.rounds[0] += 1


@implement(learn, Watched)
def watched_learn(state: Watched, ticket: Ticket, reward: float) -> None:
    learn(state.inner, ticket, reward)
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
