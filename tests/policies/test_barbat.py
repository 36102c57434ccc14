"""BARBAT against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.policies.barbar import Barbat, log_term
from playing import make_table, play, play_textbook, probabilities


def zeta(epoch, arms):
    return (epoch + 4) * 2 ** (2 * (epoch + 4)) * math.log(arms)


def test_constants_of_the_first_epoch_as_computed_by_hand():
    assert zeta(1, 2) == pytest.approx(3548.914, abs=5e-4)
    delta = 1 / (2 * zeta(1, 2))
    assert delta == pytest.approx(1.408882e-4, abs=5e-11)
    assert 256 * math.log(4 * 2 / delta) == pytest.approx(2802.428, abs=5e-4)
    assert 256 * log_term(2, 1) == pytest.approx(2802.428, abs=5e-4)
    state = Barbat().start(arms=2, horizon=1000)
    assert state.epochs.length[0] == 5605
    assert probabilities(state, 2) == pytest.approx([0.5, 0.5], abs=1e-4)


@pytest.mark.parametrize("arms", [2, 10, 1000])
@pytest.mark.parametrize("epoch", [1, 2, 7, 20])
def test_one_logarithm_serves_both_confidences(arms, epoch):
    delta = 1 / (arms * zeta(epoch, arms))
    assert log_term(arms, epoch) == pytest.approx(math.log(4 * arms / delta))
    assert log_term(arms, epoch) == pytest.approx(math.log(4 / (delta / arms)))


class Textbook:
    def __init__(self, arms, scale):
        self.arms, self.scale, self.epoch = arms, scale, 0
        self.gaps, self.best = np.ones(arms), 0
        self.begin()

    def begin(self):
        self.epoch += 1
        self.delta = 1 / (self.arms * zeta(self.epoch, self.arms))
        least = self.scale * 2**8 * math.log(4 * self.arms / self.delta)
        self.length = math.ceil(self.arms * least * 2 ** (2 * (self.epoch - 1)))
        self.plan = least / self.gaps**2
        self.plan[self.best] = self.length - np.delete(self.plan, self.best).sum()
        self.left, self.sums = self.length, np.zeros(self.arms)

    def weights(self):
        return self.plan / self.length

    def learn(self, arm, weights, reward):
        self.sums[arm] += reward
        self.left -= 1
        if self.left == 0:
            means = np.minimum(1, self.sums / self.plan)
            widths = np.sqrt(4 * math.log(4 / (self.delta / self.arms)) / self.plan)
            self.gaps = np.maximum(2.0**-self.epoch, (means - widths).max() - means)
            self.best = int(means.argmax())
            self.begin()


@pytest.mark.parametrize(("scale", "rounds"), [(1 / 1024, 3000), (1 / 32, 20_000)])
def test_plays_as_printed(scale, rounds):
    """At the larger scale, gaps exceed their floor."""
    table = make_table(rounds)
    textbook = Textbook(4, scale)
    arms, state = play(Barbat(scale=scale), table)
    assert arms == play_textbook(textbook, table)
    assert textbook.epoch >= 4
    assert state.epochs.planned == pytest.approx(textbook.plan, rel=1e-9)
    assert state.epochs.gaps == pytest.approx(textbook.gaps, rel=1e-9)
    assert (scale < 0.01) or len(set(textbook.gaps)) > 1
