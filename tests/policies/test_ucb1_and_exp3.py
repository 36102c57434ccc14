"""UCB1 and EXP3 against hand-computed values and their textbook forms."""

import math

import numpy as np
import pytest

from armrace.kernels.streams import uniform
from armrace.learner import Learner
from armrace.policies import Exp3, Ucb1
from armrace.policies.ucb import bonus_scale, upper_bound
from armrace.randomness import Purpose, stream_for
from playing import SEED, final_state, make_table, probabilities
from textbook import exp3_weights, ucb1_index

ARMS, TABLE = 4, make_table(3000)


def after(policy, table):
    return final_state(policy, {"name": "table", "rewards": table}, len(table))


def test_ucb1_index_as_computed_by_hand():
    assert upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)) == pytest.approx(1.45971, abs=5e-6)


LONG_TABLE = make_table(60_000, (0.2, 0.6, 0.55, 0.3))
"""Long enough that a leader is followed without a look at the other arms."""


@pytest.mark.parametrize("table", [TABLE, LONG_TABLE], ids=["short", "long"])
def test_compiled_ucb1_plays_as_printed(table):
    pulls, sums = [0] * ARMS, [0.0] * ARMS
    for number, row in enumerate(table, start=1):
        indices = [
            ucb1_index(sums[a] / pulls[a] if pulls[a] else 0.0, pulls[a], number)
            for a in range(ARMS)
        ]
        arm = indices.index(max(indices))
        pulls[arm] += 1
        sums[arm] += row[arm]
    state = after(Ucb1(), table)
    assert state.counts.pulls.tolist() == pulls
    assert state.counts.sums.tolist() == sums


def test_ucb1_looks_at_all_arms_again_when_one_of_them_has_a_late_reward():
    """With feedback outstanding, every decision is that of the plain rule."""
    late, coins = [], np.random.default_rng(3)
    learner = Learner(Ucb1(), arms=3, horizon=60_000, seed=1)
    for _ in range(40_000):
        plain = learner.distribution()
        ticket = learner.decide()
        assert plain[ticket.ticket.arm] == 1.0
        late.append(ticket)
        if coins.random() < 0.97:
            early = late.pop(int(coins.integers(len(late))))
            learner.learn(early, float(coins.random() < (0.5, 0.45, 0.2)[early.ticket.arm]))
        if len(late) > 20:
            learner.learn(late.pop(0), 0.0)


def test_exp3_learning_rate_by_default():
    state = Exp3().start(arms=10, horizon=1000)
    assert state.learning_rate[0] == pytest.approx(math.sqrt(2 * math.log(10) / 10_000))


def test_compiled_exp3_plays_as_printed():
    """Over few rounds: importance weighting lets a last bit grow exponentially with time."""
    rate, table = 0.05, TABLE[:300]
    stream = stream_for(SEED, Purpose.LEARNER, 0)
    losses, pulls = [0.0] * ARMS, [0] * ARMS
    for row in table:
        weights = exp3_weights(losses, rate)
        arm = int(np.searchsorted(np.cumsum(weights), uniform(stream), side="right"))
        losses[arm] += (1 - row[arm]) / weights[arm]
        pulls[arm] += 1
    state = after(Exp3(learning_rate=rate), table)
    assert state.counts.pulls.tolist() == pulls
    assert state.losses == pytest.approx(losses, rel=1e-9)


def test_exp3_survives_losses_far_beyond_what_an_exponential_can_hold():
    state = after(Exp3(learning_rate=1.0), np.zeros((200_000, 3)))
    assert probabilities(state, 3).sum() == pytest.approx(1, abs=1e-9)
    assert state.losses.min() > 1000 * math.log(10)
