"""Members of the searched family: what each shows."""

import pytest

import armrace
from armrace.adversaries import DoubleImpact, FreeRide, SpoilThenSwap, Strip
from proposals import BEST, SETTING, strike


def test_the_best_arm_falls_and_all_others_rise():
    assert FreeRide().change_rewards(SETTING, [0.0, 1.0, 0.25]) == [1.0, 0.0, 1.0]


def test_both_arms_change_or_none():
    attack = DoubleImpact()
    assert attack.change_rewards(SETTING, [0.0, 1.0, 0.0]) == [0.0, 0.0, 1.0]
    assert attack.change_rewards(SETTING, [0.0, 1.0, 1.0]) == [0.0, 1.0, 1.0]
    assert attack.change_rewards(SETTING, [1.0, 0.0, 0.0]) == [1.0, 0.0, 0.0]


def test_half_of_the_budget_spoils_and_the_rest_swaps():
    state = SpoilThenSwap().start(SETTING)
    paid = [0.5, 1.0, 0.25]
    assert strike(state, paid, left=SETTING.budget) == [0.0, 0.0, 0.0]
    assert strike(state, paid, left=SETTING.budget / 2) == [0.5, 0.25, 1.0]


@pytest.mark.parametrize(
    ("paid", "probability", "shown"),
    [
        ([0.0, 1.0, 0.0], 0.6, [1.0, 0.0, 1.0]),
        ([0.0, 1.0, 0.0], 0.4, [0.0, 1.0, 0.0]),
        ([0.0, 0.0, 1.0], 0.6, [0.0, 0.0, 1.0]),
    ],
)
def test_all_arms_change_when_the_best_pays_and_is_likely(paid, probability, shown):
    weights = [(1 - probability) / 2] * 3
    weights[BEST] = probability
    assert Strip(edge=0.5).change_rewards(SETTING, paid, weights) == shown


def test_where_rewards_are_rare_it_costs_more_than_a_free_ride():
    clicks = [0.03] * 4 + [0.05] + [0.03] * 5
    regrets = [
        armrace.simulate(
            "optimistic-log-barrier",
            clicks,
            attack,
            budget=100,
            horizon=100_000,
            replications=20,
            seed=4,
        ).sample("pseudo_regret")
        for attack in ("strip", "free-ride")
    ]
    # The same rewards in both, so differences of runs tell.
    gain = regrets[0] - regrets[1]
    assert gain.mean() > 3 * gain.std(ddof=1) / 20**0.5
