"""Comparisons of the layers of a race.

The layer of a round is random, so honest samples of an arm with a fixed mean have the same
distribution in all layers. Fast layers meet much of the corruption and may delete an arm because of
it, which freezes their sample; slower layers keep playing the arm and see a different mean.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.audit.evidence import Arms, Pairs, Samples, Screen, TwoSamples, in_parts, nearest_pairs
from armrace.audit.findings import Alarm, Finding, direction_of
from armrace.policies.races.race import NEVER, Race
from armrace.theory.allowance import corruption_allowance

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
        rejected, explaining = at_least, at_most
        for _ in range(_HALVINGS):
            middle = 0.5 * (rejected + explaining)
            if self.rejects(found, layers, middle):
                rejected = middle
            else:
                explaining = middle
        return rejected


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


def examine_layers(race: Race, level: float, claims: int, screen: Screen) -> Finding:
    """Compare all pairs of layers in all arms at ``level``, one of ``claims`` equal shares."""
    layers, arms = race.pulls.shape
    # All pairs share the level, with rewards or not: which have some depends on the rewards.
    log_term = math.log(arms * layers * (layers - 1) / 2 / level)
    exposure = exposure_of(race, level)
    alarms, by_arm, total = [], np.zeros(arms), 0.0
    counts = np.concatenate([race.assigned, race.pulls])
    plays = np.maximum(race.assigned, race.pulls).sum(axis=0)
    for arm in screen.suspects(counts, plays, partial(_bounds, race), log_term):
        found = _pairs_of_layers(race, arm)
        rejected = np.flatnonzero(found.pairs.evidence > log_term)
        if rejected.size:
            by_arm[arm] = found.pairs.least_change(log_term)
            total = _least_total(exposure, found, rejected, log_term, total, race)
            best = int(rejected[np.argmax(found.pairs.evidence[rejected])])
            chance = claims * level * math.exp(log_term - found.pairs.evidence[best])
            alarms.append(_alarm(race, arm, found, best, chance))
    return Finding(alarms, by_arm, total)


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


def _bounds(race: Race, arms: Arms) -> npt.NDArray[np.float64]:
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


def _alarm(race: Race, arm: int, found: _LayerPairs, best: int, chance: float) -> Alarm:
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
