"""The logarithmic barrier against hand-computed values and the mirror step as printed."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, learn
from armrace.policies.log_barrier import LogBarrier
from playing import make_table, play, play_textbook, probabilities


def state_with(weights, rate):
    """A state with these probabilities: losses 1/(rate w) make them so, up to a constant."""
    state = LogBarrier(learning_rate=rate).start(len(weights), 100)
    state.estimates.losses[:] = 1 / (rate * np.array(weights))
    state.weights[:] = weights
    state.estimates.normaliser[0] = 0.0
    return state


@pytest.mark.parametrize(
    ("weights", "arm", "expected"),
    [
        ((0.5, 0.5), 0, (0.475062, 0.524938)),
        ((0.2, 0.3, 0.5), 1, (0.202945, 0.278233, 0.518822)),
    ],
)
def test_a_step_as_computed_by_hand(weights, arm, expected):
    state = state_with(weights, 0.1)
    learn(state, Ticket(arm, 0, weights[arm]), 0.0)
    assert probabilities(state, len(weights)) == pytest.approx(expected, abs=5e-7)


def test_the_multiplier_as_computed_by_hand():
    state = state_with((0.5, 0.5), 0.1)
    learn(state, Ticket(0, 0, 0.5), 0.0)
    assert state.estimates.normaliser[0] == pytest.approx(0.950124, abs=5e-7)


def test_learning_rate_by_default():
    assert LogBarrier().start(10, 10**6).learning_rate == pytest.approx(
        math.sqrt(10 * math.log(10**6) / 10**6)
    )
    assert LogBarrier().start(10, 10).learning_rate == 0.5


class Textbook:
    def __init__(self, arms, rate):
        self.current, self.rate = np.full(arms, 1 / arms), rate

    def weights(self):
        return self.current

    def learn(self, arm, weights, reward):
        estimate = np.zeros(weights.size)
        estimate[arm] = (1 - reward) / weights[arm]
        low = estimate.min()
        high = min(estimate.max(), (estimate + 1 / (self.rate * weights)).min())
        for _ in range(200):
            middle = (low + high) / 2
            if self.step(estimate, middle).sum() < 1:
                low = middle
            else:
                high = middle
        self.current = self.step(estimate, low)

    def step(self, estimate, multiplier):
        return 1 / (1 / self.current + self.rate * (estimate - multiplier))


def test_plays_as_printed():
    table = make_table(1000)
    textbook = Textbook(4, 0.05)
    arms, state = play(LogBarrier(learning_rate=0.05), table)
    assert arms == play_textbook(textbook, table)
    assert probabilities(state, 4) == pytest.approx(textbook.current, rel=1e-6)
