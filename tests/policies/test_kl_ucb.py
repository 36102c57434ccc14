"""KL-UCB against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.policies.common.divergence import upper_kl
from armrace.policies.indices.kl_indices import exploration
from armrace.policies.ucb import KlUcb
from playing import make_table, play, play_indices


def textbook_arms(table, c):
    def index(seen, number):
        threshold = math.log(number)
        if number > math.e:
            threshold += c * math.log(math.log(number))
        return upper_kl(sum(seen) / len(seen), threshold / len(seen))

    return play_indices(index, table)


@pytest.mark.parametrize("c", [0, 3])
def test_plays_as_printed(c):
    table = make_table(1500)
    assert play(KlUcb(c=c), table)[0] == textbook_arms(table, c)


def test_plays_as_printed_on_rewards_between_0_and_1():
    table = np.random.default_rng(4).random((1000, 3)) ** [1.0, 0.8, 1.3]
    assert play(KlUcb(), table)[0] == textbook_arms(table, 0)


def test_iterated_logarithm_is_never_negative():
    assert exploration(1, 3.0) == 0
    assert exploration(2, 3.0) == math.log(2)
    assert exploration(100, 3.0) == pytest.approx(math.log(100) + 3 * math.log(math.log(100)))
