"""EXP3-IX against hand-computed values and its textbook form."""

import math

import pytest

from armrace.kernels.generics import Ticket, assign, learn
from armrace.policies.exp3 import Exp3Ix
from armrace.simulation import simulate
from playing import make_table, play, play_textbook, probabilities
from textbook import exp3_weights

POLICIES = {"known horizon": Exp3Ix(), "anytime": Exp3Ix(anytime=True)}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


def after_one_loss(policy):
    state = policy.start(arms=2, horizon=100)
    learn(state, assign(state, Ticket(arm=0, probability=0.5)), 0.0)
    return probabilities(state, 2)


def test_probabilities_as_computed_by_hand():
    assert after_one_loss(Exp3Ix(learning_rate=0.1))[0] == pytest.approx(0.454670, abs=5e-7)


def test_without_exploration_it_is_exp3():
    weights = after_one_loss(Exp3Ix(learning_rate=0.1, exploration=0.0))
    assert weights == pytest.approx([0.450166, 0.549834], abs=5e-7)
    assert weights == pytest.approx(exp3_weights([2.0, 0.0], 0.1), rel=1e-12)


def test_rates_by_default():
    state = Exp3Ix().start(arms=10, horizon=1000)
    assert state.learning_rate == pytest.approx(math.sqrt(2 * math.log(10) / 10_000))
    assert state.exploration == pytest.approx(state.learning_rate / 2)


class Textbook:
    def __init__(self, arms, horizon, anytime):
        self.losses, self.horizon, self.anytime, self.number = [0.0] * arms, horizon, anytime, 1

    def rate(self):
        arms = len(self.losses)
        if self.anytime:
            return math.sqrt(math.log(arms) / (arms * self.number))
        return math.sqrt(2 * math.log(arms) / (arms * self.horizon))

    def weights(self):
        return exp3_weights(self.losses, self.rate())

    def learn(self, arm, weights, reward):
        self.losses[arm] += (1 - reward) / (weights[arm] + self.rate() / 2)
        self.number += 1


@each_policy
def test_plays_as_printed(policy):
    table = make_table(1000)
    textbook = Textbook(4, len(table), policy.anytime)
    arms, state = play(policy, table)
    assert arms == play_textbook(textbook, table)
    assert state.losses == pytest.approx(textbook.losses, rel=1e-9)


@each_policy
def test_regret_is_below_its_bound_in_every_run(policy):
    """Each of 50 runs may exceed it with probability 1e-6."""
    arms, horizon = 3, 10_000
    first, second = (4, 2) if policy.anytime else (2 * math.sqrt(2), math.sqrt(2))
    log = math.log(arms)
    bound = first * math.sqrt(arms * horizon * log)
    bound += (second * math.sqrt(arms * horizon / log) + 1) * math.log(2e6)
    result = simulate(policy, [0.6, 0.5, 0.4], horizon=horizon, replications=50)
    assert result.figure("regret").max < bound
