"""The ledger against sums done by hand, round by round."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import NO_LAYER

# Binary fractions throughout, so that every sum below is exact.
REWARDS = [[1.0, 0.5], [0.0, 1.0], [1.0, 0.25], [0.5, 0.5]]
SCRIPT = [1, 0, 0, 1]
"""Collects 0.5 + 0 + 1 + 0.5 = 2 of the arms' totals 2.5 and 2.25."""

NAN, INFINITY = math.nan, math.inf


def test_the_ledger_without_corruption(scripted, outcome_of):
    outcome = outcome_of(scripted(REWARDS, SCRIPT))
    # After round 1: totals (1, .5), collected .5; round 2: (1, 1.5), .5;
    # round 3: (2, 1.75), 1.5; round 4: (2.5, 2.25), 2.
    assert outcome.regret.tolist() == [0.5, 1.0, 0.5, 0.5]
    assert outcome.clean_regret.tolist() == [0.5, 1.0, 0.5, 0.5]
    assert outcome.corruption.tolist() == [0.0] * 4
    assert outcome.pulls.tolist() == [[0, 1], [1, 1], [2, 1], [2, 2]]
    # Means .625 and .5625: gap .0625 for arm 1, which is played in rounds 1 and 4.
    assert outcome.pseudo_regret.tolist() == [0.0625, 0.0625, 0.0625, 0.125]


PROPOSALS = [(0.25, 0.5), None, (0.5, 1.0), (0.5, 0.0)]
"""Changes (-.75, 0), none, (-.5, +.75), (0, -.5): costs .75, 0, .75, .5."""


def test_the_ledger_under_attack(scripted, outcome_of):
    outcome = outcome_of(scripted(REWARDS, SCRIPT, PROPOSALS, layers=(1, 0, 0, 1)))
    # Corrupted totals: (.25, .5), (.25, 1.5), (.75, 2.5), (1.25, 2.5).
    # Collected, corrupted: .5, .5, 1, 1; clean: .5, .5, 1.5, 2.
    assert outcome.regret.tolist() == [0.0, 1.0, 1.5, 1.5]
    assert outcome.clean_regret.tolist() == [0.5, 1.0, 0.5, 0.5]
    assert outcome.pseudo_regret.tolist() == [0.0625, 0.0625, 0.0625, 0.125]
    # The sum of the largest changes; and of each arm's own, without sign.
    assert outcome.corruption.tolist() == [0.75, 0.75, 1.5, 2.0]
    assert outcome.arm_corruption.tolist() == [[0.75, 0], [0.75, 0], [1.25, 0.75], [1.25, 1.25]]
    # Of the changes the arms 1, 0, 0, 1 show 0, 0, .5 and .5 to their layers.
    assert outcome.layer_corruption.tolist() == [[0, 0], [0, 0], [0.5, 0], [0.5, 0.5]]


def test_a_play_without_a_layer_charges_none(scripted, outcome_of):
    layers = (0, 0, NO_LAYER, 0)
    outcome = outcome_of(scripted(REWARDS, SCRIPT, PROPOSALS, layers=layers))
    assert outcome.layer_corruption[-1].tolist() == [0.5]


def test_the_two_regrets_may_differ_by_twice_the_corruption(scripted, outcome_of):
    # One round turned from (0, 1) to (1, 0), at cost 1, while the learner plays arm 1: the best
    # total rises by 1 and what was collected falls by 1.
    outcome = outcome_of(scripted([[0, 1], [1, 0]], [1, 1], [(1.0, 0.0)]))
    assert outcome.corruption[-1] == 1.0
    assert outcome.regret[-1] - outcome.clean_regret[-1] == 2.0


@pytest.mark.parametrize(
    ("budget", "proposals", "spent"),
    [
        (2.0, PROPOSALS, [0.75, 0.75, 1.5, 2.0]),  # an action that fits exactly is applied
        (1.25, PROPOSALS, [0.75, 0.75, 0.75, 1.25]),  # pays for the first and the last
        (math.nextafter(0.75, 0), PROPOSALS[:1], [0.0] * 4),
        (0.0, PROPOSALS, [0.0] * 4),
        (100.0, [(NAN, NAN), (1.0, 1.0)], [0.0, 1.0, 1.0, 1.0]),  # it goes on after a refusal
        (100.0, [(0.0, 1.0)], [1.0] * 4),  # the ends of the interval are legal
        (100.0, [tuple(row) for row in REWARDS], [0.0] * 4),  # no effect, no cost
    ],
)
def test_what_is_spent(scripted, outcome_of, budget, proposals, spent):
    outcome = outcome_of(scripted(REWARDS, SCRIPT, proposals, budget=budget))
    assert outcome.corruption.tolist() == spent
    if not spent[-1]:
        assert outcome.arm_corruption[-1].tolist() == [0.0, 0.0]
        assert outcome.regret.tolist() == outcome.clean_regret.tolist()


def test_an_action_that_does_not_fit_is_not_applied_at_all(scripted, outcome_of, parts_after):
    experiment = scripted(REWARDS, SCRIPT, PROPOSALS, budget=1.25)
    assert outcome_of(experiment).arm_corruption[-1].tolist() == [0.75, 0.5]
    assert parts_after(experiment).policy.rewards.tolist() == [0.5, 0.0, 1.0, 0.0]


ILLEGAL = [(NAN, 0.5), (1.0, NAN), (NAN, NAN), (0.5, NAN), (NAN, 0.25), (INFINITY, 0.5)]
ILLEGAL += [(-INFINITY, 0.5), (1.0, 1.0 + 2**-52), (-(2.0**-1074), 0.5), (0.5, 2.0), (0.5, -0.5)]


@pytest.mark.parametrize("proposal", ILLEGAL, ids=str)
def test_rewards_outside_the_unit_interval_are_refused_entirely(
    scripted, outcome_of, parts_after, proposal
):
    experiment = scripted(REWARDS, [0, 1, 0, 1], [proposal])
    outcome = outcome_of(experiment)
    assert outcome.corruption[-1] == 0.0
    assert outcome.arm_corruption[-1].tolist() == [0.0, 0.0]
    assert outcome.regret.tolist() == outcome.clean_regret.tolist()
    assert parts_after(experiment).policy.rewards[0] == REWARDS[0][0]


def test_learner_and_attack_are_shown_what_is_theirs(scripted, parts_after):
    parts = parts_after(scripted(REWARDS, SCRIPT, PROPOSALS, budget=3.0))
    assert parts.policy.rewards.tolist() == [0.5, 0.0, 0.5, 0.0]  # corrupted, of its arms
    assert parts.adversary.shown_left.tolist() == [3.0, 2.25, 2.25, 1.5]
    assert parts.adversary.shown_rewards.tolist() == REWARDS
    assert parts.adversary.shown_weights.argmax(axis=1).tolist() == SCRIPT
    assert parts.adversary.shown_weights.sum(axis=1).tolist() == [1.0] * 4
    assert parts.adversary.seen_arms.tolist() == SCRIPT
    assert parts.adversary.seen_rewards.tolist() == [0.5, 0.0, 0.5, 0.0]


def test_a_spent_attack_is_left_out(scripted, parts_after):
    parts = parts_after(scripted(REWARDS, SCRIPT, PROPOSALS, budget=0.75))
    assert np.isnan(parts.adversary.shown_left).tolist() == [False, True, True, True]


@pytest.mark.parametrize(("budget", "asked"), [(1.25, False), (1.5, True)])
def test_an_attack_is_left_out_once_its_smallest_change_does_not_fit(
    scripted, parts_after, budget, asked
):
    # Changes of .5 in rounds 1 and 3 leave .25 or .5; another one would take .5.
    proposals = [(0.5, 0.5), None, (0.5, 0.25), None]
    parts = parts_after(scripted(REWARDS, SCRIPT, proposals, budget=budget, smallest=0.5))
    assert np.isnan(parts.adversary.shown_left).tolist() == [False, False, False, not asked]
    assert parts.adversary.seen_arms.tolist() == [*SCRIPT[:3], SCRIPT[3] if asked else -1]
    assert parts.ledger.charged.tolist() == [1.0, budget]


def test_whether_a_change_fits_is_asked_as_it_is_charged(scripted, outcome_of):
    # .7 - .6 is below .1 in binary, yet .6 + .1 is .7: the seventh change is paid for.
    rounds = 9
    experiment = scripted(
        [[0.1, 0.0]] * rounds, [0] * rounds, [(0.0, 0.0)] * rounds, budget=0.7, smallest=0.1
    )
    assert 0.7 - 0.6 < 0.1
    assert outcome_of(experiment).corruption[-1] == 0.7


def test_a_long_run_is_summed_across_the_engines_chunks(scripted, outcome_of):
    # 600 rounds of (1, 0), every third turned to (0, 1), arms played in turn.
    rounds = 600
    proposals = [(0.0, 1.0) if number % 3 == 0 else None for number in range(rounds)]
    script = [number % 2 for number in range(rounds)]
    outcome = outcome_of(scripted([[1.0, 0.0]] * rounds, script, proposals, budget=1000))
    # Corrupted totals (400, 200). Arm 0 is played in even rounds, of which 100 are turned; arm
    # 1 in odd ones, of which 100 are turned: collected 200 + 100 corrupted, 300 clean.
    assert outcome.regret[-1] == 100.0
    assert outcome.clean_regret[-1] == 300.0
    assert outcome.corruption[-1] == 200.0
    assert outcome.arm_corruption[-1].tolist() == [200.0, 200.0]
    assert outcome.layer_corruption[-1].tolist() == [200.0]
    assert outcome.pulls[-1].tolist() == [300, 300]
