"""The two barriers with a scale for each arm, against their conditions for a minimum."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from armrace.policies.leaders import barrier
from armrace.policies.leaders.barrier import barrier_weights, hybrid_barrier_weights

SIZES = (2, 3, 10, 100, 1000)


def random_problem(arms, seed):
    """Expected losses, some far apart and some close together, and scales."""
    coins = np.random.default_rng([arms, seed])
    losses = coins.exponential(10.0 ** coins.integers(-2, 4), arms) + coins.random(arms)
    return losses, coins.uniform(1, 5, arms)


def random_start(arms, seed):
    """Weights and multiplier far from the solution."""
    coins = np.random.default_rng([arms, seed, 1])
    return coins.dirichlet(np.full(arms, 0.5)).clip(1e-12), coins.normal(scale=100)


def hybrid(losses, scales, entropy, start, out):
    return hybrid_barrier_weights(losses, scales, entropy, *start, out)


@pytest.mark.parametrize("arms", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_barrier_weights_are_where_the_gradient_vanishes(arms, seed):
    losses, scales = random_problem(arms, seed)
    weights = np.empty(arms)
    x = barrier_weights(losses, scales, random_start(arms, seed)[1], weights)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(weights > 0)
    assert weights * (losses - x) == pytest.approx(scales, rel=1e-10)


@st.composite
def hard_problems(draw):
    """Losses of any size, some of them equal, scales of any ratio, a start anywhere."""
    arms = draw(st.integers(1, 60))
    exponents = st.floats(-8, 14)
    losses = [10 ** draw(exponents) * draw(st.sampled_from((-1, 0, 1))) for _ in range(arms)]
    scales = [10 ** draw(st.floats(-1, 4)) for _ in range(arms)]
    return np.array(losses), np.array(scales), draw(st.floats(-1e250, 1e250))


@given(hard_problems(), st.sampled_from((1, 40)))
def test_barrier_weights_are_found_for_any_losses_scales_and_start(problem, copies):
    """With copies of the arms there are 2,400 at most; steps are few wherever they start."""
    losses, scales, start = problem
    losses, scales = np.tile(losses, copies), np.tile(scales, copies)
    weights, steps = np.empty(losses.size), []
    usual = barrier.corrected_step
    barrier.corrected_step = lambda step, bend: steps.append(step) or usual(step, bend)
    try:
        x = barrier_weights(losses, scales, start, weights)
    finally:
        barrier.corrected_step = usual
    assert weights.sum() == pytest.approx(1, abs=1e-11)
    assert np.all(weights > 0)
    # As x is rounded, test the weights against one another: reciprocals differ as losses do.
    best = int(np.argmin(losses))
    distance = scales[best] / weights[best]
    assert weights == pytest.approx(scales / (losses - losses[best] + distance), rel=1e-9)
    assert x == pytest.approx(losses[best] - distance, rel=1e-9)
    assert len(steps) <= 24 + math.log(scales.sum() / scales.min(), 4)


@pytest.mark.parametrize("arms", SIZES)
@pytest.mark.parametrize("seed", range(4))
def test_hybrid_weights_are_where_the_gradient_vanishes(arms, seed):
    """In relation to the curvature, without which a weight near 1 has too few digits."""
    losses, scales = random_problem(arms, seed)
    entropy = np.random.default_rng(seed).uniform(1, 15)
    weights = np.empty(arms)
    x = hybrid(losses, scales, entropy, random_start(arms, seed), weights)
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.all(weights > 0)
    slopes = 1 - 1 / weights - entropy * np.log1p(-weights)
    curvatures = 1 / weights**2 + entropy / (1 - weights)
    residuals = losses + scales * slopes - x
    assert np.all(np.abs(residuals) < 1e-10 * np.maximum(1, scales * curvatures * weights))


@pytest.mark.parametrize("arms", SIZES)
def test_solving_in_turn_finds_the_same_weights(arms, monkeypatch):
    """Where joint steps do not converge, which is rare, a slower method takes over."""
    problem = (*random_problem(arms, 5), 3.0, random_start(arms, 5))
    jointly, in_turn = np.empty(arms), np.empty(arms)
    hybrid(*problem, jointly)
    monkeypatch.setattr(barrier, "_MOST_JOINT_STEPS", 0)
    hybrid(*problem, in_turn)
    assert in_turn == pytest.approx(jointly, rel=1e-10)


def test_hybrid_weights_do_not_depend_on_where_the_search_starts():
    problem = (*random_problem(20, 0), 3.0)
    first, second = np.empty(20), np.empty(20)
    hybrid(*problem, random_start(20, 0), first)
    for normaliser, weight in ((-1e9, 1e-9), (0.0, 1e-9), (1e9, 0.9)):
        hybrid(*problem, (np.full(20, weight), normaliser), second)
        assert second == pytest.approx(first, rel=1e-9)


def test_weights_of_two_arms_as_computed_by_hand():
    """Expected losses 1 and 0 with scales 1: ``1/p - 1/(1-p) = 1`` has the root (3 - sqrt 5)/2."""
    weights = np.empty(2)
    barrier_weights(np.array([1.0, 0.0]), np.ones(2), 0.0, weights)
    assert weights[0] == pytest.approx((3 - math.sqrt(5)) / 2)
