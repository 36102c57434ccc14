"""The family of two-phase attacks: each parameter does what it says."""

import numpy as np
import pytest

from armrace.adversaries import BlindTwoPhase, TwoPhase
from armrace.kernels.generics import corrupt, looks, observe
from armrace.randomness import Purpose, stream_for
from proposals import SETTING

STREAM = stream_for(1, Purpose.ADVERSARY, 0)
BUDGET = SETTING.budget
EVEN = np.full(3, 1 / 3)


def strike(state, rewards, weights=EVEN, round=0, left=BUDGET):
    changed = np.array(rewards, dtype=float)
    corrupt(state, round, np.array(weights, dtype=float), changed, left, STREAM)
    return changed.tolist()


def looked(state, rewards, round=0, left=BUDGET):
    return looks(state, round, np.array(rewards, dtype=float), left)


@pytest.mark.parametrize(
    ("action", "paid", "shown"),
    [
        ("zero", [0.5, 1.0, 0.25], [0.5, 0.0, 0.25]),
        ("swap", [0.5, 1.0, 0.25], [0.5, 0.25, 1.0]),
        ("double-impact", [0.5, 1.0, 0.25], [0.5, 0.0, 1.0]),
        ("double-impact", [0.5, 1.0, 0.75], [0.5, 1.0, 0.75]),
        ("double-impact", [0.5, 0.25, 0.25], [0.5, 0.25, 0.25]),
        ("free-ride", [0.5, 1.0, 0.25], [1.0, 0.0, 1.0]),
        ("spoil", [0.5, 1.0, 0.25], [0.0, 0.0, 0.0]),
        ("spoil-and-praise", [0.5, 1.0, 0.25], [0.0, 0.0, 1.0]),
    ],
)
def test_each_action_shows_what_it_says(action, paid, shown):
    assert strike(TwoPhase(first=action).start(SETTING), paid) == shown


def test_the_second_phase_begins_when_its_share_of_the_budget_is_left():
    state = TwoPhase(first="zero", second="spoil", split=0.75).start(SETTING)
    assert strike(state, [1, 1, 1], left=0.26 * BUDGET) == [1, 0, 1]
    assert strike(state, [1, 1, 1], left=0.25 * BUDGET) == [0, 0, 0]


@pytest.mark.parametrize(("probability", "struck"), [(0.29, False), (0.3, True), (0.61, False)])
def test_a_phase_strikes_within_its_window(probability, struck):
    state = TwoPhase(first_low=0.3, first_high=0.6).start(SETTING)
    weights = [1 - probability, probability, 0.0]
    assert (strike(state, [1, 1, 1], weights) == [1, 0, 1]) == struck


def test_once_it_strikes_it_goes_on_until_the_probability_has_fallen_further():
    state = TwoPhase(first_low=0.5, hysteresis=0.2).start(SETTING)
    struck = [
        strike(state, [1, 1, 1], [1 - w, w, 0]) == [1, 0, 1] for w in (0.4, 0.5, 0.31, 0.29, 0.4)
    ]
    assert struck == [False, True, True, False, False]


def test_only_changes_that_show_are_made():
    # Zeroing the best arm, which pays 1, is seen with the probability of that arm.
    state = TwoPhase(first_visible=0.4).start(SETTING)
    assert strike(state, [1, 1, 1], [0.6, 0.4, 0.0]) == [1, 0, 1]
    assert strike(state, [1, 1, 1], [0.61, 0.39, 0.0]) == [1, 1, 1]


def test_it_stops_when_the_observed_means_are_as_far_apart_as_the_margin_says():
    state = TwoPhase(first_margin=-0.25).start(SETTING)
    observe(state, 0, 2, 1.0)  # the decoy's mean becomes (1/2 + 1)/2 = 3/4, the best arm's is 1/2
    assert strike(state, [1, 1, 1]) == [1, 0, 1]
    observe(state, 1, 2, 1.0)  # (1/2 + 2)/3 = 5/6
    assert strike(state, [1, 1, 1]) == [1, 1, 1]


def test_it_waits_for_its_start_and_wakes_for_the_second_phase():
    attack = TwoPhase(first="zero", second="spoil", split=0.5, start_at=0.1, wake_at=0.5)
    state, horizon = attack.start(SETTING), SETTING.horizon
    assert strike(state, [1, 1, 1], round=horizon // 10 - 1) == [1, 1, 1]
    assert strike(state, [1, 1, 1], round=horizon // 10) == [1, 0, 1]
    assert strike(state, [1, 1, 1], round=horizon // 2 - 1, left=0.4 * BUDGET) == [1, 1, 1]
    assert strike(state, [1, 1, 1], round=horizon // 2, left=0.4 * BUDGET) == [0, 0, 0]


def test_the_pace_limits_what_is_spent_by_a_round():
    state = TwoPhase(pace=0.1).start(SETTING)
    assert strike(state, [1, 1, 1], round=9, left=BUDGET - 1.0) == [1, 0, 1]
    assert strike(state, [1, 1, 1], round=9, left=BUDGET - 1.1) == [1, 1, 1]


@pytest.mark.parametrize(("decoy", "arm"), [("runner-up", 2), ("worst", 0), ("likeliest", 0)])
def test_the_decoy_is_the_arm_that_is_asked_for(decoy, arm):
    state = TwoPhase(first="spoil-and-praise", decoy=decoy).start(SETTING)
    shown = strike(state, [0, 1, 0], [0.5, 0.3, 0.2])
    assert shown.index(1.0) == arm


def test_the_blind_form_goes_by_the_plays_it_saw():
    state = BlindTwoPhase(first_low=0.5).start(SETTING)
    blind = [0.0, 0.0, 0.0]
    assert strike(state, [1, 1, 1], blind) == [1, 1, 1]
    for number in range(60):
        observe(state, number, 1, 1.0)
    assert strike(state, [1, 1, 1], blind) == [1, 0, 1]
    assert state.shares.sum() == pytest.approx(1.0)


def test_it_looks_only_in_rounds_in_which_the_distribution_decides():
    always = TwoPhase().start(SETTING)
    assert not looked(always, [1, 1, 1])
    window = TwoPhase(first="double-impact", first_low=0.5, start_at=0.5).start(SETTING)
    late = SETTING.horizon // 2
    assert not looked(window, [0, 1, 0], round=late - 1)
    assert looked(window, [0, 1, 0], round=late)
    assert not looked(window, [0, 0, 0], round=late)
    assert not looked(window, [0, 1, 1], round=late)


def test_what_it_does_in_a_round_without_a_look_does_not_depend_on_the_distribution():
    generator = np.random.default_rng(3)
    attack = TwoPhase(first="double-impact", second="spoil", split=0.5, first_low=0.4, pace=0.5)
    unseen = 0
    for number in range(300):
        state = attack.start(SETTING)
        rewards = generator.integers(0, 2, 3).astype(float)
        left = float(generator.uniform(0, BUDGET))
        if not looked(state, rewards, number % 90, left):
            unseen += 1
            shown = [
                strike(attack.start(SETTING), rewards, w, number % 90, left)
                for w in generator.dirichlet(np.ones(3), 4)
            ]
            assert all(each == shown[0] for each in shown)
    assert unseen > 50


@pytest.mark.parametrize("low", [0.0, 0.2])
def test_it_strikes_only_in_rounds_in_which_the_best_arm_pays_enough(low):
    state = TwoPhase(first="free-ride", first_pays=0.5, first_low=low).start(SETTING)
    assert strike(state, [1, 0.5, 0]) == [1, 0, 1]
    assert strike(state, [1, 0.25, 0]) == [1, 0.25, 0]
    assert not looked(state, [1, 0.25, 0])
    assert looked(state, [1, 0.5, 0]) == (low > 0)


@pytest.mark.parametrize("low", [0.0, 0.2])
def test_a_strength_below_1_moves_rewards_a_part_of_the_way(low):
    state = TwoPhase(first="free-ride", first_strength=0.25, first_low=low).start(SETTING)
    assert strike(state, [0.0, 1.0, 0.5]) == [0.25, 0.75, 0.625]


@pytest.mark.parametrize("low", [0.0, 0.2])
def test_a_double_impact_of_all_decoys_waits_until_none_of_them_pays(low):
    state = TwoPhase(first="double-impact", first_low=low, decoy="all").start(SETTING)
    assert strike(state, [0.5, 1.0, 0.25]) == [1.0, 0.0, 1.0]
    assert strike(state, [0.0, 0.25, 0.0]) == [0.0, 0.25, 0.0]


def test_the_third_phase_begins_when_the_second_has_spent_its_share():
    attack = TwoPhase(second="spoil", split=0.5, second_split=0.5, third="free-ride")
    state = attack.start(SETTING)
    assert strike(state, [1, 1, 1], left=0.26 * BUDGET) == [0, 0, 0]
    assert strike(state, [1, 1, 1], left=0.25 * BUDGET) == [1, 0, 1]
    assert attack.phases() == {"first": 0.5, "second": 0.25, "third": 0.25}


def test_a_part_of_a_change_costs_a_part():
    quarter = TwoPhase(first_strength=0.25)
    setting = SETTING._replace(support=np.array([[0.0, 1.0]] * 3))
    assert quarter.smallest_cost(quarter.start(setting), setting) == 0.25
