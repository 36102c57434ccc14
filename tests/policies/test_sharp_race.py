"""The sharp race and the sharper intervals of the Multi-layer race."""

import math

import numpy as np
import pytest

import armrace
from armrace.errors import InvalidParameter
from armrace.kernels.generics import Ticket, decide, learn
from armrace.policies import MultiLayerRace, SharpRace
from armrace.randomness import Purpose, stream_for
from playing import run

SHARP_KINDS = ("hoeffding", "bernstein", "kl", "kl-mixture", "kl-jeffreys")


def played(policy, table, seed=0):
    return run(policy, {"name": "table", "rewards": table}, len(table), seed)


def feed(state, layer, arm, reward, times=1):
    for _ in range(times):
        learn(state, Ticket(arm, layer, 1.0), reward)


def test_hoeffding_deletes_after_48_pulls_where_the_paper_needs_102():
    state = MultiLayerRace(delta=0.1, intervals="hoeffding").start(arms=2, horizon=1024)
    for pulls in range(1, 49):
        feed(state, 9, 0, 1.0)
        feed(state, 9, 1, 0.0)
        assert state.active[9].all() == (pulls < 48)


def test_allowances_are_those_computed_by_hand():
    own = MultiLayerRace(delta=0.1, intervals="kl").start(arms=2, horizon=1024)
    assert own.rule.allowance == pytest.approx([5.74452] * 10, abs=5e-6)
    pooled = MultiLayerRace(delta=0.1, intervals="kl", pool=True).start(arms=2, horizon=1024)
    assert pooled.rule.allowance[5] == pytest.approx(8.14902, abs=0.2)
    assert (pooled.rule.allowance[:-1] < 8.14902 + 5e-6).all()
    assert pooled.rule.allowance[-1] == pytest.approx(5.74452, abs=5e-6)


def test_anytime_intervals_do_not_depend_on_the_horizon_but_for_the_number_of_layers():
    few = MultiLayerRace(intervals="kl-mixture", layers=5).start(arms=3, horizon=100)
    many = MultiLayerRace(intervals="kl-mixture", layers=5).start(arms=3, horizon=10**9)
    assert few.rule.log_lower.tolist() == many.rule.log_lower.tolist()
    assert few.rule.log_lower[0] == pytest.approx(math.log(2 * 3 * 5 / 0.05))


def test_the_papers_intervals_cannot_be_pooled():
    with pytest.raises(InvalidParameter, match=r"^pool needs other intervals than paper"):
        MultiLayerRace(pool=True)


def test_a_pooled_layer_uses_slower_layers_and_no_faster_one():
    policy = MultiLayerRace(intervals="kl-mixture", pool=True, layers=3)
    state = policy.start(arms=2, horizon=1000)
    feed(state, 1, 0, 1.0, 40)
    views = {(view.layer, view.arm): view for view in policy.inspect(state)}
    assert (views[0, 0].pulls, views[1, 0].pulls, views[2, 0].pulls) == (0, 40, 0)
    assert views[0, 0].lower > 0.5
    assert views[2, 0].lower is None
    feed(state, 2, 0, 0.0, 40)
    views = {(view.layer, view.arm): view for view in policy.inspect(state)}
    assert views[0, 0].lower < 0.5
    assert views[2, 0].upper < 0.5


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("intervals", SHARP_KINDS)
def test_every_kind_of_interval_deletes_the_worse_arm_and_keeps_the_better(intervals, pool):
    table = np.tile([0.9, 0.1], (20_000, 1))
    state = played(MultiLayerRace(intervals=intervals, pool=pool), table).policy
    assert state.active[:, 0].all()
    assert not state.active[0, 1]


def test_after_each_turn_the_leader_has_its_plays():
    state = SharpRace(lead=2, most_corruption=0).start(arms=3, horizon=1000)
    stream = stream_for(0, Purpose.LEARNER, 0)
    arms = []
    for _ in range(9):
        ticket = decide(state, stream)
        learn(state, ticket, 1.0 if ticket.arm == 1 else 0.0)
        arms.append(ticket.arm)
    assert arms == [0, 0, 0, 1, 1, 1, 2, 1, 1]


def test_a_deleted_leader_is_followed_by_the_next_best():
    state = SharpRace(lead=2, first=2.0).start(arms=3, horizon=1000)
    feed(state, 0, 0, 1.0, 3)
    feed(state, 0, 1, 0.6, 3)
    feed(state, 0, 2, 0.5, 3)
    assert state.layers.leader[0] == 0
    slowest = state.share.size - 1
    feed(state, slowest, 0, 0.0, 300)
    feed(state, slowest, 1, 0.6, 300)
    assert not state.active[0, 0]
    assert state.layers.leader[0] == 1


def test_layers_say_what_they_tolerate():
    sharp = SharpRace().start(10, 1000)
    assert sharp.tolerated[0] == sharp.rule.allowance[0] == pytest.approx(29.9, abs=0.05)
    assert sharp.tolerated[1:].tolist() == [32, 64, 128, 256, 512, 1024]
    literal = MultiLayerRace().start(10, 10**6)
    log_term = math.log(4 * 10 * 10**6 * 20 / 0.05)
    assert literal.tolerated[:2] == pytest.approx([log_term, 9.0 * 4], rel=0.01)
    assert literal.tolerated[2:] == pytest.approx(9.0 / literal.share[2:], rel=0.01)
    kl = MultiLayerRace(intervals="kl").start(2, 1024)
    assert kl.tolerated == pytest.approx(np.maximum(1 / kl.share, kl.rule.allowance[0]))
    told = armrace.policies.FastSlowRace(corruption=30).start(2, 1000)
    assert told.tolerated.tolist() == [0, 30]
    told = armrace.policies.FastSlowRace(corruption=5).start(2, 1000)
    assert told.tolerated.tolist() == [0, told.rule.allowance[1]]
    assert armrace.policies.EnlargedArmElimination(corruption=7).start(2, 9).tolerated == [7]
    assert armrace.policies.ActiveArmElimination().start(2, 9).tolerated == [0]
