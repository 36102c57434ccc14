"""Retraction, release and quarantine: as if a reward had never come, or had always counted."""

from __future__ import annotations

import random

import msgspec
import pytest

from armrace.errors import ForeignTicket, InvalidParameter
from armrace.service import log_parts
from armrace.service.views import view_of
from serving import folded_bytes, learned, live_bytes

SETTLE = ["window", "immediate"]
POLICIES = ["tsallis-inf", "sharp-race", "ucb1"]


def play(service, clock, rounds=60, leave_out=(), seed=1, **settings):
    """Decide one at a time, and reward each after a while; return decisions and rewards."""
    if "ads" not in service.names():
        defaults = {"policy": "tsallis-inf", "window": 20, "horizon": 1000, "seed": 7}
        service.create("ads", ["a", "b", "c"], 0, **{**defaults, **settings})
    rng, decisions = random.Random(seed), []
    for number in range(rounds):
        clock.move(1)
        decisions.append(service.decide("ads"))
        reward = float(rng.random() < 0.5)
        if number >= 5 and number - 5 not in leave_out:
            service.reward(decisions[number - 5], reward, source=f"bot{number % 3}")
    return decisions


def close_all(service, clock):
    clock.move(1000)
    service.describe("ads")


@pytest.mark.parametrize("settle", SETTLE)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_retracted_reward_leaves_the_state_as_if_it_had_never_come(
    make_service, clock, policy, settle
):
    """Decisions are replayed as they were made, since a retraction does not unmake them."""
    service = make_service()
    decisions = play(service, clock, policy=policy, settle=settle)
    close_all(service, clock)
    answer = service.retract("ads", [decisions[3], decisions[30]], reason="bots")
    assert (answer.rewards, answer.folded_again) == (2, True)
    never = _without_rewards(service, make_service, {3, 30}, decisions)
    assert learned(service) == learned(never)
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


def _without_rewards(service, make_service, numbers, decisions):
    """A service with the same log, without the rewards of some decisions and their retraction."""
    from armrace.service.chain import Head, link
    from armrace.service.events import Retracted, Rewarded, decode

    named = {
        service.keyring.signing_keys().read("main", decisions[n].decision).sequence for n in numbers
    }
    other = make_service()
    store, head, places = other.ledger.store, Head(0, bytes(16)), {}
    for record in service.ledger.store.records:
        event = decode(record.payload)
        if isinstance(event, Retracted):
            continue
        if isinstance(event, Rewarded):
            if event.decision in named:
                continue
            event = msgspec.structs.replace(event, decision=places[event.decision])
        new = link(head, msgspec.msgpack.encode(event), getattr(event, "decision", None))
        places[record.sequence] = new.sequence
        store.records.append(new)
        head = Head(new.sequence, new.digest)
    other.ledger._state = None
    other.names()
    return other


def test_a_reward_retracted_within_its_window_never_enters(make_service, clock):
    service = make_service()
    decisions = play(service, clock, rounds=10)
    answer = service.retract("ads", [decisions[2]])
    assert (answer.rewards, answer.folded_again) == (1, False)
    close_all(service, clock)
    never = _without_rewards(service, make_service, {2}, decisions)
    assert learned(service) == learned(never)


@pytest.mark.parametrize("settle", SETTLE)
def test_a_retraction_that_is_taken_back_changes_nothing(make_service, clock, settle):
    service = make_service()
    decisions = play(service, clock, settle=settle)
    close_all(service, clock)
    before = learned(service)
    service.retract("ads", decisions[3:20])
    assert learned(service) != before
    assert service.release("ads", decisions[3:20]).rewards == 17
    assert learned(service) == before
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


@pytest.mark.parametrize("settle", SETTLE)
@pytest.mark.parametrize("closed", [True, False])
def test_a_released_reward_counts_as_if_it_had_never_been_in_quarantine(
    make_service, clock, settle, closed
):
    def run(suspicion):
        service = make_service()
        service.create("ads", ["a", "b"], 0, window=20, settle=settle, quarantine=0.5, seed=3)
        for number, decision in enumerate(service.decide_many("ads", 10)):
            service.reward(decision, 1.0, suspicion=suspicion if number in (2, 7) else 0.1)
        if closed:
            clock.move(20)
        return service

    began = clock.now
    suspected = run(0.9)
    quarantine = suspected.quarantine("ads")
    assert [each.suspicion for each in quarantine] == [0.9, 0.9]
    assert suspected.release("ads", [each.decision for each in quarantine]).rewards == 2
    assert suspected.quarantine("ads") == []
    clock.now = began + 30_000
    suspected.describe("ads")
    clock.now = began
    trusted = run(0.1)
    clock.now = began + 30_000
    trusted.describe("ads")
    assert learned(suspected) == learned(trusted)


def test_the_log_is_read_no_further_than_the_quarantine_needs(service, clock, monkeypatch):
    """The dashboard asks again and again: without a reward in quarantine, nothing is read."""
    monkeypatch.setattr("armrace.service.log_parts.PART", 10)
    read = []
    original = log_parts.ReadPart.perform

    def perform(self, books):
        read.append(self.after)
        return original(self, books)

    monkeypatch.setattr(log_parts.ReadPart, "perform", perform)
    service.create("ads", ["a", "b"], 0, window=10, quarantine=0.5)
    decisions = service.decide_many("ads", 50)
    assert service.quarantine("ads") == [] == read
    service.reward(decisions[3], 1.0, suspicion=0.9)
    service.decide_many("ads", 50)
    assert [each.decision for each in service.quarantine("ads")] == [5]
    assert read == [0, 10, 20, 30, 40, 50]
    clock.move(10)
    service.describe("ads")
    assert len(service.quarantine("ads")) == 1
    service.release("ads", [decisions[3]])
    del read[:]
    assert service.quarantine("ads") == [] == read


def test_the_answer_does_not_reveal_the_quarantine(service, clock):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=5, horizon=100, quarantine=0.5)
    one, two = service.decide_many("ads", 2)
    assert service.reward(one, 1.0, suspicion=0.4) == service.reward(two, 1.0, suspicion=0.6)
    assert service.reward(one, 1.0, suspicion=0.4) == service.reward(two, 1.0, suspicion=0.6)
    clock.move(5)
    view = service.describe("ads")
    assert sum(arm.withheld for arm in view.arms) == 1
    assert sorted(layer.mean for layer in view.layers) == [0.0, 1.0]  # missing counts as 0


def test_rewards_are_retracted_by_source_and_by_time(service, clock):
    play(service, clock, rounds=50)
    assert service.retract("ads", source="bot1").rewards == 15
    assert service.retract("ads", source="bot1").rewards == 0
    middle = clock.now - 10_000
    assert service.retract("ads", since=middle).rewards == 7  # of 11, without those of bot1
    assert service.retract("ads", source="bot2", until=middle).rewards == 12
    assert service.retract("ads", source="nobody").rewards == 0
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


def test_a_preview_changes_nothing_and_foretells_the_retraction(service, clock):
    play(service, clock, rounds=50)
    close_all(service, clock)
    before, records = live_bytes(service), len(service.ledger.store.records)
    preview = service.retract("ads", source="bot0", preview=True)
    assert (live_bytes(service), len(service.ledger.store.records)) == (before, records)
    answer = service.retract("ads", source="bot0")
    assert answer.rewards == preview.rewards == 15
    after = view_of(service.ledger._state.find("main", "ads"))
    assert preview.after == after
    assert preview.before != preview.after


def test_retractions_use_the_latest_snapshot_that_they_leave_valid(service, clock):
    decisions = play(service, clock, rounds=50)
    service.ledger.snapshot_events = 1
    decisions += play(service, clock, rounds=50, seed=2)
    with service.ledger.store.turn() as turn:
        assert len(turn.snapshots()) > 1
    service.ledger.snapshot_events = 10**6
    decisions += play(service, clock, rounds=50, seed=3)
    close_all(service, clock)
    service.retract("ads", [decisions[120]])
    assert folded_bytes(service.ledger.store) == live_bytes(service)
    service.retract("ads", [decisions[10]])
    assert folded_bytes(service.ledger.store) == live_bytes(service)
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)


def test_what_cannot_be_retracted_is_refused(service, clock):
    play(service, clock, rounds=10)
    with pytest.raises(InvalidParameter, match="must give decisions, a source or a time"):
        service.retract("ads")
    with pytest.raises(ForeignTicket):
        service.retract("ads", ["forged"])
    assert service.retract("ads", [10**6, -5, 2**70]).rewards == 0


@pytest.mark.parametrize("restart", ["service", "catch up"])
def test_a_ruling_read_from_the_log_can_be_overruled(make_service, clock, restart):
    """A retraction that a restart or another process has read must not hide a later release."""
    from armrace.service import Service

    service = make_service()
    other = Service(service.ledger.store, service.keyring, clock=clock)
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=100)
    decision = service.decide("ads")
    service.reward(decision, 1.0)
    service.retract("ads", [decision])
    reader = Service(service.ledger.store, service.keyring, clock=clock)
    if restart == "catch up":
        reader = other
        reader.names()
    assert reader.release("ads", [decision]).rewards == 1
    clock.move(10)
    assert sum(arm.rewarded for arm in reader.describe("ads").arms) == 1
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(reader)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (0, "each of these decisions now counts as a visit that earned 0, and visits of bots"),
        ("drop", "these decisions teach nothing now"),
    ],
)
def test_a_retraction_says_what_it_leaves_behind(service, missing, words):
    service.create("ads", ["a", "b"], missing, policy="ucb1", window=60, horizon=1000)
    service.reward(service.decide("ads"), 1.0, source="bots")
    for preview in (True, False):
        assert words in service.retract("ads", source="bots", preview=preview).leaves
    assert service.release("ads", source="bots").leaves == ""
