"""Thompson-CF against Thompson sampling and its mirror image."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, learn
from armrace.kernels.streams import uniform
from armrace.policies.common.posteriors import draw_beta
from armrace.policies.thompson import Thompson, ThompsonCf
from armrace.randomness import Purpose, stream_for
from playing import SEED, make_table, play, probabilities


def textbook_arms(table, p00, p11):
    """Draws of the success that the policy counts, taken back to means of rewards."""
    stream = stream_for(SEED, Purpose.LEARNER, 0)
    slope = p00 + p11 - 1
    ones, zeros, played = [1.0] * table.shape[1], [1.0] * table.shape[1], []
    for row in table:
        means = []
        for a, b in zip(ones, zeros, strict=True):
            seen = draw_beta(a, b, stream) if slope > 0 else 1 - draw_beta(b, a, stream)
            means.append((seen - (1 - p00)) / slope)
        arm = means.index(max(means))
        if uniform(stream) < row[arm]:
            ones[arm] += 1
        else:
            zeros[arm] += 1
        played.append(arm)
    return played


def test_without_flips_it_is_thompson_sampling():
    table = make_table(500)
    assert play(ThompsonCf(p00=1, p11=1), table)[0] == play(Thompson(), table)[0]


@pytest.mark.parametrize(("p00", "p11"), [(0.9, 0.8), (0.1, 0.3)])
def test_plays_as_printed(p00, p11):
    table = np.random.default_rng(8).random((500, 3)) ** [1.0, 2.0, 0.5]
    assert play(ThompsonCf(p00=p00, p11=p11), table)[0] == textbook_arms(table, p00, p11)


def test_where_feedback_is_mostly_flipped_zeros_are_good():
    state = ThompsonCf(p00=0.1, p11=0.1).start(arms=2, horizon=100)
    for _ in range(20):
        learn(state, Ticket(0, 0, math.nan), 1.0)
        learn(state, Ticket(1, 0, math.nan), 0.0)
    assert probabilities(state, 2)[1] > 0.999999
