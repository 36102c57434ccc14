"""Arms that go, for a while or for good, and decisions that somebody else made."""

import json

import msgspec
import numpy as np
import pytest

from armrace.errors import DamagedFile, InvalidParameter
from armrace.kernels.generics import NO_ARM, NO_LAYER
from armrace.learner import ArmPaused, ArmResumed, Assigned, Learner, Ticket


def play(learner, rounds, means, coins):
    """How often each arm was played."""
    plays = np.zeros(len(means), dtype=int)
    for coin in coins.random(rounds):
        decision = learner.decide()
        plays[decision.ticket.arm] += 1
        learner.learn(decision, float(coin < means[decision.ticket.arm]))
    return plays


@pytest.mark.parametrize("policy", ["tsallis-inf", "lb-inf", "thompson", "ucb1"])
def test_a_paused_arm_is_out_of_every_choice_and_of_the_distribution(policy):
    learner = Learner(policy, arms=["a", "b", "c"], horizon=1000, seed=3)
    play(learner, 30, (0.9, 0.5, 0.1), np.random.default_rng(3))
    learner.pause_arm("a")
    learner.pause_arm("a")
    assert learner.paused == ["a"]
    taken = learner.taken
    shares = learner.distribution()
    assert learner.taken == taken
    assert shares["a"] == 0
    assert sum(shares.values()) == pytest.approx(1)
    made = [learner.decide(), learner.decide(["a", "b"]), *learner.decide_many(40)]
    assert {decision.arm for decision in made} <= {"b", "c"}
    assert [decision.number for decision in made] == list(range(30, 72))
    with pytest.raises(InvalidParameter, match="eligible must name an arm that is not paused"):
        learner.decide(["a"])
    learner.learn_many(learner.decide_many(5), [1.0] * 5)
    learner.resume_arm("a")
    learner.resume_arm("a")
    assert learner.paused == []
    assert [e for e in learner.log if isinstance(e, (ArmPaused, ArmResumed))] == [
        ArmPaused("a"),
        ArmResumed("a"),
    ]


@pytest.mark.parametrize("policy", ["exp3", "tsallis-inf", "lb-inf", "lb-inf-v", "log-barrier"])
def test_an_arm_comes_back_where_it_was(policy):
    learner = Learner(policy, arms=3, horizon=3000, seed=5)
    coins = np.random.default_rng(5)
    play(learner, 500, (0.7, 0.5, 0.3), coins)
    before = learner.distribution()
    learner.pause_arm(2)
    learner.resume_arm(2)
    assert learner.distribution() == pytest.approx(before, rel=1e-6)
    learner.pause_arm(0)
    play(learner, 1000, (0.7, 0.5, 0.3), coins)
    learner.resume_arm(0)
    assert learner.distribution()[0] > 0.8 * before[0]


def test_what_cannot_be_paused_is_refused():
    race = Learner("sharp-race", arms=3, horizon=1000)
    with pytest.raises(InvalidParameter, match="sharp-race cannot go on without an arm; start a"):
        race.pause_arm(0)
    learner = Learner("ucb1", arms=["a", "b"], horizon=1000)
    for change in (learner.pause_arm, learner.resume_arm):
        with pytest.raises(InvalidParameter, match="arm must name an arm of this learner; got 'c'"):
            change("c")
    learner.pause_arm("a")
    with pytest.raises(InvalidParameter, match="at least one arm must stay; 'b' is the last"):
        learner.pause_arm("b")


def test_a_snapshot_keeps_what_is_paused():
    learner = Learner("tsallis-inf", arms=["a", "b", "c"], horizon=1000, seed=1)
    play(learner, 50, (0.9, 0.5, 0.1), np.random.default_rng(1))
    assert b'"paused":[]' in learner.snapshot().to_json()
    learner.pause_arm("b")
    snapshot = learner.snapshot()
    restored = Learner.restore(snapshot.to_json())
    assert restored.paused == ["b"]
    for each in (learner, restored):
        each.resume_arm("b")
    assert learner.distribution() == restored.distribution()
    for odd in ([(3, 0.0)], [(0, 0.0), (0, 1.0)], [(0, 0.0), (1, 0.0), (2, 0.0)], [(0, np.nan)]):
        with pytest.raises(DamagedFile, match="paused arms do not fit"):
            Learner.restore(msgspec.structs.replace(snapshot, paused=odd).sealed())


def test_snapshots_from_before_arms_could_be_paused_are_read():
    learner = Learner("tsallis-inf", arms=3, horizon=1000, seed=1)
    learner.decide()
    data = json.loads(learner.snapshot().to_json())
    del data["paused"]
    assert Learner.restore(data).distribution() == learner.distribution()


def test_a_decision_can_be_marked_as_one_of_others_by_hand():
    learner = Learner("ucb1", arms=2, horizon=1000)
    shown = learner.assign(Ticket(arm=1, layer=NO_LAYER, inner_arm=NO_ARM))
    learner.learn(shown, 1.0)
    learner.drop(learner.assign(Ticket(arm=1, layer=NO_LAYER, inner_arm=NO_ARM)))
    assert learner.pending == 0
    assert sum(view.assigned for view in learner.inspect()) == 0


def test_a_draw_that_was_nearly_sure_is_the_policys_own():
    """With all its weight on one arm, a leader's own tickets have the probability 1."""
    learner = Learner({"name": "exp3", "learning_rate": 50.0}, arms=2, horizon=1000, seed=1)
    while learner.distribution()[0] not in (0.0, 1.0):
        decision = learner.decide()
        learner.learn(decision, 0.0)
    own = learner.assign(Ticket(*learner.choose()))
    assert own.ticket.probability == 1.0
    assert own.ticket.inner_arm != NO_ARM
    assert isinstance(learner.log[-1], Assigned)
