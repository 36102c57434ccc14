"""The two simplex problems of optimistic leaders, against their conditions for a minimum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armrace.policies.leaders import optimism
from armrace.policies.leaders.optimism import (
    barrier_weights,
    hybrid_barrier_weights,
    make_predicted_losses,
)

SIZES = (2, 3, 10, 100, 1000)


def random_problem(arms, seed):
    """Estimates far from the latest solution, some far apart and some close together."""
    coins = np.random.default_rng([arms, seed])
    estimates = make_predicted_losses(arms)
    estimates.losses[:] = coins.exponential(10.0 ** coins.integers(-2, 4), arms)
    estimates.predictions[:] = coins.random(arms)
    estimates.weights[:] = coins.dirichlet(np.full(arms, 0.5)).clip(1e-12)
    estimates.normaliser[0] = coins.normal(scale=100)
    return estimates, coins.uniform(1, 5, arms), coins.uniform(1, 15)


@pytest.mark.parametrize("arms", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_barrier_weights_are_where_the_gradient_vanishes(arms, seed):
    estimates, scales, _ = random_problem(arms, seed)
    weights = np.empty(arms)
    x = barrier_weights(estimates, scales, weights)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(weights > 0)
    expected = estimates.losses + estimates.predictions
    assert weights * (expected - x) == pytest.approx(scales, rel=1e-10)


@pytest.mark.parametrize("arms", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_hybrid_weights_are_where_the_gradient_vanishes(arms, seed):
    """In relation to the curvature, without which a weight near 1 has too few digits."""
    estimates, scales, entropy = random_problem(arms, seed)
    weights = np.empty(arms)
    x = hybrid_barrier_weights(estimates, scales, entropy, weights)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(weights > 0)
    slopes = 1 - 1 / weights - entropy * np.log1p(-weights)
    curvatures = 1 / weights**2 + entropy / (1 - weights)
    residuals = estimates.losses + estimates.predictions + scales * slopes - x
    assert np.all(np.abs(residuals) < 1e-10 * np.maximum(1, scales * curvatures * weights))


@pytest.mark.parametrize("arms", SIZES)
def test_solving_in_turn_finds_the_same_weights(arms, monkeypatch):
    """Where joint steps do not converge, which is rare, a slower method takes over."""
    estimates, scales, entropy = random_problem(arms, 5)
    jointly, in_turn = np.empty(arms), np.empty(arms)
    hybrid_barrier_weights(estimates, scales, entropy, jointly)
    monkeypatch.setattr(optimism, "_MOST_JOINT_STEPS", 0)
    hybrid_barrier_weights(estimates, scales, entropy, in_turn)
    assert in_turn == pytest.approx(jointly, rel=1e-10)


def test_solutions_do_not_depend_on_where_they_start():
    estimates, scales, entropy = random_problem(20, 0)
    first, second = np.empty(20), np.empty(20)
    for solve in (
        lambda out: barrier_weights(estimates, scales, out),
        lambda out: hybrid_barrier_weights(estimates, scales, entropy, out),
    ):
        for start in (-1e9, 0.0, 1e9):
            solve(first)
            estimates.normaliser[0], estimates.weights[:] = start, 0.9 if start > 0 else 1e-9
            solve(second)
            assert second == pytest.approx(first, rel=1e-9)


def test_weights_of_two_arms_as_computed_by_hand():
    """Expected losses 1 and 0 with scales 1: ``1/p - 1/(1-p) = 1`` has the root (3 - sqrt 5)/2."""
    estimates, weights = make_predicted_losses(2), np.empty(2)
    estimates.losses[0] = 1.0
    barrier_weights(estimates, np.ones(2), weights)
    assert weights[0] == pytest.approx((3 - math.sqrt(5)) / 2)
