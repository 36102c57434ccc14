"""rUCB and rUCB-Tune against hand-computed values and their textbook form."""

import math

import numpy as np
import pytest

from armrace.policies.rucb import RUcb, bonus, tuned_bonus
from playing import learned, make_table, play, play_indices
from textbook import ucb1_index


def textbook_arms(table, rho, eta, tuned):
    def index(seen, number):
        median, rate = np.median(seen), math.log(number - 1) / len(seen)
        if not tuned:
            return median + math.sqrt(rho * rate) + math.sqrt(rho) * eta
        deviation = np.median(np.abs(np.array(seen) - median))
        return median + math.sqrt(rho * 1.4826 * deviation * (rate + eta))

    return play_indices(index, table)


def test_median_and_deviation_as_computed_by_hand():
    state = learned(RUcb(tuned=True), (1.0, 0.2, 0.0, 0.6, 0.4))
    assert state.medians[0] == 0.4
    assert state.deviations[0] == pytest.approx(0.2)


def test_with_rho_2_and_eta_0_the_bonus_is_that_of_ucb1():
    ours = 0.5 + bonus(math.log(100) / 10, rho=2.0, eta=0.0)
    assert ours == pytest.approx(ucb1_index(0.5, 10, 100))
    assert ours == pytest.approx(1.45971, abs=5e-6)


def test_bonuses_grow_with_eta():
    assert bonus(0.1, 2.0, 0.3) - bonus(0.1, 2.0, 0.0) == pytest.approx(0.3 * math.sqrt(2))
    assert tuned_bonus(0.1, 2.0, 0.3, 0.2) == pytest.approx(math.sqrt(2 * 1.4826 * 0.2 * 0.4))


@pytest.mark.parametrize("tuned", [False, True])
@pytest.mark.parametrize("eta", [0.0, 0.1])
def test_plays_as_printed(tuned, eta):
    table = np.random.default_rng(2).random((600, 3)) ** [1.0, 1.2, 0.9]
    arms, _ = play(RUcb(tuned=tuned, eta=eta), table)
    assert arms == textbook_arms(table, 2.0, eta, tuned)


@pytest.mark.parametrize("tuned", [False, True])
def test_plays_as_printed_on_bernoulli_arms(tuned):
    table = make_table(500)
    arms, _ = play(RUcb(tuned=tuned, eta=0.1), table)
    assert arms == textbook_arms(table, 2.0, 0.1, tuned)
