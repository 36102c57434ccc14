"""A policy taught in batches: by hand, as a plain loop has it, and around every kind of base."""

import math
from itertools import pairwise

import numpy as np
import pytest

from armrace.errors import InvalidParameter
from armrace.kernels.generics import Ticket, assign, decide, learn
from armrace.kernels.states import equal_states
from armrace.learner import Learner
from armrace.policies import POLICIES
from armrace.policies.batched import Batched
from armrace.randomness import Purpose, stream_for
from armrace.testing import check_policy
from playing import SEED, make_table, play, probabilities

BASES = ["optimistic-log-barrier", "sharp-race", {"name": "barbat", "scale": 0.002}, "ucb1",
         "thompson", {"name": "guarded", "base": "thompson"}]  # fmt: skip


def in_a_plain_loop(base, size, table):
    """The arms of a base that is given its rewards when there are ``size`` of them."""
    state = POLICIES.make(base).start(table.shape[1], len(table))
    stream, waiting, arms = stream_for(SEED, Purpose.LEARNER, 0), [], []
    for row in table:
        ticket = decide(state, stream)
        arms.append(ticket.arm)
        waiting.append((ticket, row[ticket.arm]))
        if len(waiting) == size:
            for known, reward in waiting:
                learn(state, known, reward)
            waiting = []
    return arms, state


@pytest.mark.parametrize("base", BASES, ids=str)
@pytest.mark.parametrize("size", [1, 7, 64])
def test_plays_as_a_base_that_is_given_its_rewards_together(base, size):
    table = make_table(500)
    arms, state = play(Batched(base=base, size=size), table)
    expected, known = in_a_plain_loop(base, size, table)
    assert arms == expected
    assert equal_states(state.base, known)
    assert state.held[0] == 500 % size


def test_probabilities_stay_within_a_batch_and_move_at_its_end():
    state = Batched(base="exp3", size=4).start(2, 1000)
    seen = [probabilities(state, 2)]
    for _ in range(8):
        learn(state, assign(state, Ticket(0, 0, 0.5)), 0.0)
        seen.append(probabilities(state, 2))
    same = [np.array_equal(one, other) for one, other in pairwise(seen)]
    assert same == [True, True, True, False] * 2


def test_a_batch_costs_a_deterministic_base_no_more_than_a_batch_of_plays():
    """UCB1 counts its own plays at once: it does not play one arm for a whole batch."""
    arms, _ = play(Batched(base="ucb1", size=50), make_table(50))
    assert len(set(arms)) == 4


def test_views_have_what_is_held_back():
    state = Batched(base="ucb1", size=10).start(2, 100)
    views = Batched(base="ucb1", size=10).inspect(state)
    assert [view.mean for view in views] == [None, None]
    for reward in (1.0, 0.5, 0.0, 0.5):
        learn(state, assign(state, Ticket(1)), reward)
    views = Batched(base="ucb1", size=10).inspect(state)
    assert [(view.assigned, view.pulls, view.mean) for view in views] == [(0, 0, None), (4, 4, 0.5)]


def test_what_is_held_back_survives_a_snapshot():
    """Also a probability that is not known, which a state must not hold as NaN."""
    policy = Batched(base="thompson", size=100)
    learner = Learner(policy, arms=3, horizon=1000, seed=1)
    for _ in range(50):
        learner.learn(learner.decide(), 1.0)
    assert not np.isnan(learner._state.tickets.probability[:50]).any()
    again = Learner.restore(learner.snapshot(), policy=policy)
    for each in (learner, again):
        for _ in range(60):
            each.learn(each.decide(), 0.0)
    assert equal_states(learner._state, again._state)
    assert math.isnan(learner.decide().probability)


def test_it_declares_what_its_base_does():
    for base in BASES:
        policy, own = Batched(base=base), POLICIES.make(base)
        assert policy.exact_tickets == own.exact_tickets
        assert policy.draws_by_weights == own.draws_by_weights
        assert policy.layer_count(4, 1000) == own.layer_count(4, 1000)


def test_what_is_no_base_is_refused():
    with pytest.raises(InvalidParameter, match="base must be a policy, its name, or its param"):
        Batched(base=3)
    with pytest.raises(InvalidParameter, match="size must be in"):
        Batched(size=0)


@pytest.mark.long
@pytest.mark.parametrize("base", BASES[1:], ids=str)
def test_other_bases_keep_the_contract(base):
    check_policy(Batched(base=base, size=20))
