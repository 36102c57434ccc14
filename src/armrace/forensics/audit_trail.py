"""The audit trail: a wrapper of a policy's state that records each arm's rewards.

The policy's decisions are unchanged.

Honest rewards of an arm with a fixed mean have one law at all times, so a change over time is a
sign of corruption or drift. To see one afterwards it is enough to keep each arm's sum

- at *marks*, numbers of rewards that grow by a fifth or so from one to the next;
- in *blocks* of 16, 32, 64, ... rewards, of which the most striking of each size is kept: marks
  would miss a short attack on an arm that has long been played;
- in *waves*, separately for rewards that follow good ones and for those that follow bad ones:
  recurring bursts do not change the mean of a long period, but rewards within a burst resemble each
  other.

Rewards may be late, and how late may depend on what they are. The rewards that have come are then
a biased sample, but the plays that have been *assigned* are not. So each mark and block also keeps
how many rewards of the arm were outstanding at that moment, each of which may be anything in
[0, 1]: samples consist of assigned plays, and their sums are known up to the outstanding ones.

The difference between two samples of one arm is measured by :func:`log_evidence`, the logarithm of
an e-value. If both samples have the mean ``m``, the product of their mixed likelihoods (Jeffreys'
prior) divided by the likelihood of ``m`` has expectation at most 1, and dividing by the largest
likelihood instead can only lower it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.declarations import (
    AMOUNT,
    CONSTANT,
    COUNT,
    UNIT,
    Room,
    Span,
    SumOf,
    declare,
    relation,
)
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, drop, learn
from armrace.kernels.streams import Stream
from armrace.policies.common.divergence import kl

__all__ = [
    "Blocks",
    "Marks",
    "Watched",
    "Waves",
    "block_size",
    "log_block_weight",
    "log_evidence",
    "nearest_sums",
    "watch",
]

_FIRST_MARK = 8
_MARKS_A_DOUBLING = 4
_MEMORIES = np.array([4.0, 16.0, 64.0])
_SMALLEST_BLOCK = 16
"""Fewer rewards than these cannot raise an alarm at any useful level."""
_ROUNDING = 1e-6


@declare(pulls=CONSTANT, reached=COUNT, sums=AMOUNT, rounds=COUNT, outstanding=COUNT)
class Marks(NamedTuple):
    """Sum of each arm's rewards, and the round, after certain numbers of rewards."""

    pulls: npt.NDArray[np.int64]
    reached: npt.NDArray[np.int64]
    """How many marks each arm has passed."""
    sums: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]
    outstanding: npt.NDArray[np.int64]
    """Plays of the arm without a reward at that moment."""


@declare(
    sums=AMOUNT,
    rounds=COUNT,
    outstanding=COUNT,
    evidence=Span(-math.inf, 1e18),
    ends=COUNT,
    before=AMOUNT,
    within=AMOUNT,
    first_rounds=COUNT,
    last_rounds=COUNT,
    first_outstanding=COUNT,
    last_outstanding=COUNT,
)
class Blocks(NamedTuple):
    """The current and the most striking block of each arm (row) and size (column)."""

    sums: npt.NDArray[np.float64]
    """The arm's sum at the beginning of the current block."""
    rounds: npt.NDArray[np.int64]
    outstanding: npt.NDArray[np.int64]
    """Plays of the arm without a reward at the beginning of the current block."""
    evidence: npt.NDArray[np.float64]
    """Of the most striking block against all before it, with the weight of its place."""
    ends: npt.NDArray[np.int64]
    """The arm's rewards at the end of the most striking block."""
    before: npt.NDArray[np.float64]
    """Sum of the rewards before it."""
    within: npt.NDArray[np.float64]
    first_rounds: npt.NDArray[np.int64]
    last_rounds: npt.NDArray[np.int64]
    first_outstanding: npt.NDArray[np.int64]
    """Plays without a reward at its beginning."""
    last_outstanding: npt.NDArray[np.int64]


@declare(recent=UNIT, assigned=COUNT, pulls=COUNT, sums=SumOf("pulls"))
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


@declare(rounds=COUNT, assigned=COUNT, pulls=COUNT, sums=SumOf("pulls"))
class Watched(NamedTuple):
    """A policy's state, and a record of its rewards."""

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


@relation(Watched)
def watched_that_disagrees(state: Watched, fresh: Watched, room: Room) -> Iterator[str]:
    """Check that marks and blocks are stretches of the rewards that came."""
    if state.rounds[0] != room.decisions:
        yield "rounds"
    if state.pulls.sum() > room.rewards:
        yield "pulls"
    marks, blocks = state.marks, state.blocks
    if (marks.reached != np.searchsorted(marks.pulls, state.pulls, side="right")).any():
        yield "marks.reached"
    passed = np.arange(marks.pulls.size) < marks.reached[:, np.newaxis]
    pulls = np.where(passed, marks.pulls, state.pulls[:, np.newaxis])
    sums = np.where(passed, marks.sums, state.sums[:, np.newaxis])
    sizes = np.diff(pulls, prepend=0)
    grown = np.diff(sums, prepend=0.0)
    if ((grown < -_ROUNDING) | (grown > sizes + _ROUNDING)).any():
        yield "marks.sums"
    if (blocks.sums > state.pulls[:, np.newaxis]).any():
        yield "blocks.sums"
    sizes = np.array([block_size(scale) for scale in range(blocks.ends.shape[1])])
    struck = blocks.ends > 0
    before = blocks.ends - sizes
    whole = (blocks.ends % sizes == 0) & (before > 0) & (blocks.ends <= state.pulls[:, np.newaxis])
    if (struck & ~whole).any():
        yield "blocks.ends"
    if (struck & ((blocks.before > before) | (blocks.within > sizes))).any():
        yield "blocks.before"
    if ((blocks.evidence > -np.inf) != struck).any():
        yield "blocks.evidence"


def watch(state: Any, arms: int, horizon: int) -> Watched:
    """Wrap a policy's state, so that its rewards are recorded from now on.

    Args:
        state: the state of a policy.
        arms: the number of arms.
        horizon: the number of rounds that are planned.
    """
    marks = _mark_pulls(horizon)
    marked = (arms, marks.size)
    blocks = (arms, max(1, int(math.log2(max(2, horizon // _SMALLEST_BLOCK)))))
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
        blocks=Blocks(
            sums=np.zeros(blocks),
            rounds=np.zeros(blocks, dtype=np.int64),
            outstanding=np.zeros(blocks, dtype=np.int64),
            evidence=np.full(blocks, -np.inf),
            ends=np.zeros(blocks, dtype=np.int64),
            before=np.zeros(blocks),
            within=np.zeros(blocks),
            first_rounds=np.zeros(blocks, dtype=np.int64),
            last_rounds=np.zeros(blocks, dtype=np.int64),
            first_outstanding=np.zeros(blocks, dtype=np.int64),
            last_outstanding=np.zeros(blocks, dtype=np.int64),
        ),
        waves=Waves(
            recent=np.zeros((arms, _MEMORIES.size)),
            assigned=np.zeros((arms, _MEMORIES.size, 2), dtype=np.int64),
            pulls=np.zeros((arms, _MEMORIES.size, 2), dtype=np.int64),
            sums=np.zeros((arms, _MEMORIES.size, 2)),
            waiting=np.zeros(arms, dtype=np.bool_),
        ),
    )


def _mark_pulls(horizon: int) -> npt.NDArray[np.int64]:
    """Return numbers of rewards from 8 up to the horizon, four per doubling."""
    doublings = math.log2(max(horizon, _FIRST_MARK) / _FIRST_MARK)
    steps = np.arange(1 + int(_MARKS_A_DOUBLING * doublings))
    return np.rint(_FIRST_MARK * 2.0 ** (steps / _MARKS_A_DOUBLING)).astype(np.int64)


@inlined
def block_size(scale: int) -> int:
    """Return the number of pulls in a block of this scale.

    Args:
        scale: the number of the scale, from 0.
    """
    return _SMALLEST_BLOCK << scale


@inlined
def log_evidence(pulls: float, total: float, other_pulls: float, other_total: float) -> float:
    """Logarithm of the e-value of two samples of one arm, given by size and sum.

    It is ``n kl(x, z) + m kl(y, z) - ln(pi (n + 1/2))/2 - ln(pi (m + 1/2))/2`` for samples of
    sizes ``n`` and ``m`` with means ``x`` and ``y``, where ``z`` is the mean of all.

    Args:
        pulls: the size of the first sample.
        total: its sum.
        other_pulls: the size of the second sample.
        other_total: its sum.
    """
    common = (total + other_total) / (pulls + other_pulls)
    divergence = 0.0
    if 0.0 < common < 1.0:  # else all rewards are equal, up to rounding errors
        divergence = pulls * kl(total / pulls, common)
        divergence += other_pulls * kl(other_total / other_pulls, common)
    return divergence - 0.5 * math.log(math.pi**2 * (pulls + 0.5) * (other_pulls + 0.5))


@inlined
def nearest_sums(
    pulls: float,
    low: float,
    high: float,
    other_pulls: float,
    other_low: float,
    other_high: float,
) -> tuple[float, float]:
    """Return the sums of two samples, each known up to an interval, that differ least.

    These are the ends that face each other, or sums with equal means if there are any.

    Args:
        pulls: the size of the first sample.
        low: its least possible sum.
        high: its largest possible sum.
        other_pulls: the size of the second sample.
        other_low: its least possible sum.
        other_high: its largest possible sum.
    """
    if high * other_pulls <= other_low * pulls:
        return high, other_low
    if low * other_pulls >= other_high * pulls:
        return low, other_high
    common = max(low / pulls, other_low / other_pulls)
    return common * pulls, common * other_pulls


@inlined
def log_block_weight(position: float) -> float:
    """Logarithm of ``1 / (2 i ln(i+2)^2)``, whose sum over the blocks ``i = 1, 2, ...`` is below 1.

    With these weights, early blocks lose little, and late ones hardly more than with a union bound
    over a known number of blocks.

    Args:
        position: the number of the block, from 1.
    """
    return -math.log(2.0 * position * math.log(position + 2.0) ** 2)


@implement(distribution, Watched)
def watched_distribution(state: Watched, out: npt.NDArray[np.float64]) -> None:
    distribution(state.inner, out)


@implement(choose, Watched)
def watched_choose(state: Watched, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose(state.inner, stream, eligible)


@implement(assign, Watched)
def watched_assign(state: Watched, ticket: Ticket) -> Ticket:
    state.rounds[0] += 1
    completed = assign(state.inner, ticket)
    arm = ticket.arm
    outstanding = state.assigned[arm] - state.pulls[arm]
    _begin_waves(state.waves, arm, outstanding, state.pulls[arm], state.sums[arm])
    state.assigned[arm] += 1
    return completed


@implement(drop, Watched)
def watched_drop(state: Watched, ticket: Ticket) -> None:
    drop(state.inner, ticket)  # for the audit, it stays outstanding


@implement(learn, Watched)
def watched_learn(state: Watched, ticket: Ticket, reward: float) -> None:
    learn(state.inner, ticket, reward)
    arm = ticket.arm
    _ride_waves(state.waves, arm, state.pulls[arm], state.sums[arm], reward)
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
    if pulls % _SMALLEST_BLOCK == 0:
        _end_blocks(state.blocks, arm, pulls, total, outstanding, state.rounds[0])


@inlined
def _wave_side(recent: float, pulls: int, total: float) -> int:
    """1 in good times, when the latest rewards are above the mean of all; 0 in bad times."""
    return 1 if recent * pulls > total else 0


@inlined
def _begin_waves(waves: Waves, arm: int, outstanding: int, pulls: int, total: float) -> None:
    """Count a play as made in good or in bad times, according to the rewards before it."""
    waves.waiting[arm] = outstanding == 0
    if outstanding == 0 and pulls > 0:
        for memory in range(waves.recent.shape[1]):
            side = _wave_side(waves.recent[arm, memory], pulls, total)
            waves.assigned[arm, memory, side] += 1


@inlined
def _ride_waves(waves: Waves, arm: int, pulls: int, total: float, reward: float) -> None:
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


@inlined
def _end_blocks(
    blocks: Blocks, arm: int, pulls: int, total: float, outstanding: int, round: int
) -> None:
    """Compare each block that ends here with all rewards before it, and begin the next block."""
    scale, size = 0, _SMALLEST_BLOCK
    while scale < blocks.sums.shape[1] and pulls % size == 0:
        earlier, before = blocks.sums[arm, scale], pulls - size
        lacking = blocks.outstanding[arm, scale]
        # Rewards that came within the block may belong to plays made before it (up to
        # ``lacking``), and some plays made within it have had no reward yet (``outstanding``).
        plays = size + outstanding - lacking
        if before > 0 and plays > 0:
            # differences of long sums may leave the range by a rounding error
            within = min(max(total - earlier, 0.0), float(size))
            low, high = max(within - lacking, 0.0), min(within + outstanding, float(plays))
            first, second = nearest_sums(
                before + lacking, earlier, earlier + lacking, plays, low, high
            )
            evidence = log_evidence(before + lacking, first, plays, second)
            evidence += log_block_weight(before // size)
            if evidence > blocks.evidence[arm, scale]:
                blocks.evidence[arm, scale] = evidence
                blocks.ends[arm, scale] = pulls
                blocks.before[arm, scale] = earlier
                blocks.within[arm, scale] = within
                blocks.first_rounds[arm, scale] = blocks.rounds[arm, scale]
                blocks.last_rounds[arm, scale] = round
                blocks.first_outstanding[arm, scale] = lacking
                blocks.last_outstanding[arm, scale] = outstanding
        blocks.sums[arm, scale] = total
        blocks.rounds[arm, scale] = round
        blocks.outstanding[arm, scale] = outstanding
        scale += 1
        size *= 2
