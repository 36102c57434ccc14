"""EXP3.P against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.kernels.generics import decide, learn
from armrace.policies.exp3p import Exp3P
from armrace.policies.leaders.estimates import BONUS, EXPLORATION, LEARNING_RATE
from armrace.randomness import Purpose, stream_for
from armrace.simulation import simulate
from playing import make_table, play, play_textbook, probabilities


def bound(arms, horizon, delta):
    return 5.15 * math.sqrt(horizon * arms * math.log(arms / delta))


def test_rates_as_computed_by_hand():
    rates = Exp3P(delta=0.01).start(arms=10, horizon=10_000).exponential.rates
    assert rates[BONUS] == pytest.approx(0.00831129, abs=5e-9)
    assert rates[LEARNING_RATE] == pytest.approx(0.00455860, abs=5e-9)
    assert rates[EXPLORATION] == pytest.approx(0.0503845, abs=5e-8)
    assert bound(10, 10_000, 0.01) == pytest.approx(4280.3, abs=0.05)


def test_without_delta_the_bonus_does_not_depend_on_it():
    rates = Exp3P(delta=None).start(arms=10, horizon=10_000).exponential.rates
    assert rates[BONUS] == pytest.approx(math.sqrt(math.log(10) / 100_000))


def test_a_short_horizon_means_uniform_play():
    state = Exp3P().start(arms=10, horizon=5)
    assert state.exponential.rates[EXPLORATION] == 1
    _, state = play(Exp3P(), make_table(5))
    assert probabilities(state, 4) == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1, "often"])
def test_delta_is_a_probability(delta):
    with pytest.raises(InvalidParameter, match="delta must be"):
        Exp3P(delta=delta)


class Textbook:
    def __init__(self, arms, horizon, delta):
        self.gains = np.zeros(arms)
        self.beta = math.sqrt(math.log(arms / delta) / (horizon * arms))
        self.eta = 0.95 * math.sqrt(math.log(arms) / (horizon * arms))
        self.gamma = 1.05 * math.sqrt(arms * math.log(arms) / horizon)

    def weights(self):
        powers = np.exp(self.eta * (self.gains - self.gains.max()))
        return (1 - self.gamma) * powers / powers.sum() + self.gamma / powers.size

    def learn(self, arm, weights, reward):
        self.gains += (reward * (np.arange(weights.size) == arm) + self.beta) / weights


def test_plays_as_printed():
    table = make_table(1000)
    textbook = Textbook(4, len(table), 0.1)
    arms, state = play(Exp3P(delta=0.1), table)
    assert arms == play_textbook(textbook, table)
    assert state.exponential.gains == pytest.approx(textbook.gains, rel=1e-9)


def test_late_feedback_is_weighed_with_the_probability_of_its_ticket():
    state = Exp3P().start(arms=2, horizon=1000)
    stream = stream_for(0, Purpose.LEARNER, 0)
    first = decide(state, stream)
    for _ in range(100):
        learn(state, decide(state, stream), 1.0)
    before = state.exponential.gains.copy()
    learn(state, first, 1.0)
    added = state.exponential.gains - before
    assert added[first.arm] == pytest.approx(2.0)
    assert added[1 - first.arm] == 0


def test_regret_is_below_its_bound_in_every_run():
    """Each of 50 runs may exceed it with probability 1e-6."""
    result = simulate(Exp3P(delta=1e-6), [0.6, 0.5, 0.4], horizon=10_000, replications=50)
    assert result.figure("regret").max < bound(3, 10_000, 1e-6)
