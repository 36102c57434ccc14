"""BROAD against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, decide, learn
from armrace.policies.broad import Broad
from armrace.randomness import Purpose, stream_for
from playing import make_table, play, play_textbook, probabilities


def test_variation_as_computed_by_hand():
    state = Broad().start(arms=2, horizon=100)
    learn(state, Ticket(0, 0, 0.5), 0.0)
    assert state.variation[0] == 0.5
    assert state.learning_rate[0] == 1 / 162


class Textbook:
    """Regularised leader: 1/w = rate * (loss - x), x by bisection."""

    def __init__(self, arms, horizon, rate):
        self.patience, self.rate, self.phase = arms * math.log(horizon) / 3, rate, 0
        self.losses, self.variation = np.zeros(arms), 0.0

    def weights(self):
        low = self.losses.min() - self.losses.size / self.rate
        high = self.losses.min() - 1 / self.rate
        for _ in range(200):
            middle = (low + high) / 2
            if (1 / (self.rate * (self.losses - middle))).sum() < 1:
                low = middle
            else:
                high = middle
        return 1 / (self.rate * (self.losses - low))

    def learn(self, arm, weights, reward):
        loss, played = 1 - reward, np.arange(weights.size) == arm
        estimates = played * loss / weights
        self.variation += (weights**2 * (estimates - loss) ** 2).sum()
        self.losses += estimates
        if self.variation >= self.patience / self.rate**2:
            self.rate, self.phase = self.rate / 2, self.phase + 1
            self.losses, self.variation = np.zeros(weights.size), 0.0


def test_plays_as_printed():
    table = make_table(2000)
    textbook = Textbook(4, len(table), 0.5)
    arms, state = play(Broad(learning_rate=0.5), table)
    assert arms == play_textbook(textbook, table)
    assert textbook.phase >= 2
    assert state.phase[0] == textbook.phase
    assert state.learning_rate[0] == textbook.rate
    assert probabilities(state, 4) == pytest.approx(textbook.weights(), rel=1e-6)


def test_rewards_of_an_earlier_phase_do_not_enter_a_later_one():
    state = Broad(learning_rate=0.5).start(arms=2, horizon=100)
    stream = stream_for(0, Purpose.LEARNER, 0)
    first = decide(state, stream)
    while state.phase[0] == 0:
        learn(state, decide(state, stream), 0.0)
    learn(state, first, 0.0)
    assert state.estimates.losses.tolist() == [0, 0]
    assert state.variation[0] == 0
    assert probabilities(state, 2).tolist() == [0.5, 0.5]
