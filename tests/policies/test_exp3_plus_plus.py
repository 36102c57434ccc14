"""EXP3++ against its textbook forms, and its exploration where that differs from EXP3's."""

import math

import numpy as np
import pytest

from armrace.policies.exp3_plus_plus import Exp3PlusPlus, gap_of_arm
from playing import make_table, play, play_textbook, probabilities
from textbook import exp3_weights

VERSIONS = ("2017", "2014")


class Textbook:
    """``losses`` are importance-weighted; ``seen`` sums observed losses, ``pulls`` counts them."""

    def __init__(self, arms, version):
        self.arms, self.version, self.number = arms, version, 1
        self.losses, self.seen, self.pulls = np.zeros(arms), np.zeros(arms), np.zeros(arms)

    def exploration(self):
        t, log_arms = self.number, math.log(self.arms)
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.version == "2017":
                power = self.arms ** (1 / 3)
                width = np.sqrt(3 * math.log(t * power) / (2 * self.pulls))
                upper = np.minimum(1, self.seen / self.pulls + width)
                lower = np.maximum(0, self.seen / self.pulls - width)
                gaps = np.maximum(0, lower - upper.min())
                asked = 256 * math.log(t) / (t * gaps**2)
            else:
                gaps = np.minimum(1, (self.losses - self.losses.min()) / max(1, t - 1))
                asked = 18 * math.log(t) ** 2 / (t * gaps**2)
        asked[gaps == 0] = math.inf
        rate = 0.5 * math.sqrt(log_arms / (t * self.arms))
        return np.minimum(min(1 / (2 * self.arms), rate), asked)

    def weights(self):
        if self.version == "2017" and self.number <= self.arms:
            return np.eye(self.arms)[self.number - 1]
        rate = 0.5 * math.sqrt(math.log(self.arms) / (self.number * self.arms))
        explored = self.exploration()
        return (1 - explored.sum()) * np.array(exp3_weights(self.losses, rate)) + explored

    def learn(self, arm, weights, reward):
        self.losses[arm] += (1 - reward) / weights[arm]
        self.seen[arm] += 1 - reward
        self.pulls[arm] += 1
        self.number += 1


@pytest.mark.parametrize("version", VERSIONS)
def test_plays_as_printed(version):
    table = make_table(1000)
    textbook = Textbook(4, version)
    arms, state = play(Exp3PlusPlus(version=version), table)
    assert arms == play_textbook(textbook, table)
    assert state.losses == pytest.approx(textbook.losses, rel=1e-9)


@pytest.mark.parametrize("version", VERSIONS)
def test_exploration_takes_at_most_half(version):
    _, state = play(Exp3PlusPlus(version=version), make_table(100))
    for number in (5, 10, 100, 10**4, 10**8):
        state.counts.rounds[0] = number - 1
        textbook = Textbook(4, version)
        textbook.number, textbook.losses = number, state.losses
        textbook.pulls = state.counts.pulls
        textbook.seen = state.counts.pulls - state.counts.sums
        assert textbook.exploration().sum() <= 0.5 + 1e-12
        assert probabilities(state, 4) == pytest.approx(textbook.weights(), rel=1e-9)


def test_the_gap_of_2014_is_a_mean_over_the_rounds_before():
    """In round 11 a difference of 5 in estimated losses is a gap of 5/10."""
    state = Exp3PlusPlus(version="2014").start(arms=2, horizon=100)
    state.losses[:] = 5.0, 0.0
    assert gap_of_arm(state, 0, least=0.0, width=0.0, number=11) == 0.5
    assert gap_of_arm(state, 0, least=0.0, width=0.0, number=1) == 1.0


def test_the_version_of_2017_plays_each_arm_once_first():
    arms, _ = play(Exp3PlusPlus(), make_table(10))
    assert arms[:4] == [0, 1, 2, 3]
    state = Exp3PlusPlus(version="2014").start(4, 10)
    assert probabilities(state, 4).tolist() == [0.25] * 4
