"""Tsallis-INF against hand-computed values and its definition."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import decide, learn
from armrace.policies.leaders.estimates import TSALLIS_ENTROPY, power_weights
from armrace.policies.tsallis_inf import TsallisInf
from armrace.randomness import Purpose, stream_for
from armrace.verification.leader_guarantees import PrescribedTsallisInf
from playing import (
    make_table,
    play,
    play_textbook,
    probabilities,
    ticket_for,
)

ESTIMATORS = ("iw", "rv")


def state_at(estimator, number, losses):
    """The state before the round of this number, with these losses."""
    state = TsallisInf(estimator=estimator).start(len(losses), 1000)
    state.estimates.losses[:] = losses
    state.counts.rounds[0] = number - 1
    return state


@pytest.mark.parametrize(
    ("estimator", "number", "losses", "expected", "precision"),
    [
        ("iw", 2, (2, 0), (0.159375, 0.840625), 5e-7),
        ("iw", 100, (30, 0, 10), (0.0575007, 0.7301867, 0.2123126), 5e-8),
        ("rv", 100, (30, 0, 10), (0.0200075, 0.8738722, 0.1061203), 5e-8),
    ],
)
def test_probabilities_as_computed_by_hand(estimator, number, losses, expected, precision):
    state = state_at(estimator, number, losses)
    assert probabilities(state, len(losses)) == pytest.approx(expected, abs=precision)


def test_normaliser_as_computed_by_hand():
    rate = 2 / math.sqrt(2)
    x = power_weights(np.array([2.0, 0.0]), rate / 2, TSALLIS_ENTROPY, 0.0, np.empty(2))
    assert x == pytest.approx(-1.54246, abs=5e-6)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_plays_as_printed(estimator):
    table = make_table(1000)
    policy = TsallisInf(estimator=estimator)
    textbook = PrescribedTsallisInf(policy, *table.shape[::-1])
    arms, state = play(policy, table)
    assert arms == play_textbook(textbook, table)
    assert state.estimates.losses == pytest.approx(textbook.estimated, rel=1e-6)


def test_there_is_no_baseline_in_the_first_fifteen_rounds():
    state = TsallisInf().start(arms=2, horizon=100)
    stream = stream_for(0, Purpose.LEARNER, 0)
    assert {decide(state, stream).memo for _ in range(15)} == {0.0}
    assert state.estimates.losses.tolist() == [0, 0]


def test_the_memo_is_the_baseline_of_the_arm():
    losses = (30.0, 0.0, 10.0)
    for arm, baseline in ((0, 0.0), (1, 0.5), (2, 0.0)):
        state = state_at("rv", 100, losses)
        assert ticket_for(state, arm).memo == baseline
        assert state.estimates.losses.tolist() == [30.0, 0.5, 10.0]


@pytest.mark.parametrize("number", [10, 100, 10_000])
def test_late_feedback_leaves_the_estimate_unbiased(number):
    """A decision's expected addition to an arm's estimate is the arm's loss, whenever it comes."""
    losses, true = (3.0, 0.0, 1.0), (0.9, 0.3, 0.6)
    weights = probabilities(state_at("rv", number, losses), 3)
    added = np.zeros(3)
    for arm in range(3):
        state = state_at("rv", number, losses)
        ticket = ticket_for(state, arm)
        baselines = state.estimates.losses - losses
        stream = stream_for(1, Purpose.LEARNER, 0)
        for _ in range(50):
            decide(state, stream)
        before = state.estimates.losses.copy()
        learn(state, ticket, 1 - true[arm])
        added += weights[arm] * (baselines + state.estimates.losses - before)
    assert added == pytest.approx(true, rel=1e-9)
