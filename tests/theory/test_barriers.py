"""The barrier theorem: every step of its proof holds on runs, and the bound is what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier
from armrace.simulation import simulate
from armrace.theory import (
    barrier_any_rewards_regret,
    barrier_curvature,
    barrier_factor,
    barrier_regret,
)
from armrace.verification.leader_guarantees import LEADERS
from armrace.verification.leader_paths import walk
from armrace.verification.leader_proofs import (
    barrier_steps,
    bias_of_optimism,
    comparators,
    excess_variation,
    regret_on_path,
    squares_of_optimism,
    stability_of_scales,
)
from armrace.verification.regularisers import BARRIER, excess_of_logarithm

ROUNDS = 1500
SETTINGS = ({"optimism": 0.0}, {"optimism": 0.5, "scale_growth": 0.25}, {"optimism": 1.5})
"""With a first scale of 2, which the theorem covers."""
READ = LEADERS[OptimisticLogBarrier].read


def walk_with(settings, seed, first_scale=2.0):
    policy = OptimisticLogBarrier(first_scale=first_scale, **settings)
    return policy, walk(policy, READ, ROUNDS, seed)


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def walked(request):
    return walk_with(request.param, seed=4)


def test_the_regret_on_a_path_is_what_the_first_lemma_allows(walked):
    """The lemma, with the terms that the leader lemma has beyond it left out."""
    policy, path = walked
    arms, drift = path.weights.shape[1], path.optimism_steps
    y = (path.shares - drift) / path.before.scales
    assert barrier_steps(path).least == y.min() >= -(1 + policy.optimism / 2) / policy.first_scale
    allowed = (path.before.scales * excess_of_logarithm(y) + drift).sum()
    allowed -= policy.first_scale * arms * math.log(arms)
    sides = regret_on_path(path, BARRIER, centred=True)
    for comparator, regret, tighter in zip(comparators(arms, ROUNDS), *sides, strict=True):
        last = -path.before.scales[-1] @ np.log(comparator)
        assert regret <= tighter <= allowed + last + 1e-9


def test_stability_is_bounded_by_the_root_of_the_variation(walked):
    policy, path = walked
    growth = policy.scale_growth / math.log(ROUNDS)
    variation = path.shares**2
    sums = np.cumsum(variation, axis=0)
    scales = policy.first_scale + np.sqrt(growth * (sums - variation))
    assert path.before.scales == pytest.approx(scales, rel=1e-9)
    assert stability_of_scales(path, growth).excess <= 0


def test_bias_and_stability_of_the_optimism_are_bounded(walked):
    policy, path = walked
    variances = path.before.spreads * (1 - path.weights) / path.weights
    deviations = policy.optimism * np.sqrt(np.cumsum(variances, axis=0))
    optimism = np.vstack([path.before.optimism[1:], path.after.optimism])
    assert optimism == pytest.approx(deviations, rel=1e-9)
    steps = barrier_steps(path)
    assert 0 <= steps.least_optimism <= steps.largest_optimism <= policy.optimism / 2
    assert bias_of_optimism(path, policy.optimism).excess <= 0
    assert squares_of_optimism(path, policy.optimism).excess <= 0


def test_the_first_lemma_can_fail_where_it_is_not_proved():
    """With a first scale of 0.3, a step below -1 occurs, for which there is no bound."""
    _, path = walk_with({"optimism": 1.0}, seed=4, first_scale=0.3)
    assert barrier_steps(path).least < -1
    assert regret_on_path(path, BARRIER, centred=True).excess == 1.0


def test_expected_variation_is_at_most_the_expected_plays_of_other_arms():
    """Each excess is a sum of bounded differences of mean at most 0.

    Over 8 paths, the mean exceeds 5 of its standard errors with probability 1e-3 at most, by the
    t distribution with 7 degrees of freedom; with this seed it does not.
    """
    excesses = [excess_variation(walk_with(SETTINGS[1], seed)[1]).sum() for seed in range(8)]
    assert np.mean(excesses) <= 5 * np.std(excesses, ddof=1) / math.sqrt(8)


def test_the_root_of_the_last_inequality():
    """The bound solves ``X <= S + a sqrt(X Z)`` for the largest ``X``."""
    horizon, gaps, corruption = 10**6, [0.1, 0.3], 500.0
    factor, logarithm = barrier_factor(horizon), math.log(horizon)
    offset = 2 * corruption + 2 * (2 * logarithm + 1)
    inverse = sum(logarithm / gap for gap in gaps)
    largest = (factor * math.sqrt(inverse) + math.sqrt(factor**2 * inverse + 4 * offset)) ** 2 / 4
    assert largest == pytest.approx(offset + factor * math.sqrt(largest * inverse))
    assert barrier_regret(gaps, horizon, corruption) == pytest.approx(largest)
    assert largest <= offset + factor**2 * inverse + factor * math.sqrt(inverse * offset)


@pytest.mark.parametrize(("optimism", "factor"), [(0.1, 8.41), (0.5, 16.36), (1.0, 29.97)])
def test_the_factor_is_the_least_over_all_divisions_of_a_step(optimism, factor):
    horizon, growth, scale = 10**5, 0.25, 2.0
    curvature, root = barrier_curvature(scale, optimism), math.sqrt(growth)
    spread = math.log(8 * math.e * horizon) / math.sqrt(math.log(horizon))
    theta = np.geomspace(1e-3, 1e3, 20_001)
    bias = 1 + (1 + 1 / theta) * curvature * optimism / (2 * scale)
    tried = root + 4 * (1 + theta) * curvature / root + 2 * optimism * bias * spread
    found = barrier_factor(horizon, scale, growth, optimism)
    assert found == pytest.approx(tried.min(), rel=1e-6)
    assert found == pytest.approx(factor, abs=0.005)


@pytest.mark.parametrize("theta", [0.1, 1.0, 7.0])
def test_a_squared_step_is_divided_between_its_parts(walked, theta):
    _, path = walked
    steps, shares = path.optimism_steps, path.shares
    divided = (1 + theta) * shares**2 + (1 + 1 / theta) * steps**2
    assert np.all((shares - steps) ** 2 <= divided + 1e-12)


def test_a_policy_that_was_told_another_horizon_has_the_bound_of_another_growth():
    told, played = OptimisticLogBarrier(scale_growth=0.25), 10**4
    growth = 0.25 * math.log(played) / math.log(10**6)
    same = OptimisticLogBarrier(scale_growth=growth)
    assert told.start(2, 10**6).growth == pytest.approx(same.start(2, played).growth)


def test_small_gaps_have_the_bound_without_gaps_and_the_trivial_one():
    horizon = 10**6
    without = barrier_factor(horizon) * math.sqrt(horizon * math.log(horizon))
    assert barrier_regret([0.0, 0.2], horizon) == pytest.approx(
        math.sqrt(2) * without + 2 * (2 * math.log(horizon) + 1)
    )
    assert barrier_any_rewards_regret(2, horizon) == pytest.approx(
        without + 2 * math.log(horizon) + 1
    )
    assert barrier_regret([0.001], horizon) == pytest.approx(1000)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.5, 1.0), r"^first_scale must be above 1 \+ optimism/2, 1.5; got 1.5.$"),
        ((1.0, 0.0), r"^first_scale must be above 1 \+ optimism/2, 1; got 1.$"),
    ],
)
def test_first_scales_that_are_not_covered_are_refused(arguments, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        barrier_curvature(*arguments)


def test_a_growth_that_is_not_covered_is_refused():
    with pytest.raises(InvalidParameter, match=r"^scale_growth must be at most first_scale\^2"):
        barrier_factor(100, scale_growth=50.0)


def test_there_is_no_guarantee_for_parameters_that_are_not_covered():
    covered = OptimisticLogBarrier()
    assert covered.guarantee([0.2], 1000, 10.0).pseudo_regret > 0
    assert covered.guarantee([0.2] * 9, 19, 10.0) is None
    for other in ({"scale_growth": 30.0}, {"scale_growth": 0.0}, {"optimism": 2.0}):
        assert OptimisticLogBarrier(**other).guarantee([0.2], 1000, 10.0) is None


def test_mean_regret_is_below_the_bound_under_attack():
    """The bound is on the expectation; the mean of 20 runs is 10 standard errors below it."""
    horizon, budget = 20_000, 100
    settings = {"optimism": 0.5, "first_scale": 2.0, "scale_growth": 0.25}
    figure = simulate(
        OptimisticLogBarrier(**settings),
        [0.9, 0.1],
        "zero-best-when-likely",
        budget=budget,
        horizon=horizon,
        replications=20,
    ).figure("pseudo_regret")
    bound = barrier_regret([0.8], horizon, budget, 2.0, 0.25, 0.5)
    assert bound < 0.8 * horizon
    assert 0 < figure.mean < bound - 10 * figure.stderr
