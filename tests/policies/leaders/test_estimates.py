"""Estimated losses and gains, predictions, and the probabilities that follow from them."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, assign, decide, learn
from armrace.policies import POLICIES
from armrace.policies.leaders.estimates import (
    LOGARITHMIC_BARRIER,
    TSALLIS_ENTROPY,
    add_loss,
    add_reward,
    exponential_weights,
    fill_probabilities,
    make_gains,
    power_weights,
    restart_gains,
)
from armrace.randomness import Purpose, stream_for
from playing import probabilities

POWERS = (LOGARITHMIC_BARRIER, TSALLIS_ENTROPY)
LOSSES = {
    "equal": np.zeros(10),
    "two": np.array([2.0, 0.0]),
    "negative": np.array([-30.0, 5.0, 7.0]),
    "far apart": np.array([0.0, 1e9, 1e3, 1e-3]),
    "far from zero": 1e12 + np.arange(5.0),
    "many": np.random.default_rng(0).exponential(50, 1000),
}


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("losses", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("scale", [1e-4, 0.1, 2.0])
@pytest.mark.parametrize("start", [0.0, -1e30, 1e30, -1.7])
def test_the_solution_has_its_form_whatever_the_start(power, losses, scale, start):
    out = np.empty(losses.size)
    normaliser = power_weights(losses, scale, power, start, out)
    assert out.sum() == pytest.approx(1, abs=1e-12)
    shifted = losses - losses.min()
    distance = out.max() ** (-1 / power)
    assert out == pytest.approx((scale * shifted + distance) ** -power, rel=1e-9)
    assert normaliser == pytest.approx(losses.min() - distance / scale, rel=1e-9)


def test_exponential_weights_of_losses_that_no_exponential_can_hold():
    out = np.empty(3)
    exponential_weights(np.array([1e9, 1e9 + 1, 1e12]), 0.5, out)
    assert out == pytest.approx([1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(0.5)), 0])


def test_a_loss_of_vanishing_probability_stays_finite():
    losses = np.zeros(2)
    add_loss(losses, 1, 1.0, 5e-324)
    assert losses == pytest.approx([0.0, 1e300])
    out = np.empty(2)
    power_weights(losses, 1.0, TSALLIS_ENTROPY, 0.0, out)
    assert out.tolist() == [1.0, 0.0]


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


def test_a_short_horizon_leaves_nothing_but_exploration():
    state = make_gains(4, 2, 1.0)
    state.gains[0] = 100.0
    out = np.empty(4)
    fill_probabilities(state, out)
    assert out.tolist() == [0.25] * 4


def test_a_restart_forgets_the_gains():
    state = make_gains(2, 100, 1.0)
    add_reward(state, 1, 0.5, 1.0)
    restart_gains(state, 50, 1.0)
    assert state.gains.tolist() == [0.0, 0.0]
    assert state.rates.tolist() == make_gains(2, 50, 1.0).rates.tolist()


def test_gains_beyond_any_exponential_leave_probabilities_sound():
    state = make_gains(2, 100, 1.0)
    state.gains[0] = 1e12
    out = np.empty(2)
    fill_probabilities(state, out)
    assert out.sum() == pytest.approx(1, abs=1e-12)
    assert out[1] > 0
