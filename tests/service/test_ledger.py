"""The ledger: no answer before its events are durable, and none that rests on a failed turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from armrace.errors import DamagedFile, InvalidParameter, RequestFailed, StoreFailed
from armrace.service import MemoryStore, Service
from armrace.service.chain import Head, link
from armrace.service.events import PhaseChanged, Rewarded, Ticked, encode
from armrace.service.experiment import Experiment
from armrace.service.requests.decisions import Decide
from serving import folded_bytes, live_bytes


class FailingStore(MemoryStore):
    """Fails at the end of a turn that has appended something, when told to."""

    fails = False

    @contextmanager
    def turn(self):
        with self._lock, super().turn() as turn:
            before = turn.head
            yield turn
            if self.fails and turn.head != before:
                raise StoreFailed("the disk is full.")


class RecoveringStore(FailingStore):
    recovers = True


def test_a_failed_turn_answers_nothing_and_stops_the_service(clock):
    store = FailingStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    records = len(store.records)
    store.fails = True
    with pytest.raises(StoreFailed, match="the disk is full"):
        service.reward(decision, 1.0)
    store.fails = False
    with pytest.raises(StoreFailed, match="the disk is full"):
        service.reward(decision, 1.0)
    assert len(store.records) == records
    again = Service(store, service.keyring, clock=clock)
    assert again.reward(decision, 1.0) == "accepted"


def test_a_store_that_recovers_is_served_again_from_its_log(clock):
    store = RecoveringStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward(decision, 1.0)
    with pytest.raises(StoreFailed):
        service.decide("ads", request="r")
    store.fails = False
    assert service.reward(decision, 1.0) == "accepted"
    assert not service.decide("ads", request="r").repeated
    assert folded_bytes(store) == live_bytes(service)


def test_a_duplicate_is_not_answered_before_the_first_copy_is_durable(clock):
    """Both copies in one turn that fails: neither may be answered."""
    store = RecoveringStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    decision = service.decide("ads")
    store.fails = True
    with pytest.raises(StoreFailed):
        service.reward_many([(decision, 1.0), (decision, 1.0)])
    store.fails = False
    statuses = [each.status for each in service.reward_many([(decision, 1.0), (decision, 1.0)])]
    assert statuses == ["accepted", "duplicate"]


def test_requests_that_wait_are_served_by_one_turn(clock):
    """While one turn is held up, eight threads gather; the next turn serves all of them."""
    turns = []
    gate, waiting = threading.Event(), threading.Event()

    class Counting(MemoryStore):
        @contextmanager
        def turn(self):
            with super().turn() as turn:
                turns.append(1)
                if turns == ["armed", 1]:
                    waiting.set()
                    assert gate.wait(30)
                yield turn

    service = Service(Counting(), clock=clock)
    service.create("ads", ["a", "b"], 0)
    turns[:] = ["armed"]
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(service.decide("ads"))) for _ in range(9)
    ]
    threads[0].start()
    assert waiting.wait(30)
    for thread in threads[1:]:
        thread.start()
    while len(service.ledger._waiting) < 8:
        pass
    gate.set()
    for thread in threads:
        thread.join()
    assert len({answer.decision for answer in answers}) == 9
    assert turns == ["armed", 1, 1]


def test_two_services_on_one_store_see_one_log(clock):
    store = MemoryStore()
    one = Service(store, clock=clock)
    other = Service(store, one.keyring, clock=clock)
    one.create("ads", ["a", "b", "c"], 0, window=10, horizon=100)
    decisions = [each.decide("ads") for each in (one, other) * 20]
    assert len({decision.decision for decision in decisions}) == 40
    for number, decision in enumerate(decisions):
        assert (other, one)[number % 2].reward(decision, 1.0) == "accepted"
        assert (one, other)[number % 2].reward(decision, 1.0) == "duplicate"
    clock.move(10)
    one.describe("ads")
    one.retract("ads", decisions[:10])
    other.names()
    assert live_bytes(one) == live_bytes(other) == folded_bytes(store, snapshots=False)


def test_a_snapshot_saves_reading_the_log(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 50)
    service.close()
    with store.turn() as turn:
        assert turn.snapshots() == [51]
    state = folded_bytes(store)
    again = Service(store, service.keyring, clock=clock)
    again.decide("ads")
    assert state != live_bytes(again) == folded_bytes(store, snapshots=False)
    with pytest.raises(StoreFailed, match="closed"):
        service.decide("ads")


def test_a_store_that_cannot_be_closed_lets_others_be_refused(clock, monkeypatch):
    store, told = MemoryStore(), []
    service = Service(store, clock=clock)

    def close():
        raise StoreFailed("cannot write the mark.")

    monkeypatch.setattr(store, "close", close)
    with pytest.raises(StoreFailed, match="cannot write the mark"):
        service.close()

    def ask():
        with pytest.raises(StoreFailed, match="closed") as refusal:
            service.names()
        told.append(refusal)

    thread = threading.Thread(target=ask, daemon=True)  # which may wait for ever
    thread.start()
    thread.join(20)
    assert len(told) == 1


def test_old_snapshots_are_removed(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.ledger.snapshot_events = 10
    service.create("ads", ["a", "b"], 0, window=1)
    for _ in range(200):
        clock.move(1)
        service.decide("ads")
    with store.turn() as turn:
        assert len(turn.snapshots()) == 4


@pytest.mark.parametrize("damage", ["missing", "changed", "reordered", "snapshot"])
def test_a_damaged_log_is_not_served(clock, damage):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    service.decide_many("ads", 10)
    if damage == "missing":
        del store.records[4]
    elif damage == "changed":
        payload = bytearray(store.records[4].payload)
        payload[-1] ^= 1
        store.records[4] = store.records[4]._replace(payload=bytes(payload))
    elif damage == "reordered":
        store.records[3:5] = store.records[4:2:-1]
    else:
        service.close()
        data = bytearray(store.kept_snapshots[11])
        data[100] ^= 1
        store.kept_snapshots[11] = bytes(data)
    with pytest.raises(DamagedFile):
        Service(store, service.keyring, clock=clock)


def test_events_that_cannot_follow_are_not_folded(clock):
    service = Service(MemoryStore(), clock=clock)
    service.create("ads", ["a", "b"], 0)
    store = service.ledger.store
    last = store.records[-1]
    event = Rewarded(clock.now, 0, 77, 5)
    store.records.append(link(Head(last.sequence, last.digest), encode(event), 77))
    with pytest.raises(DamagedFile, match="decision 77, which is not open"):
        service.names()


def test_refusals_in_a_batch_leave_the_others_standing(service):
    service.create("ads", ["a", "b"], 0)
    with pytest.raises(InvalidParameter):
        service.decide("ads", eligible=["x"])
    assert service.describe("ads").decisions == 0


def test_memory_does_not_grow_with_settled_decisions(service, clock):
    service.create("ads", ["a", "b"], 0, window=1)
    sizes = []
    for _ in range(3):
        for _ in range(10):
            for decision in service.decide_many("ads", 100):
                service.reward(decision, 1.0)
            clock.move(1)
        service.describe("ads")
        service.ledger._state.find("main", "ads").history.marks.clear()  # bounded by themselves
        sizes.append(len(live_bytes(service)))
    assert service.describe("ads").open == 0
    assert max(sizes) - min(sizes) < 40  # digits of counts


@pytest.mark.parametrize("error", [InvalidParameter("no."), ZeroDivisionError()])
def test_an_event_that_cannot_be_applied_leaves_nothing(clock, monkeypatch, error):
    """The state had moved on when it failed: it must be thrown away, and no snapshot made of it."""
    store = MemoryStore()
    service = Service(store, clock=clock)
    for name in ("ads", "mails"):
        service.create(name, ["a", "b"], 0)
    service.decide_many("ads", 3)
    before, records = live_bytes(service), len(store.records)

    original = Experiment._decided

    def decided(self, sequence, event):
        if sequence > records:
            raise error
        original(self, sequence, event)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "_decided", decided)
        with pytest.raises((InvalidParameter, RequestFailed)) as raised:
            service.decide("ads")
    assert error in (raised.value, raised.value.__cause__)
    assert len(store.records) == records
    service.names()
    assert live_bytes(service) == before
    service.close()
    again = Service(store, service.keyring, clock=clock)
    assert again.decide("mails").arm in ("a", "b")
    assert folded_bytes(store, snapshots=False) == live_bytes(again)


class _Fails:
    """A request that adds an event and fails."""

    def perform(self, books):
        books.add(PhaseChanged(books.time, 0, "paused"))
        raise ZeroDivisionError


def test_a_request_that_fails_leaves_others_of_the_turn_alone(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    decide = Decide(service.tenant, "ads")
    one, failed, other = service.ledger.submit([decide, _Fails(), decide])
    assert isinstance(failed, RequestFailed)
    assert "failed because of a defect: ZeroDivisionError" in str(failed)
    assert one.decision != other.decision
    assert service.describe("ads").decisions == 2
    assert folded_bytes(store, snapshots=False) == live_bytes(service)


class _Refuses:
    """A request that looks at an experiment and is refused."""

    def perform(self, books):
        books.settled("main", "ads")
        raise InvalidParameter("no.")


def test_a_refusal_after_time_has_passed_is_a_refusal(service, clock):
    """To look at an experiment settles what is due, and that is kept."""
    service.create("ads", ["a", "b"], 0, window=10)
    service.decide_many("ads", 5)
    clock.move(10)
    with pytest.raises(InvalidParameter, match="1e-300"):
        service.audit("ads", level=1e-310)
    state = service.ledger._state
    assert [str(each) for each in service.ledger.submit([_Refuses()])] == ["no."]
    assert service.ledger._state is state
    assert len(state.experiments[0].open) == 0
    assert service.decide("ads").arm in ("a", "b")
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


@pytest.mark.parametrize("lost", [1, 5, "replaced"])
def test_a_shared_log_that_has_lost_its_end_is_noticed(clock, lost):
    """As after a failover to a replica that had not received everything."""
    store = MemoryStore()
    one = Service(store, clock=clock)
    one.create("ads", ["a", "b"], 0)
    one.decide_many("ads", 10)
    if lost == "replaced":
        *_, earlier, last = store.records
        ticked = encode(Ticked(clock.now, 0))
        store.records[-1] = link(Head(earlier.sequence, earlier.digest), ticked)
        assert store.records[-1].sequence == last.sequence
    else:
        del store.records[-lost:]
    for _ in range(2):
        with pytest.raises((DamagedFile, StoreFailed), match="has lost acknowledged events"):
            one.decide("ads")


def test_damage_that_is_met_while_serving_stops_the_service(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0, window=10)
    decisions = service.decide_many("ads", 10)
    service.reward_many([(decision, 1.0) for decision in decisions])
    clock.move(10)
    service.describe("ads")
    payload = bytearray(store.records[4].payload)
    payload[-1] ^= 1
    store.records[4] = store.records[4]._replace(payload=bytes(payload))
    with pytest.raises(DamagedFile, match="record 5 does not match its digest"):
        service.retract("ads", decisions[:3])
    with pytest.raises(StoreFailed, match="record 5 does not match its digest"):
        service.names()


def test_no_snapshot_is_saved_that_does_not_end_where_the_log_ends(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.create("ads", ["a", "b"], 0)
    state = service.ledger._state
    state.head = state.head._replace(sequence=state.head.sequence + 1)
    with pytest.raises(DamagedFile, match="has lost acknowledged events"):
        service.close()
    assert not store.kept_snapshots


@pytest.mark.parametrize("begun", [False, True])
def test_ctrl_c_between_two_statements_is_for_one_thread(clock, monkeypatch, begun):
    """Whoever waited is served by the next turn; if the turn was begun, nobody knows."""
    service = Service(MemoryStore(), clock=clock)
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    ledger, perform = service.ledger, service.ledger._perform
    leading, waiting = threading.Event(), threading.Event()

    def interrupted(jobs, own):
        if leading.is_set():
            return perform(jobs, own)
        leading.set()
        waiting.wait(60)
        jobs.extend(ledger._waiting)  # the leader took a waiting job too
        ledger._waiting.clear()
        own.begun = begun
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "_perform", interrupted)
    found = {}

    def decide(name):
        try:
            found[name] = service.decide("ads")
        except BaseException as error:
            found[name] = error

    first = threading.Thread(target=decide, args=("first",))
    first.start()
    leading.wait(60)
    second = threading.Thread(target=decide, args=("second",))
    second.start()
    while not ledger._waiting:
        pass
    waiting.set()
    first.join(60)
    second.join(60)
    assert isinstance(found["first"], KeyboardInterrupt)
    if begun:
        assert isinstance(found["second"], StoreFailed)
    else:
        assert found["second"].arm in ("a", "b")
    assert service.decide("ads").arm in ("a", "b")
