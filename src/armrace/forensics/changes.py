"""Whether an arm's rewards were alike over time, for any policy.

A third of an arm's level goes to the marks: for every pair of them, what came before the first
against what came between the two. A third goes to the blocks: each against all before it. The
last goes to the waves: what came in good times against what came in bad ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.forensics.audit_trail import Watched, block_size, log_block_weight
from armrace.forensics.findings import Alarm, Finding, direction_of
from armrace.forensics.pairs import Pairs, join, pairs_of

__all__ = ["Change", "examine_time", "find_change", "find_waves", "least_change"]

_SHARES = 3


class Change(NamedTuple):
    """A stretch of an arm's rewards against all that came before it; or good times against bad."""

    log_value: float
    """Logarithm of the e-value, over all moments at which a change might have come."""
    since: int | None
    until: int | None
    """The decisions made by the beginning and by the end of the stretch; waves have none."""
    pulls: tuple[int, int]
    means: tuple[float, float]


def examine_time(watched: Watched, level: float, claims: int) -> Finding:
    """Look for a change in every arm, at ``level``, one of so many equal shares."""
    arms = watched.pulls.size
    log_term = math.log(arms / level)
    alarms, by_arm = [], np.zeros(arms)
    for arm in range(arms):
        found = find_change(watched, arm)
        if found is None or found.log_value <= log_term:  # a change makes waves of its own
            found = find_waves(watched, arm)
        if found is not None and found.log_value > log_term:
            by_arm[arm] = least_change(watched, arm, log_term)
            chance = claims * level * math.exp(log_term - found.log_value)
            alarms.append(_alarm(arm, found, chance))
    return Finding(alarms, by_arm, 0.0)


def _alarm(arm: int, found: Change, chance: float) -> Alarm:
    in_waves = found.since is None
    return Alarm(
        kind="waves" if in_waves else "change",
        arm=arm,
        direction=None if in_waves else direction_of(*found.means),
        since=found.since,
        until=found.until,
        pulls=found.pulls,
        means=found.means,
        chance=chance,
    )


def find_change(watched: Watched, arm: int) -> Change | None:
    """The most striking change of an arm, or ``None`` if it has hardly been played."""
    found = (_change_at_marks(watched, arm), _change_in_blocks(watched, arm))
    return max((c for c in found if c is not None), key=lambda c: c.log_value, default=None)


def find_waves(watched: Watched, arm: int) -> Change | None:
    """How much the rewards in good times differ from those in bad ones."""
    pairs = _wave_pairs(watched, arm)
    if not pairs.pulls.size:
        return None
    best = int(np.argmax(pairs.evidence))
    return _change(pairs, best, float(pairs.evidence[best]), None, None)


def least_change(watched: Watched, arm: int, log_term: float) -> float:
    """How much an arm's rewards were changed at least, at the level ``exp(-log_term)``."""
    blocks, _ = _block_pairs(watched, arm)
    pairs = join(_mark_pairs(watched, arm).pairs, blocks, _wave_pairs(watched, arm))
    return pairs.least_change(log_term)


def _change(
    pairs: Pairs, index: int, log_value: float, since: int | None, until: int | None
) -> Change:
    return Change(
        log_value=log_value,
        since=since,
        until=until,
        pulls=(int(pairs.pulls[index]), int(pairs.other_pulls[index])),
        means=(float(pairs.means[index]), float(pairs.other_means[index])),
    )


class _MarkPairs(NamedTuple):
    """Pairs of moments; the stretch lies between the two."""

    rounds: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]
    last: npt.NDArray[np.int64]
    pairs: Pairs


def _mark_pairs(watched: Watched, arm: int) -> _MarkPairs:
    marks, reached = watched.marks, int(watched.marks.reached[arm])
    pulls, sums = marks.pulls[:reached], marks.sums[arm, :reached]
    rounds = marks.rounds[arm, :reached]
    if reached and watched.pulls[arm] > pulls[-1]:
        pulls = np.append(pulls, watched.pulls[arm])
        sums = np.append(sums, watched.sums[arm])
        rounds = np.append(rounds, watched.rounds[0])
    first, last = np.triu_indices(pulls.size, k=1)
    between = pulls[last] - pulls[first], sums[last] - sums[first]
    sharing = math.log(_SHARES * marks.pulls.size)
    return _MarkPairs(rounds, first, last, pairs_of(pulls[first], sums[first], *between, sharing))


def _change_at_marks(watched: Watched, arm: int) -> Change | None:
    """The e-value at the mark where it was largest: the mean over all moments before it."""
    rounds, first, last, pairs = _mark_pairs(watched, arm)
    if not pairs.pulls.size:
        return None
    evidence = pairs.evidence
    peak = float(evidence.max())
    moments = np.zeros(rounds.size)
    np.add.at(moments, last, np.exp(evidence - peak))
    when = int(np.argmax(moments))
    within = np.flatnonzero(last == when)
    best = int(within[np.argmax(evidence[within])])
    since, until = int(rounds[first[best]]), int(rounds[when])
    return _change(pairs, best, peak + math.log(moments[when]), since, until)


def _block_pairs(watched: Watched, arm: int) -> tuple[Pairs, npt.NDArray[np.int64]]:
    """The most striking block of each scale against all before it, and the scales."""
    blocks = watched.blocks
    scales = np.flatnonzero(blocks.ends[arm])
    sizes = np.array([block_size(int(scale)) for scale in scales], dtype=np.int64)
    before = blocks.ends[arm, scales] - sizes
    weights = np.array([log_block_weight(place) for place in before // sizes], dtype=np.float64)
    pairs = pairs_of(
        before,
        blocks.before[arm, scales],
        sizes,
        blocks.within[arm, scales],
        math.log(_SHARES * blocks.sums.shape[1]) - weights,
    )
    return pairs, scales


def _change_in_blocks(watched: Watched, arm: int) -> Change | None:
    pairs, scales = _block_pairs(watched, arm)
    if not scales.size:
        return None
    best = int(np.argmax(pairs.evidence))
    since = int(watched.blocks.first_rounds[arm, scales[best]])
    until = int(watched.blocks.last_rounds[arm, scales[best]])
    return _change(pairs, best, float(pairs.evidence[best]), since, until)


def _wave_pairs(watched: Watched, arm: int) -> Pairs:
    """What came in bad times and what came in good ones, for each memory that knows both."""
    pulls, sums = watched.waves.pulls[arm], watched.waves.sums[arm]
    both = np.flatnonzero(pulls.min(axis=1))
    sharing = math.log(_SHARES * pulls.shape[0])
    return pairs_of(pulls[both, 0], sums[both, 0], pulls[both, 1], sums[both, 1], sharing)
