"""KL-UCB against hand-computed values and its textbook form."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import decide, learn
from armrace.policies.indices.kl_indices import exploration, kl_index
from armrace.policies.kl_ucb import KlUcb
from armrace.randomness import Purpose, stream_for
from playing import make_table, play


def divergence(p, q):
    terms = [(p, q), (1 - p, 1 - q)]
    return sum(a * math.log(a / b) if b else math.inf for a, b in terms if a)


def index_by_bisection(mean, pulls, threshold):
    low, high = mean, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        inside = pulls * divergence(mean, middle) <= threshold
        low, high = (middle, high) if inside else (low, middle)
    return low


def textbook_arms(table, c):
    arms = table.shape[1]
    pulls, sums, played = [0] * arms, [0.0] * arms, []
    for number, row in enumerate(table, start=1):
        threshold = math.log(number)
        if number > math.e:
            threshold += c * math.log(math.log(number))
        indices = [
            index_by_bisection(sums[a] / pulls[a], pulls[a], threshold) if pulls[a] else math.inf
            for a in range(arms)
        ]
        best = max(indices)
        arm = next(a for a in range(arms) if indices[a] >= best - 1e-12)
        pulls[arm] += 1
        sums[arm] += row[arm]
        played.append(arm)
    return played


@pytest.mark.parametrize(
    ("mean", "plays", "round_number", "expected"),
    [(0.5, 10, 100, 0.887909), (0.0, 10, 100, 0.369043), (0.9, 20, 1000, 0.998761)],
)
def test_index_as_computed_by_hand(mean, plays, round_number, expected):
    state = KlUcb().start(arms=2, horizon=1000)
    state.means[0], state.share[0] = mean, 1 / plays
    assert kl_index(state, 0, round_number) == pytest.approx(expected, abs=5e-7)


@pytest.mark.parametrize("c", [0, 3])
def test_plays_as_printed(c):
    table = make_table(1500)
    assert play(KlUcb(c=c), table)[0] == textbook_arms(table, c)


@pytest.mark.parametrize("means", [(0.5,) * 4, (0.9, 0.9, 0.1), (1.0, 0.0, 1.0), (0.0, 0.0)])
def test_plays_as_printed_where_arms_are_alike(means):
    table = make_table(700, means)
    assert play(KlUcb(), table)[0] == textbook_arms(table, 0)


def test_plays_as_printed_on_rewards_between_0_and_1():
    table = np.random.default_rng(4).random((1000, 3)) ** [1.0, 0.8, 1.3]
    assert play(KlUcb(), table)[0] == textbook_arms(table, 0)


def test_iterated_logarithm_is_never_negative():
    assert exploration(1, 3.0) == 0
    assert exploration(2, 3.0) == math.log(2)
    assert exploration(100, 3.0) == pytest.approx(math.log(100) + 3 * math.log(math.log(100)))


def test_goes_round_while_feedback_is_outstanding():
    state = KlUcb().start(arms=3, horizon=100)
    stream = stream_for(0, Purpose.LEARNER, 0)
    assert [decide(state, stream).arm for _ in range(9)] == [0, 1, 2] * 3


def test_late_rewards_count_for_their_own_arm():
    state = KlUcb().start(arms=2, horizon=100)
    stream = stream_for(0, Purpose.LEARNER, 0)
    tickets = [decide(state, stream) for _ in range(20)]
    for ticket in reversed(tickets):
        learn(state, ticket, float(ticket.arm))
    assert state.means.tolist() == [0.0, 1.0]
    assert decide(state, stream).arm == 1


def test_shows_its_index():
    policy = KlUcb()
    _, state = play(policy, make_table(200))
    views = policy.inspect(state)
    assert all(view.mean <= view.upper <= 1 for view in views)
