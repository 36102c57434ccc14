"""A learner is the replay of its log; batches, restricted choices and new arms are part of it."""

import random
from decimal import Decimal

import msgspec
import numpy as np
import pytest

from armrace.errors import DamagedFile, ForeignTicket, InvalidParameter
from armrace.kernels.generics import assign, learn
from armrace.kernels.states import equal_states
from armrace.learner import ArmAdded, Assigned, DecisionBatch, Dropped, Learned, Learner, Ticket
from armrace.policies import POLICIES

ARMS, HORIZON = ["red", "green", "blue"], 400
MEANS = {"red": 0.9, "green": 0.5, "blue": 0.1}


def lived(policy):
    """A learner whose rewards came late, in another order, were dropped or never came."""
    luck, learner, waiting = random.Random(3), Learner(policy, ARMS, HORIZON, seed=2), []
    for _ in range(100):
        waiting.append(learner.decide())
        while waiting and luck.random() < 0.6:
            decision = waiting.pop(luck.randrange(len(waiting)))
            fate = luck.random()
            if fate < 0.8:
                learner.learn(decision, float(luck.random() < MEANS[decision.arm]))
            elif fate < 0.9:
                learner.drop(decision)
    return learner


@pytest.mark.parametrize(
    "ticket",
    [None, (), Ticket(3), Ticket(-1), Ticket(0, 99), Ticket(0, 0, 2.0), Ticket(0.5), Ticket(2**70)],
    ids=str,
)
def test_a_ticket_that_no_state_could_give_is_not_assigned(ticket):
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    with pytest.raises(ForeignTicket, match="no decision of this learner could have the ticket"):
        learner.assign(ticket)
    assert learner.decisions == 0


@pytest.mark.parametrize("policy", ["multi-layer-race", "tsallis-inf"])
def test_to_choose_leaves_no_trace_but_in_the_stream(policy):
    learner = lived(policy)
    before, events = learner.snapshot(), len(learner.log)
    for _ in range(5):
        learner.choose()
        learner.choose(["red", "blue"])
    after = learner.snapshot()
    assert after.taken > before.taken
    assert after.state == before.state
    assert (after.decisions, after.rewarded) == (before.decisions, before.rewarded)
    assert len(learner.log) == events


def test_a_batch_stops_at_the_reward_that_cannot_be_taken():
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    batch = learner.decide_many(5)
    learner.learn(batch[3], 1.0)
    with pytest.raises(ForeignTicket, match="decision 3 has had its reward already"):
        learner.learn_many(batch, np.ones(5))
    assert learner.rewards == 4
    learner.learn_many(batch[4:], [0.5])
    assert learner.pending == 0


FORGED = {"arm": (3, -1), "layer": (50,), "inner_layer": (-2,), "probability": (0.0, np.nan)}
FORGED |= {"memo": (np.inf,), "inner_probability": (2.0,), "inner_arm": (3, -3), "phase": (3,)}
FORGED |= {"number": (7, -1)}


@pytest.mark.parametrize("name", FORGED)
def test_forged_records_are_refused(name):
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    batch = learner.decide_many(5)
    before = learner.snapshot()
    for value in FORGED[name]:
        records = batch.records.copy()
        records[name][0] = value
        with pytest.raises(ForeignTicket, match="no decision of this learner"):
            learner.learn_many(DecisionBatch(records, batch.labels), np.ones(5))
    assert learner.snapshot() == before


def test_a_batch_of_other_arms_and_rewards_that_do_not_fit_are_refused():
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    batch = learner.decide_many(2)
    with pytest.raises(ForeignTicket, match="other arms"):
        learner.learn_many(DecisionBatch(batch.records, ["a", "b", "c"]), [1.0, 1.0])
    for rewards in (
        [1.0],
        [1.0, 1.5],
        [1.0, np.nan],
        ["much", "more"],
        ["1", "0"],
        [b"1", b"0"],
        [1.0 + 5.0j, 1.0],
        [None, None],
        [Decimal(1), Decimal(0)],
        np.ma.array([1.0, 1.0], mask=[False, True]),
        None,
        [[1.0, 1.0]],
    ):
        with pytest.raises(InvalidParameter, match="rewards must be"):
            learner.learn_many(batch, rewards)
    assert learner.rewards == 0
    learner.learn_many(batch, np.ma.array([True, False]))
    assert learner.rewards == 2
    for count in (-1, 1.5, "many", None, True, 10**9):
        with pytest.raises(InvalidParameter, match="count must be"):
            learner.decide_many(count)


@pytest.mark.parametrize(
    "eligible", [[], "red", 5, ["pink"], [np.array([0, 1])], [None], [["red"]]]
)
def test_arms_that_are_not_there_cannot_be_eligible(eligible):
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    with pytest.raises(InvalidParameter, match="eligible must"):
        learner.decide(eligible)
    assert learner.decisions == 0


def test_an_arm_can_be_added_and_is_part_of_the_log():
    learner = Learner("ucb1", ARMS[:2], HORIZON, seed=2)
    for _ in range(30):
        learner.learn(learner.decide(), 0.5)
    held = learner.decide()
    learner.add_arm("blue")
    assert learner.arms == ARMS
    assert learner.decide().arm == "blue"
    learner.learn(held, 1.0)
    assert learner.log[-3] == ArmAdded("blue")
    folded = Learner.replay(learner.log, "ucb1", ARMS[:2], HORIZON, seed=2)
    assert folded.snapshot() == learner.snapshot() == Learner.restore(learner.snapshot()).snapshot()
    for arm, sentence in (("red", "must have a new name"), (2.5, "must be text or whole numbers")):
        with pytest.raises(InvalidParameter, match=sentence):
            learner.add_arm(arm)
    with pytest.raises(InvalidParameter, match="cannot add an arm while it runs"):
        Learner("multi-layer-race", ARMS, HORIZON).add_arm("pink")


@pytest.mark.parametrize(
    "event",
    [
        None,
        "decide",
        Assigned(1, Ticket(0)),
        Assigned(0, Ticket(9)),
        Assigned(0, Ticket(0), -1),
        Assigned(0, Ticket(0), 2**70),
        Assigned(0, Ticket(0), "far"),
        Learned(0, 1.0),
        Learned("a", 1.0),
        Dropped(5),
    ],
    ids=str,
)
def test_events_that_do_not_follow_are_refused(event):
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    with pytest.raises((InvalidParameter, ForeignTicket)):
        learner.apply(event)
    assert learner.decisions == 0


@pytest.mark.parametrize("policy", ["multi-layer-race", "exp3p", "barbar"])
def test_a_snapshot_and_the_events_after_it_are_the_learner(policy):
    """Rewards that were outstanding in the snapshot come after it, or are dropped."""
    learner = lived(policy)
    snapshot, before = learner.snapshot(), len(learner.log)
    assert learner.pending > 5
    waiting = [learner._known(number) for number in outstanding(learner)]
    for place, decision in enumerate(waiting[:-2]):
        learner.decide()
        if place % 3:
            learner.learn(decision, place % 2)
        else:
            learner.drop(decision)
    restored = Learner.restore(snapshot.to_json())
    for event in learner.log[before:]:
        restored.apply(event)
    assert restored.snapshot() == learner.snapshot()
    again = Learner.restore(restored.snapshot())  # the two left over are known still
    for number in outstanding(learner)[:2]:
        learner.apply(Learned(number, 1.0))
        again.apply(Learned(number, 1.0))
    assert again.snapshot() == learner.snapshot()


def outstanding(learner):
    """The numbers of the decisions without a reward."""
    rewarded = {e.number for e in learner.log if isinstance(e, Learned | Dropped)}
    return [number for number in range(learner.decisions) if number not in rewarded]


def test_decisions_that_no_log_has_are_not_known():
    learner = Learner("multi-layer-race", ARMS, HORIZON, log=False)
    learner.decide()
    for each in (learner, Learner.restore(learner.snapshot())):
        with pytest.raises(ForeignTicket, match="does not know decision 0"):
            each.apply(Learned(0, 1.0))


@pytest.mark.parametrize("change", [{"number": 4}, {"number": 0}, {"arm": 3}, {"arm": -1}], ids=str)
def test_crafted_outstanding_decisions_are_refused(change):
    learner = Learner("multi-layer-race", ARMS, HORIZON)
    batch = learner.decide_many(4)
    learner.learn(batch[0], 1.0)
    snapshot = learner.snapshot()
    records = np.frombuffer(snapshot.outstanding, dtype=batch.records.dtype).copy()
    assert records["number"].tolist() == [1, 2, 3]
    for name, value in change.items():
        records[name][1] = value
    for crafted in (records.tobytes(), snapshot.outstanding[:-1]):
        forged = msgspec.structs.replace(snapshot, outstanding=crafted).sealed()
        with pytest.raises(DamagedFile, match="outstanding decisions"):
            Learner.restore(forged)


@pytest.mark.parametrize("name", POLICIES)
def test_only_posteriors_read_the_memo_of_a_ticket_made_elsewhere(name):
    def learned(memo):
        state = POLICIES.make(name).start(3, HORIZON)
        learn(state, assign(state, Ticket(0, memo=memo)), 0.5)
        return state

    reads = name in ("thompson", "thompson-cf", "leaf-thompson", "restarting")  # its base is one
    assert equal_states(learned(0.0), learned(0.7)) != reads
