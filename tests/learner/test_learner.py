"""The live learner: decisions, late feedback, refusals, snapshots, threads."""

import math
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest

from armrace.errors import DamagedFile, ForeignTicket, InvalidParameter, UnknownName
from armrace.kernels.states import equal_states
from armrace.learner import Assigned, Decision, Learner, Ticket
from armrace.policies import MultiLayerRace, Ucb1

ARMS = ["red", "green", "blue"]


@pytest.fixture
def learner():
    return Learner("multi-layer-race", arms=ARMS, horizon=1000, seed=1)


def test_a_decision_names_the_arm_as_the_user_does(learner):
    decision = learner.decide()
    assert decision == Decision(0, "red", Ticket(arm=0, layer=decision.ticket.layer))
    assert decision.probability == 1.0


def test_a_dropped_decision_counts_as_never_made(learner):
    decisions = [learner.decide() for _ in range(10)]
    learner.drop(decisions[4])
    assert learner.pending == 9
    assert sum(view.assigned for view in learner.inspect()) == 9
    with pytest.raises(ForeignTicket, match="decision 4 has had its reward already"):
        learner.learn(decisions[4], 1.0)
    with pytest.raises(ForeignTicket, match="decision 4 has had its reward already"):
        learner.drop(decisions[4])


def test_a_decision_takes_one_reward(learner):
    decision = learner.decide()
    learner.learn(decision, 1.0)
    before = learner.snapshot()
    with pytest.raises(ForeignTicket, match="decision 0 has had its reward already"):
        learner.learn(decision, 1.0)
    assert learner.snapshot() == before


FORGED = {
    "arm": (1, 3, -1),
    "layer": (10, -2, -1),
    "probability": (0.0, math.nan, 1.5, 0.25, 1e-200),
    "phase": (1,),
    "memo": (1.0, math.nan, math.inf, 1e200),
    "inner_layer": (10, 1),
    "inner_probability": (0.5, 0.0),
    "inner_arm": (3, 2, -2, -3),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_ticket_that_was_never_given_is_refused(learner, name):
    decision = learner.decide()
    before = learner.snapshot()
    for value in FORGED[name]:
        forged = decision._replace(ticket=decision.ticket._replace(**{name: value}))
        for refused in (learner.learn, lambda decision, _: learner.drop(decision)):
            with pytest.raises(ForeignTicket, match="no decision of this learner"):
                refused(forged, 1.0)
    assert learner.snapshot() == before


@pytest.mark.parametrize("change", [{"arm": "green"}, {"arm": 0}, {"number": 1}, {"number": -1}])
def test_a_decision_that_was_never_made_is_refused(learner, change):
    decision = learner.decide()._replace(**change)
    before = learner.snapshot()
    with pytest.raises(ForeignTicket, match="no decision of this learner"):
        learner.learn(decision, 1.0)
    assert learner.snapshot() == before


@pytest.mark.parametrize(
    "decision", [None, (), 5, ("red", 1.0), (0, "red", None), (0, "red", ("a", "b", "c", "d"))]
)
def test_what_is_no_decision_is_refused(learner, decision):
    learner.decide()
    with pytest.raises(ForeignTicket, match="no decision of this learner"):
        learner.learn(decision, 1.0)


def test_an_unknown_policy_is_refused_with_the_nearest_name():
    with pytest.raises(UnknownName, match="did you mean 'ucb1'"):
        Learner("ubc1", arms=2, horizon=100)


@pytest.mark.parametrize("form", ["to_json", "to_bytes"])
def test_a_restored_learner_goes_on_as_the_uninterrupted_one(learner, form):
    held = [learner.decide() for _ in range(150)]
    for decision in held[:100]:
        learner.learn(decision, 1.0)
    restored = Learner.restore(getattr(learner.snapshot(), form)())
    assert restored.pending == 50
    for number in (3, 96, 99):  # some of them in what the snapshot has as settled
        with pytest.raises(ForeignTicket, match=f"decision {number} has had its reward already"):
            restored.learn(held[number], 1.0)
    for decision in held[100:]:
        learner.learn(decision, 0.0)
        restored.learn(decision, 0.0)
    for _ in range(1500):  # beyond the room that there is at first
        decision = learner.decide()
        assert restored.decide() == decision
        learner.learn(decision, 0.3)
        restored.learn(decision, 0.3)
    assert restored.snapshot() == learner.snapshot()
    assert equal_states(restored._state, learner._state)


def test_a_snapshot_does_not_grow_with_settled_decisions(learner):
    def size():
        return len(learner.snapshot().rewarded)

    for _ in range(800):
        learner.learn(learner.decide(), 1.0)
    assert size() == 0
    held = learner.decide()
    for _ in range(79):
        learner.learn(learner.decide(), 1.0)
    assert size() == 10
    learner.learn(held, 1.0)
    assert size() == 0
    restored = Learner.restore(learner.snapshot())
    for _ in range(80):
        restored.learn(restored.decide(), 1.0)
    assert restored.snapshot().rewarded == b""
    assert restored.snapshot().settled == 960


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b'"horizon":1000', b'"horizon":1001'),
        lambda data: data.replace(b'"format":3', b'"format":2'),
        lambda data: data.replace(b'"taken"', b'"token"'),
        lambda data: b"",
        lambda data: b"not a snapshot",
        lambda data: b"[]",
        lambda data: b'{"policy":' + b"[" * 5000,
        lambda data: "\ud800",
        lambda data: None,
        lambda data: 5,
        lambda data: [data],
        lambda data: {},
        lambda data: {1: 2},
    ],
)
def test_a_damaged_snapshot_is_refused(learner, damage):
    with pytest.raises(DamagedFile):
        Learner.restore(damage(learner.snapshot().to_json()))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_snapshot_is_read_from_anything_like_bytes(learner, kind):
    for form in (learner.snapshot().to_json(), learner.snapshot().to_bytes()):
        assert Learner.restore(kind(form)).snapshot() == learner.snapshot()


def test_a_snapshot_of_another_shape_is_refused(learner):
    snapshot = learner.snapshot()
    pulls = snapshot.state["pulls"]
    smaller = msgspec.structs.replace(pulls, shape=(1,), data=pulls.data[:8])
    state = {**snapshot.state, "pulls": smaller}
    with pytest.raises(DamagedFile, match="pulls does not fit"):
        Learner.restore(msgspec.structs.replace(snapshot, state=state).sealed())
    with pytest.raises(DamagedFile, match="not one of this policy"):
        Learner.restore(msgspec.structs.replace(snapshot, state={"pulls": pulls}).sealed())


def test_a_key_keeps_strangers_from_making_snapshots(learner):
    learner.learn(learner.decide(), 1.0)
    sealed = learner.snapshot(key=b"secret")
    assert Learner.restore(sealed.to_json(), key=b"secret").snapshot() == learner.snapshot()
    assert sealed.digest != learner.snapshot().digest
    with pytest.raises(DamagedFile, match="damaged or was not sealed with this key"):
        Learner.restore(sealed, key=b"guess")
    with pytest.raises(DamagedFile, match="damaged or was sealed with a key"):
        Learner.restore(sealed)
    with pytest.raises(DamagedFile, match="damaged or was not sealed with this key"):
        Learner.restore(learner.snapshot(), key=b"secret")
    forged = msgspec.structs.replace(sealed, seed=2)
    with pytest.raises(DamagedFile, match="digest"):
        Learner.restore(forged.sealed(), key=b"secret")
    for key in (b"", "secret", 5):
        with pytest.raises(InvalidParameter, match="key must be bytes"):
            learner.snapshot(key=key)
        with pytest.raises(InvalidParameter, match="key must be bytes"):
            Learner.restore(sealed, key=key)


def test_the_distribution_can_be_asked_for(learner):
    assert learner.distribution() == {"red": 1.0, "green": 0.0, "blue": 0.0}
    decision = learner.decide()
    weights = learner.distribution()
    assert sum(weights.values()) == pytest.approx(1)
    share = Learner("multi-layer-race", 3, 1000)._state.share
    assert weights["green"] == share[decision.ticket.layer]


def test_many_threads_lose_and_repeat_nothing(learner):
    def work(_):
        numbers = []
        for _ in range(500):
            decision = learner.decide()
            learner.learn(decision, 1.0)
            numbers.append(decision.number)
        return numbers

    with ThreadPoolExecutor(8) as pool:
        numbers = [number for part in pool.map(work, range(8)) for number in part]
    assert sorted(numbers) == list(range(4000))
    assert learner.pending == 0
    fallbacks = 4000 - sum(view.assigned for view in learner.inspect())
    assert sum(view.pulls for view in learner.inspect()) == 4000 - fallbacks
    assert len(learner.log) == 8000


def test_eligible_arms_are_read_before_the_lock_is_taken(learner):
    """A generator may ask the learner itself, which would wait for its own lock."""

    def unlikely():
        assert not learner._lock.locked()
        weights = learner.distribution()
        yield min(weights, key=weights.get)

    assert learner.decide(unlikely()).arm == "green"
    assert learner.choose(unlikely()).arm == 1


class AtTheLock:
    """A lock that lets another thread's change happen just before it is taken."""

    def __init__(self, lock, change):
        self._lock, self._change = lock, change

    def __enter__(self):
        change, self._change = self._change, None
        if change:
            change()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_what_another_thread_changes_before_the_lock_is_seen():
    learner = Learner("ucb1", ["red", "green"], 100)
    lock = learner._lock

    def before_the_lock(change):
        learner._lock = AtTheLock(lock, change)

    before_the_lock(lambda: learner.add_arm("blue"))
    with pytest.raises(InvalidParameter, match="must have a new name; 'blue' is there already"):
        learner.add_arm("blue")
    before_the_lock(lambda: learner.add_arm("pink"))
    assert list(learner.distribution()) == learner.arms == ["red", "green", "blue", "pink"]
    before_the_lock(learner.decide)
    with pytest.raises(InvalidParameter, match="must assign decision 1; got 0"):
        learner.apply(Assigned(0, Ticket(0)))
    assert Learner.restore(learner.snapshot()).arms == learner.arms


def test_a_snapshot_is_restored_with_its_own_policy_only():
    learner = Learner(MultiLayerRace(delta=0.1), 2, 1000)
    snapshot = learner.snapshot()
    assert Learner.restore(snapshot, MultiLayerRace(delta=0.1)).snapshot() == snapshot
    for other in (MultiLayerRace(delta=0.2), Ucb1()):
        with pytest.raises(DamagedFile, match=r"is one of the policy .*'delta': 0.1.*; got "):
            Learner.restore(snapshot, other)
    # A class that has moved is taken from the caller, with the parameters that were saved.
    moved = {**snapshot.policy, "name": "no_such_module:MultiLayerRace"}
    elsewhere = msgspec.structs.replace(snapshot, policy=moved).sealed()
    assert Learner.restore(elsewhere, MultiLayerRace(delta=0.1)).policy == learner.policy
    with pytest.raises(DamagedFile, match="no_such_module"):
        Learner.restore(elsewhere, MultiLayerRace(delta=0.2))


def test_shares_that_add_to_more_than_one_are_not_held_against_a_decision():
    """With these shares all layers together have 1 + 2^-52, which a race may put on a ticket."""
    policy = {"name": "multi-layer-race", "base": 2.5}
    learner = Learner(policy, arms=2, horizon=1000)
    decision = learner.decide()
    assert decision.probability == np.nextafter(1.0, 2.0)
    learner.learn(decision, 1.0)
    assert learner.pending == 0
