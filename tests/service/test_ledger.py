"""The ledger: no answer before its events are durable, and none that rests on a failed turn."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service import MemoryStore, Service
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


def test_old_snapshots_are_removed(clock):
    store = MemoryStore()
    service = Service(store, clock=clock)
    service.ledger._snapshot_events = 10
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
    from armrace.service.chain import Head, link
    from armrace.service.events import Rewarded, encode

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
