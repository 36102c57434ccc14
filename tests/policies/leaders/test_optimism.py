"""What all leaders with predictions share: late feedback without bias, and sound states."""

from __future__ import annotations

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, assign, decide, learn
from armrace.policies import POLICIES
from armrace.randomness import Purpose, stream_for
from playing import final_state, is_sound, probabilities

LEADERS = ("lb-inf", "lb-inf-v", "optimistic-log-barrier")


@pytest.mark.parametrize("name", LEADERS)
def test_late_feedback_leaves_the_estimate_unbiased(name):
    """A decision's expected addition to an arm's estimate is the arm's loss, whenever it comes."""
    true, added = (0.9, 0.3, 0.6), np.zeros(3)
    for arm in range(3):
        state = POLICIES.make(name).start(arms=3, horizon=1000)
        losses = state.estimates.losses
        losses[:] = 30.0, 0.0, 10.0
        state.estimates.predictions[:] = 0.7, 0.1, 0.4
        weights = probabilities(state, 3)
        before = losses.copy()
        ticket = assign(state, Ticket(arm=arm, probability=weights[arm]))
        charged = losses - before
        stream = stream_for(1, Purpose.LEARNER, 0)
        for _ in range(50):
            learn(state, decide(state, stream), 0.5)
        before = losses.copy()
        learn(state, ticket, 1 - true[arm])
        added += weights[arm] * (charged + losses - before)
    assert added == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("name", LEADERS)
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_many_extreme_rounds_leave_them_sound(name, mean):
    assert is_sound(final_state(name, [mean] * 3, 10**5), 3)


@pytest.mark.parametrize("name", LEADERS)
def test_a_thousand_arms(name):
    assert is_sound(final_state(name, np.linspace(0, 1, 1000), 3000), 1000)
