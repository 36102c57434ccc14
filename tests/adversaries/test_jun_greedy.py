"""Jun et al. on epsilon-greedy: the likeliest arm is brought below the target."""

from __future__ import annotations

import numpy as np
import pytest

from armrace.adversaries import Setting
from armrace.adversaries.attack_tally import deviation, excess_over_allowed
from armrace.adversaries.jun import JunGreedy
from armrace.kernels.generics import observe
from proposals import strike


def played(pulls=(400, 10_000, 5), sums=(200.0, 5000.0, 4.0)):
    state = JunGreedy(target=1).start(Setting(np.array([0.9, 0.5, 0.4]), 1000, 100.0))
    state.tally.pulls[:] = pulls
    state.tally.clean_sums[:] = state.tally.paid_sums[:] = sums
    return state


def test_the_amount_is_the_published_one():
    state = played()
    allowed = 0.5 - 2 * deviation(10_000, 3, 0.05)
    found = excess_over_allowed(state.tally, 1, 0.0, state.delta, 0, 1.0)
    assert found == pytest.approx(201 - 401 * allowed)


def test_after_the_attack_the_mean_is_just_what_is_allowed():
    allowed = 0.5 - 2 * deviation(10_000, 3, 0.05)
    state = played(sums=(401 * allowed - 0.6, 5000.0, 4.0))
    paid = strike(state, [1.0, 0.5, 0.4], [0.9, 0.05, 0.05])
    assert paid[0] == pytest.approx(0.6)
    observe(state, 0, 0, paid[0])
    assert state.tally.paid_sums[0] / state.tally.pulls[0] == pytest.approx(allowed)


def test_only_the_likeliest_arm_is_attacked():
    assert strike(played(), [1.0, 0.5, 0.4], [0.9, 0.05, 0.05])[1:] == [0.5, 0.4]
    assert strike(played(), [1.0, 0.5, 0.4], [0.05, 0.05, 0.9]) == [1.0, 0.5, 0.0]


def test_nobody_is_attacked_while_the_target_is_the_likeliest_or_unknown():
    assert strike(played(), [1.0, 0.5, 0.4], [0.05, 0.9, 0.05]) == [1.0, 0.5, 0.4]
    assert strike(played(pulls=(400, 0, 5)), [1.0, 0.5, 0.4], [0.9, 0.05, 0.05]) == [1.0, 0.5, 0.4]
