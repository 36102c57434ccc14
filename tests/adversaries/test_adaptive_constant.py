"""ACE: estimated differences, as large as they may be."""

import numpy as np
import pytest

from armrace.adversaries import Setting
from armrace.adversaries.poisoning import AdaptiveConstant, largest_lead
from armrace.kernels.generics import observe
from proposals import ledger_of, strike


def played(pulls=(49, 100), clean_sums=(29.4, 50.0)):
    state = AdaptiveConstant(target=1).start(Setting(np.array([0.6, 0.5]), 1000, 100.0))
    state.tally.pulls[:] = pulls
    state.tally.clean_sums[:] = clean_sums
    return state


def test_the_amount_as_computed_by_hand():
    """With the current reward the arm has 50 plays of mean 0.6; the target has 100 of mean 0.5.

    The sum of the unrounded terms; rounding each first would give a last digit more.
    """
    assert largest_lead(played(), 0, 0.6) == pytest.approx(0.721848, abs=5e-7)


def test_it_takes_that_much_and_learns_from_rewards_before_corruption():
    state = played(clean_sums=(29.0, 50.0))
    paid = strike(state, [1.0, 0.5], [1.0, 0.0])
    assert paid == pytest.approx([1 - 0.721848, 0.5], abs=1e-6)
    observe(state, 0, 0, paid[0])
    assert state.tally.clean_sums[0] == 30.0


def test_the_first_play_of_an_arm_is_attacked():
    """b(1) = 1.562007: ln(pi^2 2/0.15) = 4.879733, half of it 2.439866, and its root."""
    state = played(pulls=(0, 100), clean_sums=(0.0, 50.0))
    assert largest_lead(state, 0, 1.0) == pytest.approx(0.5 + 1.562007 + 0.265425, abs=2e-6)
    assert strike(state, [1.0, 0.5], [1.0, 0.0]) == [0.0, 0.5]


def test_it_waits_until_the_target_was_played():
    state = played(pulls=(50, 0), clean_sums=(30.0, 0.0))
    assert strike(state, [1.0, 0.5], [1.0, 0.0]) == [1.0, 0.5]


def test_ucb_ends_on_the_target_at_a_small_price():
    """One fixed seed; without the attack the target has fewer than 2,000 of the plays."""
    ledger = ledger_of(AdaptiveConstant())
    assert ledger.pulls[1] > 19_000
    assert ledger.corruption[0] < 200


def test_sigma_scales_the_deviations_and_unbounded_rewards_lose_all_of_it():
    """0.1 + 0.2 (0.356424 + 0.265425) = 0.22437, from a reward of 0.1 that may fall below 0."""
    setting = Setting(np.array([0.6, 0.5]), 1000, 9.0, low=-np.inf, high=np.inf)
    state = AdaptiveConstant(target=1, sigma=0.1).start(setting)
    state.tally.pulls[:] = 49, 100
    state.tally.clean_sums[:] = 29.9, 50.0
    paid = strike(state, [0.1, 0.5], [1.0, 0.0], left=9.0)
    assert paid[0] == pytest.approx(0.1 - 0.22437, abs=5e-6)
