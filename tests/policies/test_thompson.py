"""Thompson sampling against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, decide, learn
from armrace.kernels.streams import uniform
from armrace.policies.thompson import Thompson
from armrace.randomness import Purpose, stream_for
from playing import SEED, make_table, play, probabilities

SUCCESS, FAILURE = 0.0, 1.0 - 2.0**-53


def state_with(successes, failures):
    state = Thompson().start(arms=len(successes), horizon=100)
    state.successes[:] = successes
    state.failures[:] = failures
    return state


def gamma_pair(shapes, stream):
    """Marsaglia and Tsang's method for two shapes at once, normal numbers by the polar method."""
    d = [shape - 1 / 3 for shape in shapes]
    while True:
        while True:
            pair = [2 * uniform(stream) - 1, 2 * uniform(stream) - 1]
            square = pair[0] ** 2 + pair[1] ** 2
            if 0 < square < 1:
                break
        normal = [x * math.sqrt(-2 * math.log(square) / square) for x in pair]
        v = [(1 + x / math.sqrt(9 * s)) ** 3 for x, s in zip(normal, d, strict=True)]
        if min(v) > 0:
            logarithm = sum(
                x * x / 2 + s - s * w + s * math.log(w)
                for x, s, w in zip(normal, d, v, strict=True)
            )
            if math.log(1 - uniform(stream)) < logarithm:
                return d[0] * v[0], d[1] * v[1]


@pytest.mark.parametrize("binary", [True, False])
def test_plays_as_printed(binary):
    table = make_table(600) if binary else np.random.default_rng(3).random((600, 4))
    stream = stream_for(SEED, Purpose.LEARNER, 0)
    shapes = [[1.0, 1.0] for _ in range(4)]
    played = []
    for row in table:
        draws = [
            first / (first + second)
            for first, second in (gamma_pair(shape, stream) for shape in shapes)
        ]
        arm = draws.index(max(draws))
        success = uniform(stream) < row[arm]
        shapes[arm][0 if success else 1] += 1
        played.append(arm)
    arms, state = play(Thompson(), table)
    assert arms == played
    assert state.successes.tolist() == [shape[0] - 1 for shape in shapes]


def test_the_coin_travels_on_the_ticket():
    state = Thompson().start(arms=2, horizon=100)
    learn(state, Ticket(0, 0, math.nan, memo=SUCCESS), 0.3)
    learn(state, Ticket(1, 0, math.nan, memo=FAILURE), 0.999)
    assert (state.successes.tolist(), state.failures.tolist()) == ([1, 0], [0, 1])


def test_extreme_rewards_leave_nothing_to_the_coin():
    state = Thompson().start(arms=2, horizon=100)
    for coin in (SUCCESS, FAILURE):
        learn(state, Ticket(0, 0, math.nan, memo=coin), 1.0)
        learn(state, Ticket(1, 0, math.nan, memo=coin), 0.0)
    assert (state.successes.tolist(), state.failures.tolist()) == ([2, 0], [0, 2])


def test_a_reward_counts_as_a_success_as_often_as_it_says():
    """10,000 coins at 0.3: six standard errors, error probability 2e-9."""
    state = Thompson().start(arms=2, horizon=100)
    stream = stream_for(1, Purpose.LEARNER, 0)
    for _ in range(10_000):
        learn(state, decide(state, stream), 0.3)
    share = state.successes.sum() / 10_000
    assert abs(share - 0.3) < 6 * math.sqrt(0.3 * 0.7 / 10_000)


@pytest.mark.parametrize("arms", [2, 60, 200])
def test_weights_sum_to_1_for_many_arms(arms):
    counts = np.random.default_rng(arms).integers(0, 10**6, size=(2, arms))
    assert probabilities(state_with(*counts), arms).sum() == pytest.approx(1, abs=1e-12)
