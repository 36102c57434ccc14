"""BARBAR against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import decide, learn
from armrace.policies.barbar import Barbar, Barbat
from armrace.randomness import Purpose, stream_for
from playing import make_table, play, play_textbook, probabilities

SMALL = Barbar(scale=1 / 1024)


def finished(means, policy=SMALL, horizon=1000):
    """The state at the end of a first epoch with these means over planned plays."""
    state = policy.start(len(means), horizon)
    epochs = state.epochs
    epochs.sums[:] = np.array(means) * epochs.planned
    epochs.played[0] = epochs.seen[0] = epochs.length[0]
    return state


def test_gaps_as_computed_by_hand():
    """The best mean less a sixteenth of the gap 1 is 0.5375; both gaps are below a half."""
    state = finished((0.6, 0.4))
    decide(state, stream_for(0, Purpose.LEARNER, 0))
    assert state.epochs.gaps.tolist() == [0.5, 0.5]
    assert state.epochs.number[0] == 2
    state = finished((1.2, 0.1))
    decide(state, stream_for(0, Purpose.LEARNER, 0))
    assert state.epochs.gaps == pytest.approx([0.5, 1.2 - 1 / 16 - 0.1])


def test_the_distribution_foresees_the_next_epoch():
    state = finished((0.9, 0.1))
    gaps = np.array([0.5, 0.9 - 1 / 16 - 0.1])
    expected = gaps**-2 / (gaps**-2).sum()
    assert probabilities(state, 2) == pytest.approx(expected)
    decide(state, stream_for(0, Purpose.LEARNER, 0))
    assert probabilities(state, 2) == pytest.approx(expected)


class Textbook:
    def __init__(self, arms, horizon, delta, scale):
        self.least = scale * 1024 * math.log(8 * arms / delta * math.log2(horizon))
        self.gaps, self.epoch = np.ones(arms), 0
        self.begin()

    def begin(self):
        self.epoch += 1
        self.plan = self.least / self.gaps**2
        self.left = math.ceil(self.plan.sum())
        self.sums = np.zeros(self.plan.size)

    def weights(self):
        return self.plan / self.plan.sum()

    def learn(self, arm, weights, reward):
        self.sums[arm] += reward
        self.left -= 1
        if self.left == 0:
            means = self.sums / self.plan
            best = (means - self.gaps / 16).max()
            self.gaps = np.maximum(2.0**-self.epoch, best - means)
            self.begin()


def test_plays_as_printed():
    table = make_table(3000)
    textbook = Textbook(4, len(table), SMALL.delta, SMALL.scale)
    arms, state = play(SMALL, table)
    assert arms == play_textbook(textbook, table)
    assert textbook.epoch >= 4
    assert state.epochs.number[0] == textbook.epoch
    assert state.epochs.planned == pytest.approx(textbook.plan, rel=1e-9)


@pytest.mark.parametrize("policy", [SMALL, Barbat(scale=1 / 1024)], ids=str)
def test_rewards_of_an_earlier_epoch_do_not_enter_a_later_one(policy):
    state = policy.start(arms=2, horizon=1000)
    stream = stream_for(0, Purpose.LEARNER, 0)
    first = decide(state, stream)
    while state.epochs.number[0] == 1:
        last = decide(state, stream)
    learn(state, first, 1.0)
    assert state.epochs.sums.tolist() == [0, 0]
    assert state.counts.pulls.sum() == 1
    learn(state, last, 1.0)
    assert state.epochs.sums[last.arm] == 1
