"""The adversary of the lower bound: its search, its thinning, and what it achieves."""

import math

import numpy as np
import pytest

from armrace import simulate
from armrace.adversaries import Setting
from armrace.adversaries.lower_bound_switch import (
    LowerBoundSwitch,
    Rehearsed,
    _is_randomised,
)
from armrace.policies import Exp3, KlUcb, Thompson, Ucb1
from proposals import ledger_of, strike

PAPER = Setting(np.array([2 / 3, 1 / 2]), horizon=20_000, budget=1e9, policy=Ucb1())
ERROR_PROBABILITY = 1e-4


def test_intervals_grow_threefold_between_the_two_powers():
    found = LowerBoundSwitch(epsilon=0.5, epsilon_prime=0.9, runs=1).intervals(
        PAPER._replace(horizon=1_000_000)
    )
    starts = [interval.start for interval in found]
    assert starts == [1000, 3000, 9000, 27_000, 81_000, 243_000]
    assert [interval.end for interval in found] == [3 * start for start in starts]
    assert len(found) == math.ceil((0.9 - 0.5) * math.log(1_000_000, 3))


@pytest.mark.parametrize(
    ("limits", "starts"),
    [
        ({"budget": 1300.0}, [141, 424, 1273]),
        ({"budget": 1272.0}, [141, 424]),
        ({"horizon": 400}, [20, 60]),  # 180 would still be below 400^0.9, but not 540 below 400
        ({"budget": 100.0}, []),
    ],
)
def test_only_intervals_that_fit_are_searched(limits, starts):
    found = LowerBoundSwitch(runs=1).intervals(PAPER._replace(**limits))
    assert [interval.start for interval in found] == starts


def brute_force_pulls(means, borders, runs, seed):
    """Mean pulls of arm 0 by UCB1 between borders, by the textbook."""
    generator = np.random.default_rng(seed)
    pulls = np.ones((runs, 2))
    sums = (generator.random((runs, 2)) < means).astype(float)
    counts = {2: pulls[:, 0].copy()}
    for number in range(3, borders[-1] + 1):
        index = sums / pulls + np.sqrt(2 * math.log(number) / pulls)
        arms = index.argmax(axis=1)
        rows = np.arange(runs)
        pulls[rows, arms] += 1
        sums[rows, arms] += generator.random(runs) < np.array(means)[arms]
        if number in borders:
            counts[number] = pulls[:, 0].copy()
    return np.array([counts[border] for border in borders])


def test_the_interval_found_for_ucb1_is_the_one_with_the_fewest_pulls():
    attack = LowerBoundSwitch(epsilon=0.4, epsilon_prime=0.8)
    found = attack.intervals(PAPER)
    borders = [found[0].start, *(interval.end for interval in found)]
    runs = 400
    slices = np.diff(brute_force_pulls((1 / 3, 1 / 2), borders, runs, seed=4), axis=0)
    errors = slices.std(axis=1) * math.sqrt(1 / runs + 1 / attack.runs)
    for interval, mean, error in zip(found, slices.mean(axis=1), errors, strict=True):
        assert abs(interval.pulls - mean) < 5 * error
    fewest = int(slices.mean(axis=1).argmin())
    assert attack.start(PAPER).rounds == found[fewest].start


@pytest.mark.parametrize(
    ("policy", "randomised"),
    [(Ucb1(), False), (KlUcb(), False), (Exp3(), True), (Thompson(), True)],
)
def test_it_finds_out_whether_the_learner_is_randomised(policy, randomised):
    assert _is_randomised(Rehearsed(policy), 2_000, (0.6, 0.4)) == randomised


def regret_of_exp3(interval):
    """Pseudo-regrets on seeds that the attack has not simulated."""
    attack = LowerBoundSwitch(epsilon=0.4, runs=10, interval=interval)
    found = simulate(
        "exp3",
        [0.6, 0.4],
        attack,
        budget=3000,
        horizon=20_000,
        replications=30,
        seed=5,
        progress=False,
    )
    return found.sample("pseudo_regret")


def test_against_a_randomised_learner_the_interval_costs_more_than_that_of_fewest_plays():
    plays, regret, auto = (regret_of_exp3(interval) for interval in ("plays", "regret", "auto"))
    error = math.sqrt((plays.var() + regret.var()) / 30)
    assert regret.mean() > plays.mean() + 5 * error
    np.testing.assert_array_equal(auto, regret)


@pytest.mark.parametrize(
    ("gap", "shown"), [(None, (0.5, 0.4, 0.6)), (0.05, (0.5, 0.4, 0.65)), (0.8, (0.5, 0.4, 0.0))]
)
def test_the_best_arm_is_shown_below_the_runner_up(gap, shown):
    # the runner-up has 0.7, the best 0.8
    means = np.array([0.5, 0.4, 0.8, 0.7])
    setting = Setting(means, horizon=1000, budget=50.0, policy=Ucb1())
    assert LowerBoundSwitch(gap=gap).shown_means(setting) == pytest.approx((*shown, 0.7))


def test_it_thins_and_stops():
    state = LowerBoundSwitch(gap=0.5, runs=1).start(PAPER)
    assert state.chance == 1.0
    assert strike(state, [1.0, 1.0], round=state.rounds - 1) == [0.0, 1.0]
    assert strike(state, [1.0, 1.0], round=state.rounds) == [1.0, 1.0]


def test_it_never_needs_more_than_its_budget():
    for budget in (10, 200, 5000):
        ledger = ledger_of(LowerBoundSwitch(gap=0.8, runs=2), budget=budget)
        assert 0 < ledger.corruption[0] <= budget
