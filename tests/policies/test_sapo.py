"""SAPO: its constants, its phases, equality with the printed form, and every way to switch."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import Ticket, decide, learn
from armrace.kernels.streams import uniform
from armrace.policies.common.switching import _begin_phases, _end_phase, has_switched
from armrace.policies.sapo import Sapo
from armrace.randomness import Purpose, stream_for
from playing import run, weights_of
from textbook_switching import TextbookSapo, draw

NEVER = -1
LARGEST_REGRET = 3


@pytest.mark.parametrize(("arms", "horizon"), [(2, 2.2e6), (10, 1.2e7)])
def test_the_test_of_the_regret_cannot_fire_below_millions_of_rounds(arms, horizon):
    below, above = int(0.95 * horizon), int(1.05 * horizon)
    assert Sapo().start(arms, below).constants[LARGEST_REGRET] > below
    assert Sapo().start(arms, above).constants[LARGEST_REGRET] < above


def test_an_arm_is_eliminated_first_after_more_than_162_log_t_plays():
    """Losses 0 and 1: 9 half-widths must be less than 1 minus the upper end of the better."""
    horizon = 10**6
    state = Sapo().start(arms=2, horizon=horizon)
    while state.active.all():
        for arm in (0, 1):
            learn(state, Ticket(arm, 0, 0.5), float(arm == 0))
    assert state.active.tolist() == [True, False]
    least = 162 * math.log(horizon)
    assert least < state.counts.pulls[1] < 1.3 * least
    phases = state.phases
    share = 1 / 4 + state.counts.pulls[1] / (2 * horizon)
    width = math.sqrt(2 * math.log(horizon) / state.counts.pulls[1])
    assert weights_of(state).tolist() == pytest.approx([1 - share, share])
    assert phases.believed_gap[1] == pytest.approx(8 * width)
    assert phases.first_length[1] == pytest.approx(1280 / (share * 64 * width**2))
    assert (phases.believed_loss[1], phases.rounds[1]) == (1.0, 0)


def test_a_phase_end_and_then_an_error_restore_length_and_probability():
    state = Sapo().start(arms=3, horizon=10**6)
    state.counts.pulls[1], state.half_widths[1] = 5000, 0.07
    _begin_phases(state, 1)
    length, share = state.phases.length[1], state.probabilities[1]
    _end_phase(state, 1, False)
    assert (state.phases.length[1], state.probabilities[1]) == (2 * length, share / 2)
    _end_phase(state, 1, True)
    assert (state.phases.length[1], state.probabilities[1]) == (length, share)
    _end_phase(state, 1, True)
    assert (state.phases.length[1], state.probabilities[1]) == (length, share)
    assert state.phases.errors[1] == 2


def shifting_table(horizon, change):
    """Four arms; from ``change`` on, the worst one pays always."""
    table = np.random.default_rng(4).random((horizon, 4)) < [0.8, 0.5, 0.4, 0.1]
    table[change:, 3] = True
    return table.astype(float)


@pytest.mark.parametrize(
    ("scale", "change", "outcome"),
    [(0.05, 40_000, "stays"), (0.05, 8000, "errs"), (0.01, 20_000, "switches")],
)
def test_compiled_sapo_plays_as_printed(scale, change, outcome):
    horizon, seed = 40_000, 5
    table = shifting_table(horizon, change)
    printed = TextbookSapo(4, horizon, scale)
    stream = stream_for(seed, Purpose.LEARNER, 0)
    played = [0] * 4
    for row in table:
        arm = draw(printed.weights(), uniform(stream))
        printed.update(arm, row[arm])
        played[arm] += 1
    parts = run(Sapo(scale=scale), {"name": "table", "rewards": table}, horizon, seed)
    state = parts.policy
    assert parts.ledger.pulls.tolist() == played
    assert state.clock[1] == (printed.switched_at or NEVER)
    assert set(np.flatnonzero(state.active)) == printed.active
    assert weights_of(state).tolist() == pytest.approx(printed.weights(), rel=1e-9)
    assert state.phases.errors.sum() == printed.errors
    assert len(printed.active) < 4
    assert {"stays": not printed.errors, "errs": printed.errors > 0}.get(outcome, True)
    assert has_switched(state) == (outcome == "switches")


def crafted(horizon=10**6):
    """A state with an eliminated arm, in its first phase."""
    state = Sapo(scale=0.05).start(arms=2, horizon=horizon)
    while state.active.all():
        for arm in (0, 1):
            learn(state, Ticket(arm, 0, 0.5), 0.5 + 0.5 * (arm == 0) - 0.3 * (arm == 1))
    assert not has_switched(state)
    return state


def test_probabilities_never_exceed_those_of_the_elimination():
    state = crafted()
    stream = stream_for(1, Purpose.LEARNER, 0)
    for _ in range(20_000):
        learn(state, decide(state, stream), 1.0)
        if has_switched(state):
            break
        assert state.probabilities[1] <= state.phases.first_probability[1]
    assert state.phases.errors[1] > 0


def test_it_switches_after_too_many_errors():
    state = crafted()
    state.phases.errors[1] = math.ceil(3 * math.log(10**6)) - 1
    state.phases.losses[1] = -1e12
    assert not has_switched(state)
    learn(state, Ticket(0, 0, 0.9), 1.0)
    assert has_switched(state)


def test_it_switches_when_the_two_estimates_contradict_each_other():
    state = crafted()
    learn(state, Ticket(0, 0, 1e-9), 0.0)
    assert has_switched(state)


def test_it_switches_when_it_regrets_too_much():
    state = crafted()
    state.constants[LARGEST_REGRET] = -math.inf
    learn(state, Ticket(0, 0, 0.9), 1.0)
    assert has_switched(state)


def test_it_switches_rather_than_have_no_active_arm():
    state = crafted()
    state.totals[0] = -100.0
    learn(state, Ticket(0, 0, 0.9), 1.0)
    assert has_switched(state)
    assert weights_of(state).tolist() == [0.5, 0.5]


def test_rewards_of_before_the_switch_teach_exp3p_nothing():
    state = crafted()
    stream = stream_for(0, Purpose.LEARNER, 0)
    held = decide(state, stream)
    learn(state, Ticket(0, 0, 1e-9), 0.0)
    learn(state, held, 1.0)
    assert state.fallback.gains.tolist() == [0.0, 0.0]
    later = decide(state, stream)
    before = state.fallback.gains.copy()
    learn(state, later, 0.5)
    assert state.fallback.gains[later.arm] - before[later.arm] == pytest.approx(1.0)
