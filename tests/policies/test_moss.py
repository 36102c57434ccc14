"""MOSS against hand-computed values and its textbook form."""

import math

import pytest

from armrace.kernels.generics import decide, learn
from armrace.policies.moss import Moss, bonus
from armrace.randomness import Purpose, stream_for
from playing import make_table, play


def test_index_as_computed_by_hand():
    assert 0.5 + bonus(10, fair_share=1000 / 2) == pytest.approx(1.12546, abs=5e-6)


def test_bonus_vanishes_with_the_equal_share():
    assert bonus(499, fair_share=500) > 0
    assert bonus(500, fair_share=500) == bonus(10**6, fair_share=500) == 0


def test_plays_as_printed():
    table = make_table(3000)
    horizon, arms = table.shape
    pulls, sums, played = [0] * arms, [0.0] * arms, []
    for row in table:
        indices = [
            sums[a] / pulls[a] + math.sqrt(max(0, math.log(horizon / (arms * pulls[a]))) / pulls[a])
            if pulls[a]
            else math.inf
            for a in range(arms)
        ]
        arm = indices.index(max(indices))
        pulls[arm] += 1
        sums[arm] += row[arm]
        played.append(arm)
    assert play(Moss(), table)[0] == played


def test_horizon_below_the_number_of_arms():
    arms, _ = play(Moss(), make_table(3, means=(0.5,) * 6))
    assert arms == [0, 1, 2]


def test_late_feedback():
    state = Moss().start(arms=3, horizon=300)
    stream = stream_for(0, Purpose.LEARNER, 0)
    tickets = [decide(state, stream) for _ in range(9)]
    assert [ticket.arm for ticket in tickets] == [0, 1, 2] * 3
    for ticket in reversed(tickets):
        learn(state, ticket, float(ticket.arm == 2))
    assert decide(state, stream).arm == 2
