"""Void: whole visits are taken back, and the state is that of a log without them, bit for bit."""

import random

import msgspec
import pytest

from armrace.errors import DecisionExpired, RewardConflict
from armrace.policies import POLICIES
from armrace.service.model.events import Contradicted, Decided, Rewarded, verdicts_in
from armrace.service.model.experiment import ExperimentState
from serving import (
    a_few,
    events,
    is_replay,
    live,
    live_bytes,
    records,
    replayed_bytes,
    sequence_of,
    snapshots_of,
)

SETTLE = ["window", "immediate"]
FEW = ["tsallis-inf", "sharp-race", "ucb1", "thompson"]


def comparable(content: bytes, rulings: bool = True) -> bytes:
    """A state without its head and its list of voided visits, and perhaps past rulings."""
    data = msgspec.msgpack.decode(content[16:])
    if not rulings:
        data[17][4].clear()
        for visit in data[13]:
            visit[15] = None
    del data[14], data[1]
    return msgspec.msgpack.encode(data)  # not as plain data, in which NaN is not equal to itself


def without(service, decisions):
    """The state that the log yields without the records of some visits, numbers as they are.

    What is ruled about other visits is known in advance, as in every replay.
    """
    gone = {sequence_of(service, each) for each in decisions}
    kept = [
        (record, event)
        for record, event in events(service)
        if not (isinstance(event, Decided) and record.sequence in gone)
        and not (isinstance(event, (Rewarded, Contradicted)) and event.decision in gone)
    ]
    verdicts = {n: v for n, v in verdicts_in(records(service)).items() if n not in gone}
    return comparable(ExperimentState.replay(kept, verdicts=verdicts).save())


def play(service, clock, rounds=60, *, seed=1, seconds=0.7, **settings):
    """Visits with and without rewards, some contradicted; points of the history in between."""
    if "ads" not in service.names():
        defaults = {"policy": "tsallis-inf", "window": 20, "horizon": 1000, "seed": 7}
        service.create("ads", ["a", "b", "c"], 0, **{**defaults, **settings})
    rng, decisions = random.Random(seed), []
    for number in range(rounds):
        clock.move(seconds)
        source, labels = f"bot{number % 3}", {"campaign": str(number % 2)}
        made = service.decide("ads", unit=f"unit {seed} {number}", source=source, labels=labels)
        decisions.append(made)
        if number >= 5 and rng.random() < 0.7:
            earlier = decisions[number - 5]
            reward = float(rng.random() < 0.5)
            service.reward(earlier, reward, source=f"bot{number % 4}")
            if rng.random() < 0.2:
                with pytest.raises(RewardConflict):
                    service.reward(earlier, 0.25)
    return decisions


def close_all(service, clock):
    clock.move(1000)
    service.describe("ads")


def check_void(service, decisions):
    """Void visits; the state must be that of a log without them, however it is come by."""
    answer = service.void("ads", decisions)
    assert (answer.visits, answer.changed) == (len(decisions), len(decisions))
    assert answer.replayed
    expected = without(service, decisions)
    assert comparable(live_bytes(service)) == expected
    assert comparable(replayed_bytes(service)) == expected
    assert is_replay(service)
    return answer


@pytest.mark.parametrize("settle", SETTLE)
@pytest.mark.parametrize("policy", FEW)
def test_a_voided_visit_leaves_the_state_of_a_log_without_it(service, clock, policy, settle):
    decisions = play(service, clock, policy=policy, settle=settle)
    before = live_bytes(service)
    check_void(service, [decisions[3], decisions[30], *decisions[40:50]])
    assert live_bytes(service) != before
    play(service, clock, rounds=20, seed=2)
    close_all(service, clock)
    assert is_replay(service)


@pytest.mark.parametrize("policy", a_few(POLICIES))
def test_every_policy_can_lose_visits(service, clock, policy):
    decisions = play(service, clock, rounds=40, policy=policy)
    check_void(service, decisions[2:30:3])
    assert service.decide("ads").arm in ("a", "b", "c")
    assert is_replay(service)


@pytest.mark.parametrize("which", ["open", "settled", "unrewarded", "rewarded", "all"])
@pytest.mark.parametrize("settle", SETTLE)
def test_open_and_settled_visits_rewarded_or_not(service, clock, settle, which):
    decisions = play(service, clock, settle=settle)
    rewarded = {event.decision for _, event in events(service) if isinstance(event, Rewarded)}
    still_open = {visit.sequence for visit in live(service).open}
    fits = {
        "open": lambda number: number in still_open,
        "settled": lambda number: number not in still_open,
        "unrewarded": lambda number: number not in rewarded,
        "rewarded": lambda number: number in rewarded,
        "all": lambda number: True,
    }[which]
    # All but the last, whose place in the random stream a log without it would not know.
    chosen = [each for each in decisions[:-1] if fits(sequence_of(service, each))]
    assert len(chosen) >= 10
    check_void(service, chosen)
    assert service.describe("ads").decisions == len(decisions) - len(chosen)


@pytest.mark.parametrize("settle", SETTLE)
def test_across_generations_of_a_guessed_horizon(service, clock, settle, monkeypatch):
    monkeypatch.setattr("armrace.service.model.experiment.FIRST_HORIZON", 10)
    decisions = play(service, clock, rounds=80, horizon=None, settle=settle)
    view = service.describe("ads")
    assert view.generation == 3
    check_void(service, [*decisions[5:12], decisions[25], *decisions[65:75]])
    assert service.describe("ads").generation == 3  # generations begin where they did
    play(service, clock, rounds=74, seed=2)
    assert service.describe("ads").generation == 3  # 5 of its 10 were taken back: 79 of 80
    service.decide("ads")
    assert service.describe("ads").generation == 4
    assert is_replay(service)


@pytest.mark.parametrize("settle", SETTLE)
def test_with_floors(service, clock, settle):
    decisions = play(service, clock, floors={"a": 0.3, "c": 0.2}, settle=settle)
    by = [event.by for _, event in events(service) if isinstance(event, Decided)]
    assert {"policy", "floor"} == set(by)
    check_void(service, decisions[4:40:2])


@pytest.mark.parametrize("policy", ["tsallis-inf", "sharp-race"])
def test_with_arms_that_came_and_went(service, clock, policy):
    decisions = play(service, clock, rounds=30, policy=policy)
    service.add_arm("ads", "d")
    decisions += play(service, clock, rounds=30, seed=2)
    service.retire_arm("ads", "b")
    decisions += play(service, clock, rounds=30, seed=3)
    check_void(service, decisions[3:85:4])
    assert {each.arm for each in service.decide_many("ads", 40)} <= {"a", "c", "d"}


def test_with_visits_that_somebody_else_decided(service, clock):
    play(service, clock, rounds=10, policy="ucb1")
    recorded = [service.record("ads", "b", source="editor") for _ in range(5)]
    service.reward_many([(each, 1.0) for each in recorded])
    play(service, clock, rounds=10, seed=2)
    check_void(service, recorded[:3])


def test_with_other_rulings_about_other_visits(service, clock):
    decisions = play(service, clock, quarantine=0.5)
    service.retract("ads", decisions[10:20])
    service.hold("ads", decisions[20:25])
    check_void(service, decisions[2:8])
    service.release("ads", decisions[12:15])
    play(service, clock, rounds=10, seed=4)
    check_void(service, decisions[26:30])
    gone = [*decisions[2:8], *decisions[26:30]]
    assert comparable(live_bytes(service)) == without(service, gone)


@pytest.mark.parametrize("settle", SETTLE)
def test_a_void_that_is_taken_back_restores_the_state(service, clock, settle):
    decisions = play(service, clock, settle=settle)
    before = comparable(live_bytes(service), rulings=False)
    service.void("ads", decisions[3:40])
    assert comparable(live_bytes(service), rulings=False) != before
    answer = service.release("ads", decisions[3:40])
    assert (answer.changed, answer.replayed) == (37, True)
    assert comparable(live_bytes(service), rulings=False) == before
    assert [each.verdict for each in service.history("ads").rulings] == ["void", "release"]
    assert is_replay(service)


@pytest.mark.parametrize("settle", SETTLE)
def test_rewards_of_voided_visits_are_accepted_and_ignored(service, clock, settle):
    """A bot must not learn that it was found out."""
    decisions = play(service, clock, rounds=10, settle=settle)
    voided = service.decide("ads", unit="bot")
    play(service, clock, rounds=3, seed=3)
    service.void("ads", voided)
    decided = service.describe("ads").decisions
    assert service.reward(voided, 1.0, source="bots") == "accepted"
    assert service.reward(voided, 1.0) == "duplicate"
    with pytest.raises(RewardConflict):
        service.reward(voided, 0.0)
    clock.move(30)
    service.describe("ads")
    assert service.reward(voided, 1.0) == "duplicate"
    with pytest.raises(RewardConflict):
        service.reward(voided, 0.0)
    service.decide("ads")
    assert len(live(service).voided) <= 1
    assert comparable(live_bytes(service)) == without(service, [voided])
    assert "bots" not in {each.source for each in service.sources("ads")}
    assert service.describe("ads").decisions == decided + 1
    assert service.describe("ads").conflicts == _conflicts_of(service, decisions)
    assert is_replay(service)
    late = service.decide("ads")
    service.void("ads", late)
    clock.move(30)
    with pytest.raises(DecisionExpired):
        service.reward(late, 1.0)


def _conflicts_of(service, decisions):
    named = {sequence_of(service, each) for each in decisions}
    found = [e for _, e in events(service) if isinstance(e, Contradicted)]
    return sum(each.decision in named for each in found)


def test_no_random_number_is_used_twice(service, clock):
    """Decisions after a void are others than those that were taken back."""
    play(service, clock, rounds=5)
    made = service.decide_many("ads", 30)
    taken = [event.taken for _, event in events(service) if isinstance(event, Decided)]
    service.void("ads", made)
    service.decide_many("ads", 30)
    later = [event.taken for _, event in events(service) if isinstance(event, Decided)][-30:]
    assert min(later) > max(taken)
    assert is_replay(service)


def test_voids_replay_from_the_last_snapshot_before_them(service, clock, monkeypatch):
    service.engine.snapshot_step = 20
    decisions = play(service, clock, rounds=100)
    close_all(service, clock)
    before = snapshots_of(service)
    late = sequence_of(service, decisions[90])
    bases = []
    replay = type(service.engine.reader(1)).replay
    monkeypatch.setattr(
        type(service.engine.reader(1)),
        "replay",
        lambda reader, *given: bases.append(found := replay(reader, *given)) or found,
    )
    check_void(service, decisions[90:92])
    assert bases[0].base == max(each for each in before if each < late)
    check_void(service, [decisions[0]])
    assert bases[1].base == 0
    # Snapshots on the way were made again, and are those of the log without the visits.
    with service.engine.store.transaction() as transaction:
        for sequence in transaction.snapshots(1):
            state = ExperimentState.load(transaction.load_snapshot(1, sequence))
            gone = {sequence_of(service, each) for each in [decisions[0], *decisions[90:92]]}
            assert not gone & {visit.sequence for visit in state.open}
    assert is_replay(service)
