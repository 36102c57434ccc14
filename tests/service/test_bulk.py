"""Many events at once give the same state, bit for bit, as one by one."""

from __future__ import annotations

import random
import zlib

import pytest

from armrace.errors import ArmraceError, DamagedFile
from armrace.service import MemoryStore, Service, bulk, log_parts, rulings_aside
from armrace.service.chain import Head, link
from armrace.service.events import Rewarded, encode
from armrace.service.folding import load_state
from serving import Clock, experiment_bytes, folded_bytes, live_bytes, take_turns_twice

SETTINGS = {
    "by window": {"policy": "ucb1", "horizon": 2000},
    "at once": {"policy": "ucb1", "horizon": 2000, "settle": "immediate"},
    "dropped": {"policy": "ucb1", "horizon": 2000, "missing": "drop"},
    "floors": {"policy": "ucb1", "horizon": 2000, "floors": {"a": 0.2, "c": 0.1}},
    "fresh starts": {"policy": "ucb1", "horizon": None},
}


def fill(service: Service, clock: Clock, seed: int, visits: int = 150, **settings) -> None:
    """Let things of all kinds happen to an experiment."""
    rng = random.Random(seed)
    made: list = []
    missing = settings.pop("missing", 0)
    service.create("ads", ["a", "b", "c"], missing, window=5, quarantine=0.5, seed=1, **settings)
    for visit in range(visits):
        made += service.decide_many("ads", rng.randint(1, 4))
        if rng.random() < 0.2:
            made.append(service.decide("ads", eligible=["a", "b"], unit=f"unit {visit % 7}"))
        for decision in rng.sample(made[-20:], min(len(made), 3)):
            source, suspicion = f"source {rng.randint(0, 2)}", rng.choice([None, 0.9])
            value = rng.choice([0.0, 0.25, 1.0])
            service.reward_many([(decision, value)], source, suspicion)
        if rng.random() < 0.02:
            act = rng.choice([service.retract, service.release])
            act("ads", source=f"source {rng.randint(0, 2)}")
        if visit == 100:
            service.add_arm("ads", "d")
        clock.move(rng.choice([0, 0.1, 0.5, 3]))


@pytest.fixture
def in_bulk(monkeypatch):
    """Apply every run at once, however short."""
    monkeypatch.setattr(bulk, "_LEAST", 0)


def one_by_one(store: MemoryStore, monkeypatch) -> bytes:
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "_LEAST", 10**9)
        return folded_bytes(store, snapshots=False)


def note_learner(learner):
    """Return all that the learner knows, in place of what an audit finds."""
    return 0, float(zlib.crc32(repr(learner.inspect()).encode()))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_log_folds_at_once_as_it_does_one_by_one(settings, clock, monkeypatch):
    monkeypatch.setattr("armrace.service.experiment.FIRST_HORIZON", 40)
    monkeypatch.setattr("armrace.service.history._findings", note_learner)
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, seed=3, **settings)
    expected = one_by_one(service.ledger.store, monkeypatch)
    assert live_bytes(service) == expected
    applied: list[int] = []
    original = bulk._Run.apply
    monkeypatch.setattr(
        bulk._Run, "apply", lambda run: (applied.append(run._events.size), original(run))
    )
    monkeypatch.setattr(bulk, "_LEAST", 0)
    monkeypatch.setattr(bulk, "_pays", lambda *_: True)
    assert folded_bytes(service.ledger.store, snapshots=False) == expected
    assert sum(applied) > 300
    marks = service.ledger._state.find("main", "ads").history.marks
    assert len({mark.certificate for mark in marks}) > 2


def test_a_log_that_rewards_what_is_not_open_is_refused(clock, in_bulk):
    store = MemoryStore()
    service = Service(store, clock=clock)
    fill(service, clock, seed=1, visits=10, policy="ucb1", horizon=2000)
    head = Head(store.records[-1].sequence, store.records[-1].digest)
    event = Rewarded(clock.now, 0, 2, 5)
    store.records.append(link(head, encode(event), 2))
    store.kept_snapshots.clear()
    with store.turn() as turn, pytest.raises(DamagedFile, match="rewards decision 2"):
        load_state(turn)


def interrupted(service, monkeypatch, between):
    """Let something happen between all turns of a ruling."""
    for module in (log_parts, rulings_aside):
        monkeypatch.setattr(module, "PART", 50)
    submit, calls = service.ledger.submit, [0]

    def submit_and_more(requests):
        outcome = submit(requests)
        calls[0] += 1
        monkeypatch.setattr(service.ledger, "submit", submit)
        between(calls[0])
        monkeypatch.setattr(service.ledger, "submit", submit_and_more)
        return outcome

    monkeypatch.setattr(service.ledger, "submit", submit_and_more)
    return calls


@pytest.mark.parametrize("settle", ["window", "immediate"])
def test_others_are_served_while_a_ruling_is_made(settle, clock, monkeypatch):
    """The state is that of a log that was folded at the end, and nobody waits for the fold."""
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, 2, policy="ucb1", horizon=2000, settle=settle)
    kept = service.decide_many("ads", 40)

    def between(call: int) -> None:
        service.decide("ads")
        service.reward_many([(kept.pop(), 1.0)], source="source 1")
        clock.move(0.2)

    calls = interrupted(service, monkeypatch, between)
    answer = service.retract("ads", source="source 1")
    monkeypatch.undo()
    assert answer.folded_again
    assert calls[0] > 10
    assert live_bytes(service) == folded_bytes(service.ledger.store, snapshots=False)
    assert service.retract("ads", source="source 1", until=clock.now).rewards <= 1


def test_a_ruling_that_comes_while_another_is_made_is_kept(clock, monkeypatch):
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, 2, policy="ucb1", horizon=2000)

    def between(call: int) -> None:
        if call == 4:
            service.retract("ads", source="source 2")

    interrupted(service, monkeypatch, between)
    service.retract("ads", source="source 1")
    monkeypatch.undo()
    assert live_bytes(service) == folded_bytes(service.ledger.store, snapshots=False)
    assert service.retract("ads", source="source 2").rewards == 0
    assert service.retract("ads", source="source 1").rewards == 0


def test_a_ruling_whose_turns_are_broken_off_is_made_once(clock, monkeypatch):
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, 2, policy="ucb1", horizon=2000)
    expected = service.retract("ads", source="source 1", preview=True)
    clock.move(10)  # windows close, so that the last turn has an event of its own before the ruling
    for module in (log_parts, rulings_aside):
        monkeypatch.setattr(module, "PART", 50)
    take_turns_twice(service, monkeypatch, lambda: clock.move(1))
    answer = service.retract("ads", source="source 1")
    monkeypatch.undo()
    assert answer.rewards == expected.rewards
    assert live_bytes(service) == folded_bytes(service.ledger.store, snapshots=False)
    assert service.retract("ads", source="source 1").rewards == 0


def test_a_preview_beside_others_changes_nothing(clock, monkeypatch):
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, 2, policy="ucb1", horizon=2000)
    service.describe("ads")  # settles what is due
    before = experiment_bytes(service)
    interrupted(service, monkeypatch, lambda call: None)
    preview = service.retract("ads", source="source 1", preview=True)
    assert experiment_bytes(service) == before
    service.retract("ads", source="source 1")
    monkeypatch.undo()
    assert service.describe("ads").layers == preview.after.layers


def test_a_ruling_that_is_refused_adds_nothing(clock, monkeypatch):
    service = Service(MemoryStore(), clock=clock)
    fill(service, clock, 2, policy="ucb1", horizon=2000, visits=40)
    for module in (log_parts, rulings_aside):
        monkeypatch.setattr(module, "PART", 10)
    before = service.ledger.sequence
    for refused in ({}, {"decisions": ["forged"]}, {"source": "x", "reason": "y" * 2000}):
        with pytest.raises(ArmraceError):
            service.retract("ads", **refused)
    assert service.ledger.sequence == before
