"""The barrier theorem: every step of its proof holds on runs, and the bound is what it says."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.kernels.generics import decide, learn
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier
from armrace.randomness import Purpose, stream_for
from armrace.simulation import simulate
from armrace.theory import barrier_curvature, barrier_factor, barrier_regret
from playing import probabilities

ROUNDS = 1500
SETTINGS = ({"optimism": 0.0}, {"optimism": 0.5, "scale_growth": 0.25}, {"optimism": 1.5})
"""With a first scale of 2, which the theorem covers."""


class Path(NamedTuple):
    """All that the proof speaks of, a row for each round."""

    weights: np.ndarray
    estimates: np.ndarray
    errors: np.ndarray
    played: np.ndarray
    scales: np.ndarray
    optimism: np.ndarray
    """One row more than there are rounds."""
    spreads: np.ndarray


def walk(settings, seed, means=(0.6, 0.4, 0.45), first_scale=2.0):
    """A path under an adversary that swaps arms while the best is likely, and then stops."""
    policy = OptimisticLogBarrier(first_scale=first_scale, **settings)
    state, arms = policy.start(len(means), ROUNDS), len(means)
    stream, coins = stream_for(seed, Purpose.LEARNER, 0), np.random.default_rng(seed)
    rows = {name: [] for name in Path._fields}
    budget = 60
    rows["optimism"].append(np.zeros(arms))
    for _ in range(ROUNDS):
        weights = probabilities(state, arms)
        losses = (coins.random(arms) >= means).astype(float)
        if budget and weights[0] > 0.3 and losses[0] < losses[1]:
            losses[:2], budget = losses[1::-1].copy(), budget - 1
        rows["weights"].append(weights)
        rows["scales"].append(state.scratch.scales.copy())
        rows["spreads"].append(np.maximum(state.spreads.own, state.spreads.pooled))
        before = state.estimates.losses.copy()
        ticket = decide(state, stream)
        learn(state, ticket, 1 - losses[ticket.arm])
        rows["estimates"].append(state.estimates.losses - before)
        rows["errors"].append(losses[ticket.arm] - ticket.memo)
        rows["played"].append(np.arange(arms) == ticket.arm)
        rows["optimism"].append(policy.optimism * np.sqrt(state.variances))
    return policy, Path(*(np.array(rows[name]) for name in Path._fields))


def signed_shares(path):
    """``e (1 - p)`` for the arm played and ``-e p`` for the others; squared, they are ``nu``."""
    return path.errors[:, None] * (path.played - path.weights)


@pytest.fixture(scope="module", params=SETTINGS, ids=str)
def walked(request):
    return walk(request.param, seed=4)


def test_the_regret_on_a_path_is_what_the_first_lemma_allows(walked):
    policy, path = walked
    arms, steps = path.weights.shape[1], np.diff(path.optimism, axis=0) * path.weights
    y = (signed_shares(path) - steps) / path.scales
    assert y.min() >= -(1 + policy.optimism / 2) / policy.first_scale
    allowed = (path.scales * (y - np.log1p(y)) + steps).sum() - policy.first_scale * arms * (
        math.log(arms)
    )
    for best in range(arms):
        comparator = np.full(arms, 1 / ROUNDS)
        comparator[best] = 1 - (arms - 1) / ROUNDS
        regret = (path.estimates * (path.weights - comparator)).sum()
        assert regret <= allowed - path.scales[-1] @ np.log(comparator)


def test_stability_is_bounded_by_the_root_of_the_variation(walked):
    policy, path = walked
    growth = policy.scale_growth / math.log(ROUNDS)
    variation = signed_shares(path) ** 2
    sums = np.cumsum(variation, axis=0)
    scales = policy.first_scale + np.sqrt(growth * (sums - variation))
    assert path.scales == pytest.approx(scales, rel=1e-9)
    stability = (variation / path.scales).sum(axis=0)
    assert np.all(stability <= 2 * np.sqrt(sums[-1] / growth))


def test_bias_and_stability_of_the_optimism_are_bounded(walked):
    policy, path = walked
    steps = np.diff(path.optimism, axis=0) * path.weights
    variances = path.spreads * (1 - path.weights) / path.weights
    deviations = policy.optimism * np.sqrt(np.cumsum(variances, axis=0))
    assert path.optimism[1:] == pytest.approx(deviations, rel=1e-9)
    products = (path.spreads * path.weights * (1 - path.weights)).sum(axis=0)
    bound = policy.optimism * math.log(8 * math.e * ROUNDS) * np.sqrt(products)
    assert steps.min() >= 0
    assert steps.max() <= policy.optimism / 2
    assert np.all(steps.sum(axis=0) <= bound)
    assert np.all((steps**2).sum(axis=0) <= policy.optimism / 2 * bound)


def test_the_first_lemma_can_fail_where_it_is_not_proved():
    """With a first scale of 0.3, a step below -1 occurs, for which there is no bound."""
    _, path = walk({"optimism": 1.0}, seed=4, first_scale=0.3)
    steps = np.diff(path.optimism, axis=0) * path.weights
    assert ((signed_shares(path) - steps) / path.scales).min() < -1


def test_expected_variation_is_at_most_the_expected_plays_of_other_arms():
    """Each excess is a sum of bounded differences of mean at most 0.

    Over 8 paths, the mean exceeds 5 of its standard errors with probability 1e-3 at most, by the
    t distribution with 7 degrees of freedom; with this seed it does not.
    """
    excesses = []
    for seed in range(8):
        _, path = walk(SETTINGS[1], seed)
        allowed = path.weights * (1 - path.weights)
        excesses.append((signed_shares(path) ** 2 - allowed).sum(axis=0))
    mean, error = np.mean(excesses, axis=0), np.std(excesses, axis=0, ddof=1) / math.sqrt(8)
    assert np.all(mean <= 5 * error)


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
    steps, shares = np.diff(path.optimism, axis=0) * path.weights, signed_shares(path)
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
