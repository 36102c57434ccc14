"""Robust UCB against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.policies.indices.histories import number_at
from armrace.policies.robust_ucb import RobustUcb, catoni_scale, influence, robust_mean
from playing import learned, make_table, play, play_indices

ESTIMATORS = ("median-of-means", "truncated", "catoni")
V, U = 0.25, 1.0


def median_of_means(x, t):
    if len(x) < 2:
        return math.inf
    confidence = math.log(math.exp(1 / 8) * t**2)
    blocks = math.floor(min(8 * confidence, len(x) / 2))
    length = len(x) // blocks
    means = [sum(x[b * length : (b + 1) * length]) / length for b in range(blocks)]
    return np.median(means) + math.sqrt(12 * V) * math.sqrt(16 * confidence / len(x))


def truncated(x, t):
    confidence = math.log(t**2)
    kept = [r for s, r in enumerate(x, start=1) if r <= math.sqrt(U * s / confidence)]
    return sum(kept) / len(x) + 4 * math.sqrt(U * confidence / len(x))


def catoni(x, t):
    count, confidence = len(x), math.log(t**2)
    needed = 2 * confidence
    if count == 0 or count < 2 * needed:
        return math.inf
    alpha = math.sqrt(needed / (count * (V + V * needed / (count - needed))))
    y, low, high = np.array(x), min(x), max(x)
    for _ in range(60):
        theta = (low + high) / 2
        z = alpha * (y - theta)
        above = (np.sign(z) * np.log(1 + np.abs(z) + z * z / 2)).sum() > 0
        low, high = (theta, high) if above else (low, theta)
    return low + 2 * math.sqrt(V * confidence / count)


TEXTBOOK = {"median-of-means": median_of_means, "truncated": truncated, "catoni": catoni}


def test_catoni_of_symmetric_rewards_is_their_centre():
    assert (
        robust_mean(learned(RobustUcb(estimator="catoni"), [0.0, 1.0] * 50), 0, math.log(50)) == 0.5
    )


def test_influence_and_scale():
    assert influence(2.0) == -influence(-2.0) == pytest.approx(math.log(5))
    needed = 4 * math.log(30)
    expected = math.sqrt(needed / (100 * (V + V * needed / (100 - needed))))
    assert catoni_scale(100, math.log(30)) == pytest.approx(expected)
    assert catoni_scale(10, math.log(30)) == 0


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_plays_as_printed(estimator):
    table = np.random.default_rng(2).random((600, 3)) ** [1.0, 1.6, 0.6]
    arms, _ = play(RobustUcb(estimator=estimator), table)
    assert arms == play_indices(TEXTBOOK[estimator], table)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_plays_as_printed_on_bernoulli_arms(estimator):
    table = make_table(600)
    arms, _ = play(RobustUcb(estimator=estimator), table)
    assert arms == play_indices(TEXTBOOK[estimator], table)


def test_catoni_estimates_stay_exact_from_afar():
    """The linear step from an old reference, against solving from nothing."""
    table = np.random.default_rng(5).random((3000, 2)) ** [1.0, 1.1]
    _, state = play(RobustUcb(estimator="catoni"), table)
    logarithm = math.log(3001)
    for arm in range(2):
        kept = [number_at(state.rewards, arm, place) for place in range(state.kept[arm])]
        expected = catoni(kept, 3001) - 2 * math.sqrt(V * 2 * logarithm / len(kept))
        assert robust_mean(state, arm, logarithm) == pytest.approx(expected, abs=1e-12)
