"""Tests for changes of an arm's rewards: over time, under any policy, and from layer to layer.

A third of an arm's level goes to the marks: for every pair of them, the plays made before the first
are compared with the plays made between the two. A third goes to the blocks, each of which is
compared with all plays before it. The last third goes to the bursts: plays made in good times are
compared with plays made in bad times.

Samples are plays in the order of decisions. While rewards are outstanding, the sum over all plays
made so far is known only up to these rewards; the sum over the plays between two moments is known
up to the outstanding rewards of both.

The layer of a round of a race is random, so honest samples of an arm with a fixed mean have the
same distribution in all layers. Fast layers meet much of the corruption and may delete an arm
because of it, which freezes their sample; slower layers keep playing the arm and see a different
mean.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.audit.audit_trail import Watched
from armrace.audit.evidence import (
    Arms,
    Pairs,
    Samples,
    Screen,
    TwoSamples,
    in_parts,
    join,
    nearest_pairs,
)
from armrace.audit.findings import Alarm, Examination, direction_of
from armrace.policies.common.blocks import block_size, log_block_weight
from armrace.policies.races.race import NEVER, Race
from armrace.statistics.proportions import bisect
from armrace.theory.plays import corruption_allowance

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


def examine_time(watched: Watched, level: float, claims: int, screen: Screen) -> Examination:
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
    return Examination(alarms, by_arm, 0.0)


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


_SMALL_RATE = 0.25
_HALVINGS = 50


def race_in(state: Any) -> Race | None:
    """The race that a state is or contains, if it has at least two layers."""
    if isinstance(state, Race):
        return state if state.share.size > 1 else None
    members = state if isinstance(state, tuple) else ()
    return next((found for found in map(race_in, members) if found is not None), None)


class Exposure(NamedTuple):
    """Upper bounds on the part of the total corruption that each layer meets.

    For each of two rates ``x``, with high probability and at all times at once, a layer with
    share ``p`` meets ``Z <= ((e^x - 1) p C + a) / x``. One rate is optimal for ``p C = 1``, for
    which the layer is designed; the other is good for large ``p C``. This assumes an adversary who
    sees neither the layer nor the arm before it has fixed its answers.
    """

    share: npt.NDArray[np.float64]
    rates: tuple[float, float]
    log_term: float

    def most(self, layer: int, corruption: float) -> float:
        """The most that the layer meets of a total corruption."""
        load = float(self.share[layer]) * corruption
        met = ((math.expm1(rate) * load + self.log_term) / rate for rate in self.rates)
        # No layer meets more than there is (Lemma 5 of the theory page).
        return min(corruption, *met)

    def rejects(self, found: TwoSamples, layers: tuple[int, int], corruption: float) -> bool:
        """Whether the two layers differ by more than a total of ``corruption`` can explain."""
        return found.rejects(*(self.most(layer, corruption) for layer in layers))

    def least_corruption(
        self, found: TwoSamples, layers: tuple[int, int], at_least: float, at_most: float
    ) -> float:
        """The largest total that cannot explain how two layers differ, rounded down.

        It is ``at_least`` if that total can explain it.
        """
        if not self.rejects(found, layers, at_least):
            return at_least
        rejects = partial(self.rejects, found, layers)
        return bisect(rejects, at_least, at_most, _HALVINGS)[0]


def exposure_of(race: Race, level: float) -> Exposure:
    """The bounds that hold jointly for all layers and both rates with probability 1 - level.

    In a race within another policy, ``share`` is the probability of a layer given that the race
    has the round. It is larger than the layer's own probability, so the bounds still hold.
    """
    # One bound for each layer and each of the two rates.
    log_term = math.log(2 * race.share.size / level)
    # Lemma 1 of the theory page: the best rate is ln(c/rho), here for rho = 1.
    best_rate = math.log(corruption_allowance(1.0, log_term))
    return Exposure(race.share, (best_rate, _SMALL_RATE), log_term)


def examine_layers(race: Race, level: float, claims: int, screen: Screen) -> Examination:
    """Compare all pairs of layers in all arms at ``level``, one of ``claims`` equal shares."""
    layers, arms = race.pulls.shape
    # All pairs share the level, with rewards or not: which have some depends on the rewards.
    log_term = math.log(arms * layers * (layers - 1) / 2 / level)
    exposure = exposure_of(race, level)
    alarms, by_arm, total = [], np.zeros(arms), 0.0
    counts = np.concatenate([race.assigned, race.pulls])
    plays = np.maximum(race.assigned, race.pulls).sum(axis=0)
    for arm in screen.suspects(counts, plays, partial(_bounds_of_layers, race), log_term):
        found = _pairs_of_layers(race, arm)
        rejected = np.flatnonzero(found.pairs.evidence > log_term)
        if rejected.size:
            by_arm[arm] = found.pairs.least_change(log_term)
            total = _least_total(exposure, found, rejected, log_term, total, race)
            best = int(rejected[np.argmax(found.pairs.evidence[rejected])])
            chance = claims * level * math.exp(log_term - found.pairs.evidence[best])
            alarms.append(_disagreement(race, arm, found, best, chance))
    return Examination(alarms, by_arm, total)


class _LayerPairs(NamedTuple):
    """Pairs of layers with rewards of one arm, the faster first."""

    fast: npt.NDArray[np.int64]
    slow: npt.NDArray[np.int64]
    pairs: Pairs


def _pairs_of_layers(race: Race, arm: int) -> _LayerPairs:
    samples = _samples(race, arm)
    seen = np.flatnonzero(race.pulls[:, arm])
    first, second = np.triu_indices(seen.size, k=1)
    fast, slow = seen[first], seen[second]
    return _LayerPairs(fast, slow, nearest_pairs(samples.at(fast), samples.at(slow)))


def _bounds_of_layers(race: Race, arms: Arms) -> npt.NDArray[np.float64]:
    """The largest evidence of any pair of layers, for some arms."""
    first, second = np.triu_indices(race.pulls.shape[0], k=1)
    found = np.zeros(arms.size)
    for part in in_parts(np.arange(arms.size), first.size):
        samples = _samples(race, arms[part])
        evidence = nearest_pairs(samples.at(first), samples.at(second)).evidence
        seen = race.pulls[:, arms[part]] > 0
        found[part] = np.where(seen[first] & seen[second], evidence, -np.inf).max(axis=0)
    return found


def _samples(race: Race, arm: int | Arms) -> Samples:
    """All plays of an arm that each layer has assigned.

    They are a prefix in the order of decisions, whichever of their rewards are late.
    """
    pulls, sums = race.pulls[:, arm], race.sums[:, arm]
    outstanding = np.maximum(race.assigned[:, arm] - pulls, 0)
    return Samples(pulls + outstanding, sums, sums + outstanding)


def _least_total(
    exposure: Exposure,
    found: _LayerPairs,
    rejected: npt.NDArray[np.int64],
    log_term: float,
    total: float,
    race: Race,
) -> float:
    """The largest lower bound on C that any of the pairs gives, or ``total`` if none is larger."""
    for index in rejected:
        layers = int(found.fast[index]), int(found.slow[index])
        compared = found.pairs.comparison(index, log_term)
        # Starting from the best bound so far, a pair that gives no better one costs a single test.
        total = exposure.least_corruption(compared, layers, total, float(race.rounds[0]))
    return total


def _disagreement(race: Race, arm: int, found: _LayerPairs, best: int, chance: float) -> Alarm:
    fast, slow = int(found.fast[best]), int(found.slow[best])
    both = [fast, slow]
    pulls, sums = race.pulls[both, arm], race.sums[both, arm]
    means = (np.clip(sums, 0.0, pulls) / pulls).tolist()
    deleted = int(race.eliminated_at[fast, arm])
    return Alarm(
        kind="disagreement",
        arm=arm,
        layers=(fast, slow),
        direction=direction_of(means[1], means[0]),
        since=None if deleted == NEVER else deleted,
        pulls=(int(pulls[0]), int(pulls[1])),
        means=(means[0], means[1]),
        chance=chance,
    )


def failed_layers(race: Race, certificate: float, level: float) -> list[Alarm]:
    """An alarm for the slowest layer that tolerates less than the certificate, if there is one."""
    failed = np.flatnonzero(certificate > race.tolerated)
    if not failed.size:
        return []
    return [Alarm(kind="failed-layer", layers=(int(failed[-1]),), chance=level)]
