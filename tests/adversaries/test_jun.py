"""Jun et al.: the published amount, clipped and carried, and which arms are lowered."""

import numpy as np
import pytest

from armrace.adversaries import Setting
from armrace.adversaries.poisoning import JunGreedy, JunUcb, deviation, excess_over_allowed
from armrace.errors import InvalidParameter
from armrace.kernels.generics import observe
from proposals import SETTING, ledger_of, strike


def played(pulls, clean_sums, **parameters):
    setting = Setting(np.array([0.9, 0.5]), 1000, 100.0)
    state = JunUcb(target=1, **parameters).start(setting)
    state.tally.pulls[:] = pulls
    state.tally.clean_sums[:] = state.tally.paid_sums[:] = clean_sums
    return state


def excess(state):
    return excess_over_allowed(state.tally, 1, state.margin, state.delta, 0, 0.9)


@pytest.mark.parametrize(("pulls", "value"), [(10, 0.688654), (50, 0.356424), (100, 0.265425)])
def test_deviations_as_computed_by_hand(pulls, value):
    assert deviation(pulls, 2, 0.05) == pytest.approx(value, abs=5e-7)


def test_the_amount_is_the_published_one():
    """The tenth play of an arm with mean 0.9 throughout; the target has 100 plays of mean 0.5."""
    state = played((9, 100), (8.1, 50.0), margin=0.1)
    assert excess(state) == pytest.approx(10.3085, abs=5e-5)


def test_the_margin_is_the_deviation_of_rewards_in_the_unit_interval_by_default():
    """9 - 10 (0.5 - 2 x 0.265425 - 0.5) = 14.3085."""
    assert JunUcb().margin == 0.5
    state = played((9, 100), (8.1, 50.0))
    assert excess(state) == pytest.approx(14.3085, abs=5e-5)


def test_no_more_is_taken_than_the_reward_and_the_rest_is_carried():
    state = played((9, 100), (8.1, 50.0))
    assert strike(state, [0.9, 0.5], [1.0, 0.0]) == [0.0, 0.5]
    observe(state, 0, 0, 0.0)
    assert state.tally.clean_sums.tolist() == pytest.approx([9.0, 50.0])
    assert state.tally.paid_sums.tolist() == [8.1, 50.0]
    allowed = 0.5 - 0.5 - 2 * deviation(100, 2, 0.05)
    assert excess(state) == pytest.approx(8.1 + 0.9 - 11 * allowed)


def test_no_more_is_taken_than_the_budget_has():
    assert strike(played((9, 100), (8.1, 50.0)), [0.9, 0.5], left=0.25, weights=[1, 0]) == [
        pytest.approx(0.65),
        0.5,
    ]


def test_what_the_engine_refused_is_not_taken_for_applied():
    state = played((9, 100), (8.1, 50.0))
    strike(state, [0.9, 0.5], [1.0, 0.0])
    observe(state, 0, 0, 0.9)
    assert state.tally.paid_sums[0] == pytest.approx(9.0)


def test_arms_that_cannot_be_played_and_the_target_are_left_alone():
    state = played((9, 100), (8.1, 50.0))
    assert strike(state, [0.9, 0.5], [0.0, 1.0]) == [0.9, 0.5]
    assert strike(played((9, 0), (8.1, 0.0)), [0.9, 0.5], [1.0, 0.0]) == [0.9, 0.5]


def test_ucb_ends_on_the_target_at_a_small_price():
    """One fixed seed; without the attack the target has fewer than 2,000 of the plays."""
    ledger = ledger_of(JunUcb())
    assert ledger.pulls[1] > 18_000
    assert ledger.corruption[0] < 400


def test_the_target_must_be_an_arm():
    with pytest.raises(InvalidParameter, match="target must be an arm"):
        JunUcb(target=3).start(SETTING)


def greedy(pulls=(400, 10_000, 5), sums=(200.0, 5000.0, 4.0)):
    state = JunGreedy(target=1).start(Setting(np.array([0.9, 0.5, 0.4]), 1000, 100.0))
    state.tally.pulls[:] = pulls
    state.tally.clean_sums[:] = state.tally.paid_sums[:] = sums
    return state


def test_the_greedy_amount_is_the_published_one():
    state = greedy()
    allowed = 0.5 - 2 * deviation(10_000, 3, 0.05)
    found = excess_over_allowed(state.tally, 1, 0.0, state.delta, 0, 1.0)
    assert found == pytest.approx(201 - 401 * allowed)


def test_after_the_attack_the_mean_is_just_what_is_allowed():
    allowed = 0.5 - 2 * deviation(10_000, 3, 0.05)
    state = greedy(sums=(401 * allowed - 0.6, 5000.0, 4.0))
    paid = strike(state, [1.0, 0.5, 0.4], [0.9, 0.05, 0.05])
    assert paid[0] == pytest.approx(0.6)
    observe(state, 0, 0, paid[0])
    assert state.tally.paid_sums[0] / state.tally.pulls[0] == pytest.approx(allowed)


def test_only_the_likeliest_arm_is_attacked():
    assert strike(greedy(), [1.0, 0.5, 0.4], [0.9, 0.05, 0.05])[1:] == [0.5, 0.4]
    assert strike(greedy(), [1.0, 0.5, 0.4], [0.05, 0.05, 0.9]) == [1.0, 0.5, 0.0]


def test_no_arm_is_attacked_while_the_target_is_the_likeliest_or_unknown():
    assert strike(greedy(), [1.0, 0.5, 0.4], [0.05, 0.9, 0.05]) == [1.0, 0.5, 0.4]
    assert strike(greedy(pulls=(400, 0, 5)), [1.0, 0.5, 0.4], [0.9, 0.05, 0.05]) == [1.0, 0.5, 0.4]


def unbounded(attack):
    setting = Setting(np.array([1.0, 0.0]), 1000, 100.0, low=-np.inf, high=np.inf)
    state = attack.start(setting)
    state.tally.pulls[:] = 9, 100
    state.tally.clean_sums[:] = state.tally.paid_sums[:] = 9.0, 0.0
    return state


def test_where_rewards_are_unbounded_all_of_the_amount_is_taken():
    """With sigma = 0.1, b(100) = 0.053085: 10 - 10 (0 - 0.2 x 0.53085 - 0.1) = 12.0617."""
    state = unbounded(JunUcb(target=1, sigma=0.1, margin=0.1))
    paid = strike(state, [1.0, 0.0], [1.0, 0.0], left=1e9)
    assert paid == [pytest.approx(1.0 - 12.0617, abs=5e-5), 0.0]


def test_the_original_greedy_attack_lowers_whatever_may_be_played():
    state = unbounded(JunGreedy(target=1, sigma=0.1, strikes="all"))
    paid = strike(state, [1.0, 0.0], [0.05, 0.95], left=1e9)
    assert paid == [pytest.approx(1.0 - 11.0617, abs=5e-5), 0.0]
    usual = unbounded(JunGreedy(target=1, sigma=0.1))
    assert strike(usual, [1.0, 0.0], [0.05, 0.95], left=1e9) == [1.0, 0.0]
