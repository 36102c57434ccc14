"""The four races: golden values of the paper, and equality with the algorithm as printed."""

import math

import numpy as np
import pytest

from armrace.kernels.generics import NO_LAYER, Ticket, decide, learn
from armrace.policies import (
    ActiveArmElimination,
    EnlargedArmElimination,
    FastSlowRace,
    MultiLayerRace,
)
from armrace.policies.races.race import draw_layer
from armrace.policies.races.textbook import TextbookRace
from armrace.randomness import Purpose, stream_for
from playing import final_state, run, weights_of


def set_log_term(state, log_term):
    state.rule.log_lower[:] = state.rule.log_upper[:] = log_term


def feed(state, layer, arm, reward, times=1):
    for _ in range(times):
        learn(state, Ticket(arm, layer, 1.0), reward)


@pytest.mark.parametrize(
    ("policy", "deleted_at", "pulls"),
    [
        (ActiveArmElimination(delta=0.1), 85, (43, 42)),
        (EnlargedArmElimination(corruption=20, delta=0.1), 216, (108, 108)),
    ],
)
def test_elimination_deletes_the_worse_arm_at_the_round_computed_by_hand(policy, deleted_at, pulls):
    state = final_state(policy, {"name": "deterministic", "rewards": (1.0, 0.0)}, 1000)
    assert state.eliminated_at[0].tolist() == [-1, deleted_at]
    assert state.pulls[0, 1] == pulls[1]
    assert state.pulls[0].sum() == 1000


def test_elimination_takes_a_strict_excess():
    """At equal ends of intervals nobody is deleted."""
    policy = ActiveArmElimination(delta=0.1)
    state = policy.start(arms=2, horizon=1000)
    set_log_term(state, 4.0)  # widths of exactly 1/2 at 16 pulls
    feed(state, 0, 0, 1.0, 16)
    feed(state, 0, 1, 0.0, 16)
    assert state.active.all()
    feed(state, 0, 1, 0.0)
    assert state.active.tolist() == [[True, False]]


def test_a_deletion_spares_the_arm_whose_interval_just_touches():
    state = ActiveArmElimination().start(arms=3, horizon=1000)
    set_log_term(state, 4.0)
    feed(state, 0, 1, 0.0, 16)
    feed(state, 0, 2, 0.0, 17)
    feed(state, 0, 0, 1.0, 16)
    assert state.active.tolist() == [[True, True, False]]


def test_fast_slow_race_has_the_published_shares_and_widths():
    state = FastSlowRace(corruption=4, delta=0.1).start(arms=2, horizon=1000)
    log_term = math.log(8 * 2 * 1000 / 0.1)
    assert state.share.tolist() == [0.75, 0.25]
    assert state.rule.log_lower[0] == log_term
    assert state.rule.allowance.tolist() == [0.0, 2 * log_term]


@pytest.mark.parametrize("corruption", [0, 0.5, 1])
def test_fast_slow_race_below_one_unit_of_corruption_is_the_slow_layer_alone(corruption):
    state = FastSlowRace(corruption=corruption).start(arms=2, horizon=1000)
    feed(state, 0, 0, 1.0)
    state.layers.turn[1] = 1
    assert weights_of(state).tolist() == [0.0, 1.0]


def test_multi_layer_race_has_the_published_layers_and_widths():
    state = MultiLayerRace(delta=0.1).start(arms=2, horizon=1024)
    assert state.share.size == 10
    assert state.share[0] == 0.5009765625
    assert state.share[1:].tolist() == [2.0**-layer for layer in range(2, 11)]
    assert state.share.sum() == 1.0
    assert state.rule.log_lower[0] == pytest.approx(13.61608, abs=5e-6)
    assert state.rule.allowance.tolist() == [state.rule.log_lower[0]] * 10


def test_multi_layer_race_can_delete_first_after_102_pulls_each():
    state = MultiLayerRace(delta=0.1).start(arms=2, horizon=1024)
    for pulls in range(1, 103):
        feed(state, 9, 0, 1.0)
        feed(state, 9, 1, 0.0)
        assert state.active[9].all() == (pulls < 102)


def test_what_the_slowest_layer_deletes_is_deleted_everywhere():
    state = MultiLayerRace(delta=0.1).start(arms=2, horizon=1024)
    feed(state, 9, 0, 1.0, 102)
    feed(state, 9, 1, 0.0, 102)
    assert not state.active[:, 1].any()
    assert state.active[:, 0].all()
    assert set(state.eliminated_by[:, 1].tolist()) == {9}


def test_an_empty_layer_plays_the_best_mean_of_the_next_one_and_learns_nothing():
    state = MultiLayerRace(delta=0.1, layers=2).start(arms=3, horizon=1000)
    feed(state, 0, 0, 0.0, 500)
    feed(state, 0, 1, 1.0, 500)
    feed(state, 0, 2, 0.0, 500)
    assert state.active[0].tolist() == [False, True, False]
    feed(state, 1, 0, 0.9, 2000)
    feed(state, 1, 2, 1.0, 2000)
    feed(state, 1, 1, 0.0, 2000)
    assert state.active[0].tolist() == [False, False, False]
    assert state.active[1].tolist() == [True, False, True]
    before = state.pulls.copy()
    weights = weights_of(state)
    stream = stream_for(0, Purpose.LEARNER, 0)
    fallbacks = [t for t in (decide(state, stream) for _ in range(50)) if t.layer == NO_LAYER]
    assert fallbacks
    assert {ticket.arm for ticket in fallbacks} == {2}
    for ticket in fallbacks:
        learn(state, ticket, 1.0)
    assert np.array_equal(before, state.pulls)
    assert weights[2] >= state.share[0]


def test_base_and_layers_are_options():
    state = MultiLayerRace(base=4, layers=3).start(arms=2, horizon=10**6)
    assert state.share.tolist() == [1 - 4.0**-2 - 4.0**-3, 4.0**-2, 4.0**-3]
    assert MultiLayerRace(base=4).layer_count(arms=2, horizon=1024) == 5


def _race_cases():
    def square_root(log_term, allowance):
        return lambda pulls: math.sqrt(log_term / pulls) + allowance / pulls

    arms, horizon, delta = 4, 20_000, 0.1
    plain = math.log(2 * arms * horizon / delta)
    fast_slow = math.log(8 * arms * horizon / delta)
    many = math.log(4 * arms * horizon * 15 / delta)
    shares = [2.0**-layer for layer in range(1, 16)]
    shares[0] = 1 - sum(shares[1:])
    return [
        (ActiveArmElimination(delta=delta), [1.0], [square_root(plain, 0)]),
        (EnlargedArmElimination(corruption=30, delta=delta), [1.0], [square_root(plain, 30)]),
        (
            FastSlowRace(corruption=8, delta=delta),
            [1 - 1 / 8, 1 / 8],
            [square_root(fast_slow, 0), square_root(fast_slow, 2 * fast_slow)],
        ),
        (MultiLayerRace(delta=delta), shares, [square_root(many, many)] * 15),
    ]


@pytest.mark.parametrize(("policy", "share", "widths"), _race_cases(), ids=lambda x: str(x)[:20])
def test_compiled_races_play_as_the_algorithm_is_printed(policy, share, widths):
    """Same layers and rewards: the same arms are active, with the same pulls, at the end."""
    arms, horizon, seed = 4, 20_000, 12
    table = np.random.default_rng(seed).random((horizon, arms)) < [0.2, 0.9, 0.85, 0.3]
    table[:400, 1] = False  # an outage of the best arm, so that fast layers err and empty
    table = table.astype(float)
    printed, fresh = TextbookRace(arms, share, widths), policy.start(arms, horizon)
    stream = stream_for(seed, Purpose.LEARNER, 0)
    played = np.zeros(arms, dtype=int)
    for row in table:
        layer = draw_layer(fresh, stream) if len(share) > 1 else 0
        played[printed.play(layer, row)] += 1

    parts = run(policy, {"name": "table", "rewards": table}, horizon, seed)
    state = parts.policy
    assert parts.ledger.pulls.tolist() == played.tolist()
    assert state.pulls.tolist() == printed.pulls
    for layer in range(len(share)):
        assert np.flatnonzero(state.active[layer]).tolist() == printed.active(layer)
    assert weights_of(state) == pytest.approx(printed.weights())
    assert not state.active.all(), "the case is idle if nothing is ever deleted"


def test_inspection_says_when_and_by_which_layer_an_arm_was_deleted():
    policy = MultiLayerRace(delta=0.1, layers=2)
    state = policy.start(arms=2, horizon=1024)
    state.rounds[0] = 77
    feed(state, 1, 0, 1.0, 120)
    feed(state, 1, 1, 0.0, 120)
    views = {(view.layer, view.arm): view for view in policy.inspect(state)}
    assert len(views) == 4
    gone = views[0, 1]
    assert (gone.active, gone.eliminated_at, gone.eliminated_by) == (False, 77, 1)
    assert (gone.pulls, gone.mean, gone.lower) == (0, None, None)
    kept = views[1, 0]
    width = math.sqrt(state.rule.log_lower[0] / 120) + state.rule.log_lower[0] / 120
    assert kept.mean == 1.0
    assert (kept.lower, kept.upper) == (1 - width, 1 + width)
