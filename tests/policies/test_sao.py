"""SAO: golden values, equality with the algorithm as printed, and its switch."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, decide, learn
from armrace.kernels.streams import uniform
from armrace.policies.sao import Sao, gap_width
from armrace.randomness import Purpose, stream_for
from playing import run, weights_of
from textbook_switching import TextbookSao, draw

NEVER = -1


def test_widths_as_computed_by_hand():
    log_term = Sao(delta=0.1).start(arms=2, horizon=10_000).constants[0]
    assert log_term == pytest.approx(32.9293, abs=5e-5)
    assert gap_width(1000, 2, log_term) == pytest.approx(0.533968, abs=5e-7)


def test_a_gap_of_one_sets_an_arm_aside_first_in_round_9566():
    state = Sao(delta=0.1).start(arms=2, horizon=10_000)
    for number in range(9566):
        assert state.active.all()
        arm = 1 - number % 2
        learn(state, Ticket(arm, 0, 0.5), float(arm == 0))
    assert state.active.tolist() == [True, False]
    assert state.set_aside_at.tolist() == [NEVER, 9566]
    assert weights_of(state)[1] == pytest.approx(0.5 * 9566 / 9567)


def test_probabilities_of_arms_set_aside_sum_to_at_most_one_plus_a_logarithm():
    """So the paper's lemma has it, whatever the order; here they fall one after the other."""
    means = (1.0, 0.6, 0.4, 0.2, 0.0)
    state = run(Sao(), {"name": "deterministic", "rewards": means}, 400_000).policy
    aside = ~state.active
    assert aside.sum() >= 3
    shares = state.frozen_share[aside] / state.set_aside_at[aside]
    assert shares.sum() <= 1 + math.log(5)


def flipping_table(horizon, flip):
    """Arm 0 is the good one, then the other is."""
    coins = np.random.default_rng(2).random((horizon, 2))
    means = np.where(np.arange(horizon)[:, None] < flip, [0.98, 0.02], [0.02, 0.98])
    return (coins < means).astype(float)


@pytest.mark.parametrize(("flip", "switches"), [(25_000, False), (12_500, True)])
def test_compiled_sao_plays_as_printed(flip, switches):
    horizon, seed = 25_000, 7
    table = flipping_table(horizon, flip)
    printed = TextbookSao(2, horizon, 0.1)
    stream = stream_for(seed, Purpose.LEARNER, 0)
    played = [0, 0]
    for row in table:
        arm = draw(printed.weights(), uniform(stream))
        printed.update(arm, row[arm])
        played[arm] += 1
    parts = run(Sao(delta=0.1), {"name": "table", "rewards": table}, horizon, seed)
    state = parts.policy
    assert parts.ledger.pulls.tolist() == played
    assert state.set_aside_at[1] == printed.tau[1] < 12_000
    assert state.clock[1] == (printed.switched_at if switches else NEVER)
    assert weights_of(state).tolist() == pytest.approx(printed.weights(), rel=1e-9)


def test_an_estimate_out_of_bounds_switches_and_late_rewards_of_before_teach_nothing():
    policy = Sao()
    state = policy.start(arms=2, horizon=1000)
    stream = stream_for(0, Purpose.LEARNER, 0)
    held = decide(state, stream)
    learn(state, Ticket(0, 0, 1e-9), 1.0)
    assert state.clock[1] != NEVER
    assert weights_of(state).tolist() == [0.5, 0.5]
    learn(state, held, 1.0)
    assert state.fallback.gains.tolist() == [0.0, 0.0]
    assert state.counts.pulls.sum() == 2
    ticket = decide(state, stream)
    before = state.fallback.gains.copy()
    learn(state, ticket, 1.0)
    assert state.fallback.gains[ticket.arm] - before[ticket.arm] == pytest.approx(2.0)
    assert all(view.active for view in policy.inspect(state))
