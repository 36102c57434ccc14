"""Martingales of the proofs have the mean 1 exactly."""

import math

import numpy as np
import pytest

from armrace.policies import MultiLayerRace, SharpRace
from armrace.verification.guarantees import race_rule, sharp_race_rule
from armrace.verification.runs import Met
from armrace.verification.spending import corruption_martingale, reward_martingale


def met(pulls: np.ndarray, sums: np.ndarray) -> Met:
    """Windows of one layer and one arm."""
    shaped = [x.reshape(-1, 1, 1).astype(float) for x in (pulls, sums)]
    return Met(*shaped, np.zeros(len(pulls)))


@pytest.mark.parametrize("kind", ["paper", "kl", "kl-mixture", "kl-jeffreys"])
@pytest.mark.parametrize("mean", [0.5, 0.2])
def test_reward_martingales_have_the_mean_1(kind, mean):
    rule = race_rule(MultiLayerRace(intervals=kind, layers=1), 2, 100)
    count = 6
    sums = np.arange(count + 1)
    chances = [math.comb(count, s) * mean**s * (1 - mean) ** (count - s) for s in range(count + 1)]
    values = reward_martingale(rule, met(np.full(count + 1, count), sums), mean).ravel()
    assert np.dot(chances, values) == pytest.approx(1)


@pytest.mark.parametrize("pooled", [False, True])
def test_the_corruption_martingale_has_the_mean_1(pooled):
    rule = sharp_race_rule(SharpRace(), 2, 64) if pooled else race_rule(MultiLayerRace(), 2, 64)
    rounds, rate = 64, 0.5
    for layer, share in enumerate(rule.used_share):
        met = np.zeros((rounds + 1, rule.share.size))
        met[:, layer] = np.arange(rounds + 1)
        values = corruption_martingale(rule, met, rounds, rate)[:, layer]
        chances = [
            math.comb(rounds, z) * share**z * (1 - share) ** (rounds - z) for z in range(rounds + 1)
        ]
        assert np.dot(chances, values) == pytest.approx(1)
        # and the proof's own normaliser is larger
        assert rounds * math.log1p(share * math.expm1(rate)) <= rounds * share * math.expm1(rate)
