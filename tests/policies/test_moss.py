"""MOSS against hand-computed values and its textbook form."""

import math

import pytest

from armrace.policies.ucb import Moss, bonus
from playing import make_table, play, play_indices


def test_index_as_computed_by_hand():
    assert 0.5 + bonus(10, fair_share=1000 / 2) == pytest.approx(1.12546, abs=5e-6)


def test_bonus_vanishes_with_the_equal_share():
    assert bonus(499, fair_share=500) > 0
    assert bonus(500, fair_share=500) == bonus(10**6, fair_share=500) == 0


def test_plays_as_printed():
    table = make_table(3000)

    def index(seen, number):
        share = len(table) / (4 * len(seen))
        return sum(seen) / len(seen) + math.sqrt(max(0, math.log(share)) / len(seen))

    assert play(Moss(), table)[0] == play_indices(index, table)


def test_horizon_below_the_number_of_arms():
    arms, _ = play(Moss(), make_table(3, means=(0.5,) * 6))
    assert arms == [0, 1, 2]
