"""LB-INF against values computed by hand and its textbook form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from armrace.checking import check_policy
from armrace.kernels.generics import Ticket, assign, decide, learn
from armrace.policies.lb_inf import LbInf
from armrace.randomness import Purpose, stream_for
from armrace.simulation import simulate
from playing import (
    final_state,
    is_sound,
    make_table,
    play,
    play_textbook,
    probabilities,
    ticket_for,
)


def test_three_rounds_as_computed_by_hand():
    """By bisection of the derivative along the two arms' simplex: losses 1, 1/4 and 1/2."""
    state = LbInf().start(arms=2, horizon=100)
    weights = [probabilities(state, 2)]
    for arm, loss in ((0, 1.0), (1, 0.25), (0, 0.5)):
        ticket = assign(state, Ticket(arm=arm, probability=weights[-1][arm]))
        learn(state, ticket, 1 - loss)
        weights.append(probabilities(state, 2))
    first = [pair[0] for pair in weights]
    assert first == pytest.approx([0.5, 0.431138, 0.39549525, 0.40433937], abs=5e-9)
    assert state.scales == pytest.approx([2.00433188, 2.00433188], abs=5e-9)
    assert state.estimates.predictions.tolist() == [0.59375, 0.4375]
    assert state.estimates.losses == pytest.approx([2.43394058, 0.9980261], abs=5e-9)


class Textbook:
    def __init__(self, arms, horizon, rate):
        self.losses, self.predictions = np.zeros(arms), np.full(arms, 0.5)
        self.scales, self.log_horizon, self.rate = np.full(arms, 2.0), math.log(horizon), rate

    def weights(self):
        expected = self.losses + self.predictions
        low, high = expected.min() - self.scales.sum(), expected.min()
        for _ in range(200):
            x = (low + high) / 2
            low, high = (x, high) if (self.scales / (expected - x)).sum() < 1 else (low, x)
        return self.scales / (expected - low)

    def learn(self, arm, weights, reward):
        played, error = np.arange(weights.size) == arm, 1 - reward - self.predictions[arm]
        self.losses += self.predictions + played * error / weights
        variation = error**2 * np.where(played, 1 - weights, weights) ** 2
        self.scales += variation / (2 * self.scales * self.log_horizon)
        self.predictions[arm] += self.rate * error


@pytest.mark.parametrize("rate", [0.25, 0.0])
def test_plays_as_printed(rate):
    table = make_table(1000)
    textbook = Textbook(4, 1000, rate)
    arms, state = play(LbInf(prediction_rate=rate), table)
    assert arms == play_textbook(textbook, table)
    assert state.estimates.losses == pytest.approx(textbook.losses, rel=1e-8)
    assert state.scales == pytest.approx(textbook.scales, rel=1e-8)


def test_late_feedback_leaves_the_estimate_unbiased():
    """A decision's expected addition to an arm's estimate is the arm's loss, whenever it comes."""
    true, weights = (0.9, 0.3, 0.6), None
    added = np.zeros(3)
    for arm in range(3):
        state = LbInf().start(arms=3, horizon=1000)
        state.estimates.losses[:] = 30.0, 0.0, 10.0
        state.estimates.predictions[:] = 0.7, 0.1, 0.4
        weights = probabilities(state, 3)
        before = state.estimates.losses.copy()
        ticket = ticket_for(state, arm)
        charged = state.estimates.losses - before
        stream = stream_for(1, Purpose.LEARNER, 0)
        for _ in range(50):
            learn(state, decide(state, stream), 0.5)
        before = state.estimates.losses.copy()
        learn(state, ticket, 1 - true[arm])
        added += weights[arm] * (charged + state.estimates.losses - before)
    assert added == pytest.approx(true, rel=1e-9)


def test_keeps_the_contract():
    check_policy(LbInf())


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_many_extreme_rounds_leave_it_sound(mean):
    assert is_sound(final_state(LbInf(), [mean] * 3, 10**5), 3)


def test_a_thousand_arms():
    assert is_sound(final_state(LbInf(), np.linspace(0, 1, 1000), 3000), 1000)


@pytest.mark.parametrize(("rate", "factor"), [(0.25, 36), (0.0, 9)])
def test_mean_regret_is_below_its_bound_without_corruption(rate, factor):
    """The bound is on the expectation; the mean of 20 runs is 10 standard errors below it."""
    horizon = 20_000
    result = simulate(
        LbInf(prediction_rate=rate), [0.6, 0.4, 0.4, 0.4], horizon=horizon, replications=20
    )
    logarithm, inverse = math.log(horizon), 3 / 0.2
    bound = factor * inverse * logarithm + 12 * logarithm
    bound += math.sqrt(factor) * math.sqrt(inverse * 12 * logarithm * logarithm)
    figure = result.figure("pseudo_regret")
    assert 0 < figure.mean < bound - 10 * figure.stderr
