"""The live learner: tickets, late feedback, snapshots, threads."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from armrace.errors import DamagedFile, ForeignTicket, InvalidParameter, UnknownName
from armrace.online import Learner, Snapshot, Ticket

ARMS = ["red", "green", "blue"]


@pytest.fixture
def learner():
    return Learner("multi-layer-race", arms=ARMS, horizon=1000, seed=1)


def test_a_ticket_names_the_arm_as_the_user_does(learner):
    ticket = learner.decide()
    assert ticket == Ticket("red", 1.0, number=0, arm_index=0, layer=ticket.layer, note=0)


def test_rewards_may_come_late_in_any_order_or_never(learner):
    tickets = [learner.decide() for _ in range(10)]
    for ticket in reversed(tickets[3:]):
        learner.learn(ticket, 0.5)
    views = learner.inspect()
    assert sum(view.assigned for view in views) == 10
    assert sum(view.pulls for view in views) == 7
    assert learner.pending == 3


def test_order_of_rewards_does_not_matter_for_what_a_race_knows():
    one = Learner("multi-layer-race", arms=ARMS, horizon=1000, seed=1)
    other = Learner("multi-layer-race", arms=ARMS, horizon=1000, seed=1)
    tickets = [one.decide() for _ in range(30)]
    assert tickets == [other.decide() for _ in range(30)]
    for ticket in tickets:
        one.learn(ticket, ticket.number % 2)
    for ticket in reversed(tickets):
        other.learn(ticket, ticket.number % 2)
    assert one.inspect() == other.inspect()


def test_a_decision_takes_one_reward(learner):
    ticket = learner.decide()
    learner.learn(ticket, 1.0)
    before = learner.snapshot()
    with pytest.raises(ForeignTicket, match="decision 0 has had its reward already"):
        learner.learn(ticket, 1.0)
    assert learner.snapshot() == before


@pytest.mark.parametrize(
    "change",
    [
        {"arm": "green"},
        {"number": 1},
        {"number": -1},
        {"arm_index": 3},
        {"arm_index": -1},
        {"layer": 10},
        {"layer": -2},
        {"probability": 0.0},
        {"probability": float("nan")},
        {"probability": 1.5},
    ],
)
def test_a_ticket_that_was_never_given_is_refused(learner, change):
    ticket = learner.decide()._replace(**change)
    before = learner.snapshot()
    with pytest.raises(ForeignTicket, match="no decision of this learner"):
        learner.learn(ticket, 1.0)
    assert learner.snapshot() == before


@pytest.mark.parametrize("ticket", [None, (), ("red", 1.0), ("red", "a", "b", "c", "d", "e")])
def test_what_is_no_ticket_is_refused(learner, ticket):
    learner.decide()
    with pytest.raises(ForeignTicket, match="no decision of this learner"):
        learner.learn(ticket, 1.0)


@pytest.mark.parametrize("reward", [-0.1, 1.1, float("nan"), float("inf"), "much", None])
def test_a_reward_outside_the_unit_interval_is_refused(learner, reward):
    ticket = learner.decide()
    with pytest.raises(InvalidParameter, match=r"reward must be in \[0, 1\]; got"):
        learner.learn(ticket, reward)
    learner.learn(ticket, 1.0)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"arms": ["red"]}, "arms must name at least 2 arms; got 1."),
        ({"arms": 1}, "arms must name at least 2 arms; got 1."),
        ({"arms": 2.5}, "arms must be a list of names or a number; got 2.5."),
        ({"arms": "red"}, "arms must be a list of names or a number; got 'red'."),
        ({"arms": ["red", "red"]}, "arms must have different names; some are equal."),
        ({"horizon": 0}, r"horizon must be in \[1, 1e\+15\]; got 0."),
        ({"horizon": 2.5}, "horizon must be a whole number; got 2.5."),
        ({"seed": -1}, "seed must be in .*; got -1."),
    ],
)
def test_bad_parameters_are_refused_with_a_sentence(given, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        Learner(**{"policy": "ucb1", "arms": 2, "horizon": 100, **given})


def test_an_unknown_policy_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'ucb1'"):
        Learner("ucb2", arms=2, horizon=100)


@pytest.mark.parametrize("form", ["to_json", "to_bytes"])
def test_a_restored_learner_goes_on_as_the_uninterrupted_one(learner, form):
    held = [learner.decide() for _ in range(150)]
    for ticket in held[:100]:
        learner.learn(ticket, 1.0)
    restored = Learner.restore(getattr(learner.snapshot(), form)())
    assert restored.pending == 50
    with pytest.raises(ForeignTicket):
        restored.learn(held[3], 1.0)
    for ticket in held[100:]:
        learner.learn(ticket, 0.0)
        restored.learn(ticket, 0.0)
    for _ in range(300):
        ticket = learner.decide()
        assert restored.decide() == ticket
        learner.learn(ticket, 0.3)
        restored.learn(ticket, 0.3)
    assert restored.snapshot() == learner.snapshot()


def test_a_snapshot_is_plain_data(learner):
    learner.learn(learner.decide(), 1.0)
    plain = json.loads(learner.snapshot().to_json())
    assert plain["policy"]["name"] == "multi-layer-race"
    assert plain["arms"] == ARMS
    assert plain["format"] == 1
    assert Learner.restore(plain).snapshot() == learner.snapshot()


def test_a_snapshot_does_not_change_when_the_learner_goes_on(learner):
    snapshot = learner.snapshot()
    json_before = snapshot.to_json()
    learner.learn(learner.decide(), 1.0)
    assert snapshot.to_json() == json_before


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"horizon":1000', b'"horizon":1001'),
        lambda data: data.replace(b'"format":1', b'"format":2'),
        lambda data: data.replace(b'"taken"', b'"token"'),
        lambda data: b"",
        lambda data: b"not a snapshot",
        lambda data: b"[]",
    ],
)
def test_a_damaged_snapshot_is_refused(learner, damage):
    with pytest.raises(DamagedFile):
        Learner.restore(damage(learner.snapshot().to_json()))


def test_a_snapshot_of_another_shape_is_refused(learner):
    snapshot = learner.snapshot()
    pulls = snapshot.state["pulls"]
    smaller = msgspec.structs.replace(pulls, shape=(1, 3), data=pulls.data[:24])
    state = {**snapshot.state, "pulls": smaller}
    with pytest.raises(DamagedFile, match="pulls does not fit"):
        Learner.restore(msgspec.structs.replace(snapshot, state=state).sealed())
    with pytest.raises(DamagedFile, match="not one of this policy"):
        Learner.restore(msgspec.structs.replace(snapshot, state={"pulls": pulls}).sealed())


def test_the_distribution_can_be_asked_for(learner):
    assert learner.distribution() == {"red": 1.0, "green": 0.0, "blue": 0.0}
    ticket = learner.decide()
    weights = learner.distribution()
    assert sum(weights.values()) == pytest.approx(1)
    assert weights["green"] == Learner("multi-layer-race", 3, 1000)._state.share[ticket.layer]


def test_a_sealed_snapshot_reads_back_as_itself(learner):
    snapshot = learner.snapshot()
    assert Snapshot.read(snapshot.to_bytes()) == snapshot == Snapshot.read(snapshot)


def test_many_threads_lose_and_repeat_nothing(learner):
    def work(_):
        tickets = []
        for _ in range(500):
            ticket = learner.decide()
            learner.learn(ticket, 1.0)
            tickets.append(ticket.number)
        return tickets

    with ThreadPoolExecutor(8) as pool:
        numbers = [number for part in pool.map(work, range(8)) for number in part]
    assert sorted(numbers) == list(range(4000))
    assert learner.pending == 0
    fallbacks = 4000 - sum(view.assigned for view in learner.inspect())
    assert sum(view.pulls for view in learner.inspect()) == 4000 - fallbacks
