"""EXP3.P against hand-computed values and its textbook form."""

import math

import pytest

from armrace.policies.exp3 import Exp3P
from armrace.policies.leaders.estimates import BONUS, EXPLORATION, LEARNING_RATE
from armrace.simulation import simulate
from playing import make_table, play, play_textbook
from textbook_switching import TextbookExp3P


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


def test_plays_as_printed():
    table = make_table(1000)
    textbook = TextbookExp3P(4, len(table), math.log(4 / 0.1))
    arms, state = play(Exp3P(delta=0.1), table)
    assert arms == play_textbook(textbook, table)
    assert state.exponential.gains == pytest.approx(textbook.gains, rel=1e-9)


def test_regret_is_below_its_bound_in_every_run():
    """Each of 50 runs may exceed it with probability 1e-6."""
    result = simulate(Exp3P(delta=1e-6), [0.6, 0.5, 0.4], horizon=10_000, replications=50)
    assert result.figure("regret").max < bound(3, 10_000, 1e-6)
