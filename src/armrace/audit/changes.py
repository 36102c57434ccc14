"""Tests for changes of an arm's rewards over time, under any policy.

A third of an arm's level goes to the marks: for every pair of them, the plays made before the first
are compared with the plays made between the two. A third goes to the blocks, each of which is
compared with all plays before it. The last third goes to the bursts: plays made in good times are
compared with plays made in bad times.

Samples are plays in the order of decisions. While rewards are outstanding, the sum over all plays
made so far is known only up to these rewards; the sum over the plays between two moments is known
up to the outstanding rewards of both.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.audit.audit_trail import Watched, block_size, log_block_weight
from armrace.audit.evidence import Arms, Pairs, Samples, Screen, in_parts, join, nearest_pairs
from armrace.audit.findings import Alarm, Finding, direction_of

_SHARES = 3


class TimeChange(NamedTuple):
    """A stretch of an arm's rewards against all before it, or good times against bad."""

    log_value: float
    """Logarithm of the e-value, over all moments at which a change might have come."""
    since: int | None
    until: int | None
    """The decisions made by the beginning and by the end of the stretch; bursts have none."""
    pulls: tuple[int, int]
    """Rewards that have come."""
    means: tuple[float, float]


def examine_time(watched: Watched, level: float, claims: int, screen: Screen) -> Finding:
    """Look for a change in every arm at ``level``, one of ``claims`` equal shares."""
    arms = watched.pulls.size
    log_term = math.log(arms / level)
    alarms, by_arm = [], np.zeros(arms)
    counts = np.stack([watched.assigned, watched.pulls])
    bounds_of = partial(_bounds, watched)
    for arm in screen.suspects(counts, watched.assigned, bounds_of, log_term):
        found = find_change(watched, arm)
        # Only without a change: a change makes rewards resemble their neighbours, and would be
        # reported a second time as bursts.
        if found is None or found.log_value <= log_term:
            found = find_bursts(watched, arm)
        if found is not None and found.log_value > log_term:
            by_arm[arm] = least_change(watched, arm, log_term)
            chance = claims * level * math.exp(log_term - found.log_value)
            alarms.append(_alarm(arm, found, chance))
    return Finding(alarms, by_arm, 0.0)


def _alarm(arm: int, found: TimeChange, chance: float) -> Alarm:
    in_bursts = found.since is None
    return Alarm(
        kind="waves" if in_bursts else "change",
        arm=arm,
        direction=None if in_bursts else direction_of(*found.means),
        since=found.since,
        until=found.until,
        pulls=found.pulls,
        means=found.means,
        chance=chance,
    )


def find_change(watched: Watched, arm: int) -> TimeChange | None:
    """The most striking change of an arm, or ``None`` if it has hardly been played."""
    found = (_change_at_marks(watched, arm), _change_in_blocks(watched, arm))
    return max((c for c in found if c is not None), key=lambda c: c.log_value, default=None)


def find_bursts(watched: Watched, arm: int) -> TimeChange | None:
    """Return how much the rewards in good times differ from those in bad times."""
    memories, pairs = _burst_pairs(watched, arm)
    if not memories.size:
        return None
    best = int(np.argmax(pairs.evidence))
    memory = memories[best]
    pulls, sums = watched.waves.pulls[arm, memory], watched.waves.sums[arm, memory]
    return _change(float(pairs.evidence[best]), None, None, pulls, sums)


def least_change(watched: Watched, arm: int, log_term: float) -> float:
    """A lower bound on the changes to an arm's rewards, at the level ``exp(-log_term)``."""
    (_, blocks), (_, bursts) = _block_pairs(watched, arm), _burst_pairs(watched, arm)
    pairs = join(_mark_pairs(watched, arm).pairs, blocks, bursts)
    return pairs.least_change(log_term)


def _change(
    log_value: float,
    since: int | None,
    until: int | None,
    pulls: npt.ArrayLike,
    sums: npt.ArrayLike,
) -> TimeChange:
    """A change with the numbers and means of the rewards that have come."""
    counts = np.asarray(pulls)
    # Differences of running sums may leave [0, n] by a rounding error.
    means = np.clip(sums, 0.0, counts) / counts
    return TimeChange(
        log_value=log_value,
        since=since,
        until=until,
        pulls=(int(counts[0]), int(counts[1])),
        means=(float(means[0]), float(means[1])),
    )


class _Stretches(NamedTuple):
    """Stretches of an arm's rewards in the order in which they came, and what was outstanding."""

    before: npt.NDArray[np.int64]
    before_sums: npt.NDArray[np.float64]
    within: npt.NDArray[np.int64]
    within_sums: npt.NDArray[np.float64]
    first_outstanding: npt.NDArray[np.int64]
    last_outstanding: npt.NDArray[np.int64]

    @property
    def plays(self) -> npt.NDArray[np.int64]:
        """How many plays were made during each stretch."""
        return self.within + self.last_outstanding - self.first_outstanding

    def pairs(self, sharing: npt.NDArray[np.float64] | float) -> Pairs:
        """Plays made before each stretch against plays made during it.

        Of the rewards that came during a stretch, up to ``first_outstanding`` may belong to plays
        made before it; of the plays made during it, up to ``last_outstanding`` lack their reward.
        """
        plays = self.plays
        low = np.clip(self.within_sums - self.first_outstanding, 0.0, plays)
        high = np.clip(self.within_sums + self.last_outstanding, 0.0, plays)
        earlier = Samples(
            self.before + self.first_outstanding,
            self.before_sums,
            self.before_sums + self.first_outstanding,
        )
        return nearest_pairs(earlier, Samples(plays, low, high), sharing)


class _MarkPairs(NamedTuple):
    """Moments, given by rewards, sums and rounds, and pairs of them that enclose a stretch."""

    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    pairs: Pairs


def _mark_pairs(watched: Watched, arm: int) -> _MarkPairs:
    marks, reached = watched.marks, int(watched.marks.reached[arm])
    pulls, sums = marks.pulls[:reached], marks.sums[arm, :reached]
    rounds, outstanding = marks.rounds[arm, :reached], marks.outstanding[arm, :reached]
    # The present counts as one more mark. The tests hold at all times at once, so that it is free.
    if pulls.size and watched.pulls[arm] > pulls[-1]:
        pulls = np.append(pulls, watched.pulls[arm])
        sums = np.append(sums, watched.sums[arm])
        rounds = np.append(rounds, watched.rounds[0])
        now = max(0, int(watched.assigned[arm] - watched.pulls[arm]))
        outstanding = np.append(outstanding, now)
    first, last = np.triu_indices(pulls.size, k=1)
    made = pulls + outstanding
    between = made[last] > made[first]  # else no play was made in between
    first, last = first[between], last[between]
    found = _Stretches(
        pulls[first],
        sums[first],
        pulls[last] - pulls[first],
        sums[last] - sums[first],
        outstanding[first],
        outstanding[last],
    )
    # All marks that may ever be reached share a third of the level equally.
    sharing = math.log(_SHARES * marks.pulls.size)
    return _MarkPairs(pulls, sums, rounds, first, last, found.pairs(sharing))


def _change_at_marks(watched: Watched, arm: int) -> TimeChange | None:
    """The e-value at the mark where it was largest: the mean over all moments before it."""
    pulls, sums, rounds, first, last, pairs = _mark_pairs(watched, arm)
    if not pairs.pulls.size:
        return None
    evidence = pairs.evidence
    peak = float(evidence.max())
    moments = np.zeros(rounds.size)
    # An average of e-values is an e-value. Measured from the peak, no exponential overflows.
    np.add.at(moments, last, np.exp(evidence - peak))
    when = int(np.argmax(moments))
    within = np.flatnonzero(last == when)
    best = first[within[np.argmax(evidence[within])]]
    return _change(
        peak + math.log(moments[when]),
        int(rounds[best]),
        int(rounds[when]),
        (pulls[best], pulls[when] - pulls[best]),
        (sums[best], sums[when] - sums[best]),
    )


def _block_pairs(watched: Watched, arm: int) -> tuple[npt.NDArray[np.intp], Pairs]:
    """The scales that have a block, and the most striking block of each against all before it."""
    blocks = watched.blocks
    sizes = np.array([block_size(scale) for scale in range(blocks.ends.shape[1])], dtype=np.int64)
    scales = np.flatnonzero(blocks.ends[arm] > sizes)  # others have no block after the first
    sizes = sizes[scales]
    before = blocks.ends[arm, scales] - sizes
    weights = np.array([log_block_weight(place) for place in before // sizes], dtype=np.float64)
    found = _Stretches(
        before,
        blocks.before[arm, scales],
        sizes,
        blocks.within[arm, scales],
        blocks.first_outstanding[arm, scales],
        blocks.last_outstanding[arm, scales],
    )
    return scales, found.pairs(math.log(_SHARES * blocks.sums.shape[1]) - weights)


def _change_in_blocks(watched: Watched, arm: int) -> TimeChange | None:
    scales, pairs = _block_pairs(watched, arm)
    if not scales.size:
        return None
    best = int(np.argmax(pairs.evidence))
    scale, blocks = int(scales[best]), watched.blocks
    size = block_size(scale)
    return _change(
        float(pairs.evidence[best]),
        int(blocks.first_rounds[arm, scale]),
        int(blocks.last_rounds[arm, scale]),
        (blocks.ends[arm, scale] - size, size),
        (blocks.before[arm, scale], blocks.within[arm, scale]),
    )


def _burst_pairs(watched: Watched, arm: int) -> tuple[npt.NDArray[np.intp], Pairs]:
    """The memories with rewards of both times, and plays in bad times against those in good."""
    bursts = watched.waves
    both = np.flatnonzero(bursts.pulls[arm].min(axis=1))
    bad, good = (_burst_samples(watched, arm, both, side) for side in (0, 1))
    return both, nearest_pairs(bad, good, math.log(_SHARES * bursts.pulls.shape[1]))


def _burst_samples(
    watched: Watched, arm: int | Arms, memories: npt.NDArray[np.intp], side: int
) -> Samples:
    bursts = watched.waves
    pulls, sums = bursts.pulls[arm, memories, side], bursts.sums[arm, memories, side]
    unknown = np.maximum(bursts.assigned[arm, memories, side] - pulls, 0)
    return Samples(pulls + unknown, sums, sums + unknown)


def _bounds(watched: Watched, arms: Arms) -> npt.NDArray[np.float64]:
    """Upper bounds on the evidence of some arms for a change or for bursts."""
    bursts, blocks = watched.waves, watched.blocks.evidence
    rows, memories = np.nonzero(bursts.pulls[arms].min(axis=2))
    bad, good = (_burst_samples(watched, arms[rows], memories, side) for side in (0, 1))
    in_bursts = np.full(arms.size, -np.inf)
    sharing = math.log(_SHARES * bursts.pulls.shape[1])
    np.maximum.at(in_bursts, rows, nearest_pairs(bad, good, sharing).evidence)
    in_blocks = blocks[arms].max(axis=1) - math.log(_SHARES * blocks.shape[1])
    found: npt.NDArray[np.float64] = np.fmax(in_bursts, in_blocks)
    return np.fmax(found, _mark_bounds(watched, arms), out=found)


def _mark_bounds(watched: Watched, arms: Arms) -> npt.NDArray[np.float64]:
    """As :func:`_mark_pairs` for arms that have passed equally many marks, with the present."""
    marks, found = watched.marks, np.full(arms.size, -np.inf)
    sharing = math.log(_SHARES * marks.pulls.size)
    reached = np.minimum(marks.reached[arms], marks.pulls.size)
    for count in np.unique(reached[reached > 0]).tolist():
        first, last = np.triu_indices(count + 1, k=1)
        for rows in in_parts(np.flatnonzero(reached == count), first.size):
            arm = arms[rows]
            now = np.maximum(watched.assigned[arm] - watched.pulls[arm], 0)
            passed = np.broadcast_to(marks.pulls[:count], (arm.size, count))
            pulls = np.column_stack([passed, watched.pulls[arm]])
            sums = np.column_stack([marks.sums[arm, :count], watched.sums[arm]])
            outstanding = np.column_stack([marks.outstanding[arm, :count], now])
            stretches = _Stretches(
                pulls[:, first],
                sums[:, first],
                pulls[:, last] - pulls[:, first],
                sums[:, last] - sums[:, first],
                outstanding[:, first],
                outstanding[:, last],
            )
            evidence = stretches.pairs(sharing).evidence
            evidence[stretches.plays <= 0] = -np.inf
            # The e-value of a mark is a sum over the moments before it, of which there are as many.
            found[rows] = evidence.max(axis=1) + math.log(count)
    return found
