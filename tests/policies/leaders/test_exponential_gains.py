"""EXP3.P's step: the published rates, and gains that a late reward cannot bias."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import uniform
from armrace.policies.leaders.exponential_gains import (
    add_bonuses,
    add_reward,
    fill_probabilities,
    gain_probabilities,
    make_gains,
    restart_gains,
)
from armrace.randomness import Purpose, stream_for
from textbook_switching import TextbookExp3P, draw


def test_rates_are_those_of_the_theorem():
    bonus, rate, exploration = make_gains(10, 10**4, math.log(10 / 0.01)).rates
    assert bonus == pytest.approx(0.00831129, abs=5e-9)
    assert rate == pytest.approx(0.00455860, abs=5e-9)
    assert exploration == pytest.approx(0.0503845, abs=5e-8)


def test_a_short_horizon_leaves_nothing_but_exploration():
    state = make_gains(4, 2, 1.0)
    state.gains[0] = 100.0
    out = np.empty(4)
    fill_probabilities(state, out)
    assert out.tolist() == [0.25] * 4


def test_gains_and_probabilities_are_those_of_the_textbook():
    arms, horizon = 3, 400
    printed = TextbookExp3P(arms, horizon, math.log(arms / 0.1))
    state = make_gains(arms, horizon, math.log(arms / 0.1))
    ours, theirs = (stream_for(3, Purpose.LEARNER, 0) for _ in range(2))
    rewards = np.random.default_rng(3).random((horizon, arms))
    for row in rewards:
        weights = gain_probabilities(state).copy()
        arm = draw_arm(weights, 1.0, ours)
        assert arm == draw(printed.weights(), uniform(theirs))
        assert weights.tolist() == pytest.approx(printed.weights(), rel=1e-12)
        add_bonuses(state)
        add_reward(state, arm, weights[arm], row[arm])
        printed.update(arm, row[arm])
    assert state.gains.tolist() == pytest.approx(printed.gains, rel=1e-12)


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
