"""rUCB and rUCB-Tune against hand-computed values and their textbook form."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, decide, learn
from armrace.policies.rucb import RUcb, bonus, tuned_bonus
from armrace.randomness import Purpose, stream_for
from playing import is_sound, make_table, play
from textbook import ucb1_index


def textbook_arms(table, rho, eta, tuned):
    arms = table.shape[1]
    rewards, played = [[] for _ in range(arms)], []
    for played_before, row in enumerate(table):
        indices = []
        for seen in rewards:
            if not seen:
                indices.append(math.inf)
                continue
            median, rate = np.median(seen), math.log(played_before) / len(seen)
            if tuned:
                deviation = np.median(np.abs(np.array(seen) - median))
                indices.append(median + math.sqrt(rho * 1.4826 * deviation * (rate + eta)))
            else:
                indices.append(median + math.sqrt(rho * rate) + math.sqrt(rho) * eta)
        best = max(indices)
        arm = next(a for a in range(arms) if indices[a] >= best - 1e-12)
        rewards[arm].append(row[arm])
        played.append(arm)
    return played


def test_median_and_deviation_as_computed_by_hand():
    state = RUcb(tuned=True).start(arms=2, horizon=100)
    for reward in (1.0, 0.2, 0.0, 0.6, 0.4):
        learn(state, Ticket(0, 0, 1.0), reward)
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


@pytest.mark.parametrize("tuned", [False, True])
def test_late_and_surplus_feedback(tuned):
    state = RUcb(tuned=tuned).start(arms=3, horizon=300)
    stream = stream_for(0, Purpose.LEARNER, 0)
    tickets = [decide(state, stream) for _ in range(9)]
    assert [ticket.arm for ticket in tickets] == [0, 1, 2] * 3
    for ticket in reversed(tickets):
        learn(state, ticket, ticket.arm / 2)
    assert state.medians.tolist() == [0.0, 0.5, 1.0]
    assert decide(state, stream).arm == 2
    for _ in range(5000):
        learn(state, decide(state, stream), 0.9)
    assert is_sound(state, 3)
    assert state.ordered.sizes.sum() < state.counts.pulls.sum() == 5009
