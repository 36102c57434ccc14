"""LB-INF-V against values computed by hand and its textbook form."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from armrace.kernels.generics import Ticket, learn
from armrace.policies.lb_inf import LbInfV
from playing import make_table, play, play_textbook, three_rounds


def test_three_rounds_as_computed_by_hand():
    """By bisection of the derivative along the two arms' simplex: losses 1, 1/4 and 1/2."""
    first, state = three_rounds(LbInfV(epsilon=0.25))
    assert first == pytest.approx([0.5, 0.46132231, 0.43686538, 0.44486851], abs=5e-9)
    assert state.scales == pytest.approx([1.27405833, 1.25374262], abs=5e-9)
    assert state.estimates.predictions == pytest.approx([2 / 3, 0.375])
    assert state.estimates.losses == pytest.approx([2.42774133, 0.91090058], abs=5e-9)


def test_a_likely_arm_counts_less_of_its_errors():
    """With probability 0.9 and T = 100 it is 0.2/(0.81 ln 100) of the squared error 1/4."""
    state = LbInfV().start(arms=2, horizon=100)
    learn(state, Ticket(arm=0, probability=0.9, memo=0.5), 0.0)
    assert state.variations[0] == pytest.approx(0.25 * 0.0536168, rel=1e-5)


class Textbook:
    def __init__(self, arms, horizon, epsilon):
        self.losses, self.predictions = np.zeros(arms), np.full(arms, 0.5)
        self.variation, self.log_horizon = np.zeros(arms), math.log(horizon)
        self.lost, self.plays, self.epsilon = np.zeros(arms), np.zeros(arms), epsilon

    def scales(self):
        return np.sqrt((1 + self.epsilon) ** 2 + self.variation / self.log_horizon)

    def inverse(self, targets):
        """The weights at which the barrier has these slopes, by bisection of their logits."""
        low, high = np.full(targets.size, -60.0), np.full(targets.size, 30.0)
        for _ in range(55):  # a double has no more bits
            logits = (low + high) / 2
            slopes = -np.exp(-logits) + self.log_horizon * np.log1p(np.exp(logits))
            low = np.where(slopes < targets, logits, low)
            high = np.where(slopes < targets, high, logits)
        return 1 / (1 + np.exp(-low))

    def weights(self):
        expected, scales = self.losses + self.predictions, self.scales()
        least = expected.min()
        x = brentq(
            lambda x: self.inverse((x - expected) / scales).sum() - 1, least - 1e3, least + 1e3,
            xtol=1e-13,
        )  # fmt: skip
        return self.inverse((x - expected) / scales)

    def learn(self, arm, weights, reward):
        p, error = weights[arm], 1 - reward - self.predictions[arm]
        self.losses += self.predictions
        self.losses[arm] += error / p
        self.variation[arm] += error**2 * min(1, 2 * (1 - p) / (p * p * self.log_horizon))
        self.lost[arm] += 1 - reward
        self.plays[arm] += 1
        self.predictions[arm] = (0.5 + self.lost[arm]) / (1 + self.plays[arm])


def test_plays_as_printed():
    table = make_table(200)
    textbook = Textbook(4, 200, 0.25)
    arms, state = play(LbInfV(), table)
    assert arms == play_textbook(textbook, table)
    assert state.estimates.losses == pytest.approx(textbook.losses, rel=1e-8)
    assert state.scales == pytest.approx(textbook.scales(), rel=1e-8)
