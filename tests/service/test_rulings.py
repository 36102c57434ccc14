"""Retraction, release and quarantine: as if a reward had never come, or had always counted."""

import random

import pytest

from armrace.errors import InvalidParameter, Outdated
from armrace.service import Service
from armrace.service.loading import LogReader
from armrace.service.model.events import Rewarded, Ruled
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.views import view_of
from serving import (
    START,
    events,
    is_replay,
    learned,
    live,
    live_bytes,
    records,
    replayed_bytes,
    sequence_of,
    snapshots_of,
)

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
    assert (answer.changed, answer.replayed) == (2, True)
    assert learned(service) == without_rewards(service, [decisions[3], decisions[30]])
    assert is_replay(service)


def without_rewards(service, decisions):
    """What is learned from the same log without the rewards of some decisions, and rulings."""
    named = {sequence_of(service, each) for each in decisions}
    kept = [
        (record, event)
        for record, event in events(service)
        if not isinstance(event, Ruled)
        and not (isinstance(event, Rewarded) and event.decision in named)
    ]
    return ExperimentState.replay(kept).generation.save().learner


def test_a_reward_retracted_within_its_window_never_enters(make_service, clock):
    service = make_service()
    decisions = play(service, clock, rounds=10)
    answer = service.retract("ads", [decisions[2]])
    assert (answer.changed, answer.replayed) == (1, False)
    close_all(service, clock)
    assert learned(service) == without_rewards(service, [decisions[2]])


@pytest.mark.parametrize("settle", SETTLE)
def test_a_retraction_that_is_taken_back_changes_nothing(make_service, clock, settle):
    service = make_service()
    decisions = play(service, clock, settle=settle)
    close_all(service, clock)
    before = learned(service)
    service.retract("ads", decisions[3:20])
    assert learned(service) != before
    assert service.release("ads", decisions[3:20]).changed == 17
    assert learned(service) == before
    assert is_replay(service)


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
    assert suspected.release("ads", [each.decision for each in quarantine]).changed == 2
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
    service.create("ads", ["a", "b"], 0, window=10, quarantine=0.5)
    decisions = service.decide_many("ads", 50)
    monkeypatch.setattr("armrace.service.loading.PART", 10)
    read = []
    parts = LogReader.parts

    def noted(reader, *arguments, **more):
        for part in parts(reader, *arguments, **more):
            read.append(part[0].sequence - 1)
            yield part

    monkeypatch.setattr(LogReader, "parts", noted)
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
    assert service.retract("ads", sources="bot1").changed == 15
    assert service.retract("ads", sources="bot1").changed == 0
    middle = clock.now - 10_000
    answer = service.retract("ads", since=middle)
    assert (answer.visits, answer.rewarded) == (11, 6)
    assert answer.changed == 4  # without those of bot1
    assert service.retract("ads", sources="bot2", until=middle).changed == 13
    assert service.retract("ads", sources="nobody").changed == 0
    assert is_replay(service)


def test_a_preview_changes_nothing_and_foretells_the_retraction(service, clock):
    play(service, clock, rounds=50)
    close_all(service, clock)
    before, count = live_bytes(service), len(records(service))
    preview = service.retract("ads", sources="bot0", preview=True)
    assert (live_bytes(service), len(records(service))) == (before, count)
    answer = service.retract("ads", sources="bot0")
    assert answer.changed == preview.changed == 15
    shown = view_of(live(service))
    assert preview.after.arms == shown.arms
    assert preview.after.layers == shown.layers
    assert preview.after.decisions == shown.decisions
    assert preview.before != preview.after


def test_a_void_says_whether_visits_without_a_reward_may_be_missing(service, clock):
    decisions = play(service, clock)
    said = "If bots also came and sent none"
    assert said in service.void("ads", sources="bot0", preview=True).notes[0]
    assert said in service.void("ads", decisions[:3], preview=True).notes[0]
    service.reward(service.decide("ads", source="crawler"), 1.0)
    assert service.void("ads", sources="crawler", preview=True).notes == []
    silent = service.decide("ads")
    assert service.void("ads", [decisions[0], silent], preview=True).notes == []


def test_held_rewards_name_the_source_of_their_visit(service, clock):
    play(service, clock)
    service.reward(service.decide("ads", source="crawler"), 1.0)
    service.hold("ads", sources="crawler")
    assert [each.source for each in service.quarantine("ads")] == ["crawler"]


def test_retractions_use_the_latest_snapshot_that_they_leave_valid(service, clock):
    decisions = play(service, clock, rounds=50)
    service.engine.snapshot_step = 1
    decisions += play(service, clock, rounds=50, seed=2)
    assert len(snapshots_of(service)) > 1
    service.engine.snapshot_step = 10**6
    decisions += play(service, clock, rounds=50, seed=3)
    close_all(service, clock)
    service.retract("ads", [decisions[120]])
    assert is_replay(service)
    service.retract("ads", [decisions[10]])
    assert is_replay(service)
    assert is_replay(service)


def test_what_cannot_be_retracted_is_refused(service, clock):
    play(service, clock, rounds=10)
    with pytest.raises(InvalidParameter, match="must give decisions, requests, units, sources"):
        service.retract("ads")
    with pytest.raises(InvalidParameter, match="must give decisions, requests, units, sources"):
        service.void("ads", labels={})
    answer = service.retract("ads", ["forged", 10**6, -5, 2**70])
    assert (answer.changed, answer.unknown) == (0, 4)
    assert answer.unknown_listed == ["forged", 10**6, -5, 2**70]


@pytest.mark.parametrize("restart", ["service", "catch up"])
def test_a_ruling_read_from_the_log_can_be_overruled(make_service, clock, restart):
    """A retraction that a restart or another process has read must not hide a later release."""
    service = make_service()
    other = make_service(service.engine.store, service.keyring)
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=100)
    decision = service.decide("ads")
    service.reward(decision, 1.0)
    other.describe("ads")
    service.retract("ads", [decision])
    reader = other
    if restart == "service":
        reader = make_service(service.engine.store, service.keyring)
    assert reader.release("ads", [decision]).changed == 1
    clock.move(10)
    assert sum(arm.rewarded for arm in reader.describe("ads").arms) == 1
    assert replayed_bytes(service) == live_bytes(reader)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        (0, "each of these visits now counts as one that earned 0, and visits of bots"),
        ("drop", "these decisions teach nothing now"),
    ],
)
def test_a_retraction_says_what_it_leaves_behind(service, missing, words):
    service.create("ads", ["a", "b"], missing, policy="ucb1", window=60, horizon=1000)
    service.reward(service.decide("ads"), 1.0, source="bots")
    for preview in (True, False):
        assert words in service.retract("ads", sources="bots", preview=preview).notes[0]
    assert service.release("ads", sources="bots").notes == []


# --- how visits are selected ------------------------------------------------------------------

RULES = ["retract", "void", "hold"]


@pytest.fixture
def visited(service, clock):
    """Twelve visits, a second apart; the first nine have rewards."""
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=100, horizon=1000, seed=1)
    made = []
    for number in range(12):
        made.append(
            service.decide(
                "ads",
                unit=f"unit {number}",
                request=f"request {number}",
                source="shop" if number % 2 else None,
                labels={"campaign": str(number % 3)},
            )
        )
        if number < 9:
            labels = {"publisher": str(number % 4)}
            service.reward(made[-1], 1.0, source=f"source {number % 2}", labels=labels)
        clock.move(1)
    return service, made


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("selection", "numbers", "unknown"),
    [
        ({"requests": ["request 3", "request 10", "nobody"]}, [3, 10], ["nobody"]),
        ({"units": ["unit 0", "unit 11", "unit 99"]}, [0, 11], ["unit 99"]),
        ({"units": []}, [], []),
        ({"sources": ["shop", "other"]}, [1, 3, 5, 7, 9, 11], ["other"]),  # said by decide
        ({"sources": "source 0"}, [0, 2, 4, 6, 8], []),  # said with the reward
        ({"labels": {"campaign": "1"}}, [1, 4, 7, 10], []),
        ({"labels": {"publisher": "2"}}, [2, 6], []),
        ({"labels": {"campaign": "0", "publisher": "2"}}, [6], []),
        ({"since": START + 4000}, [4, 5, 6, 7, 8, 9, 10, 11], []),
        ({"until": START + 3000}, [0, 1, 2], []),
        ({"since": START + 2000, "until": START + 5000, "sources": ["shop"]}, [3], []),
        ({"units": ["unit 3", "unit 4"], "sources": ["source 1"]}, [3], []),
        ({"units": ["unit 1"], "requests": ["request 9"]}, [], []),
        ({"units": ["unit 1"], "sources": ["unit 1"]}, [], ["unit 1"]),
    ],
)
def test_visits_are_selected_by_all_that_is_given(visited, rule, selection, numbers, unknown):
    service, made = visited
    answer = getattr(service, rule)("ads", **selection)
    rewarded = [number for number in numbers if number < 9]
    assert (answer.visits, answer.rewarded) == (len(numbers), len(rewarded))
    assert answer.changed == len(numbers if rule == "void" else rewarded)
    assert (answer.unknown, answer.unknown_listed) == (len(unknown), unknown)
    named = [event for _, event in events(service) if isinstance(event, Ruled)]
    changed = numbers if rule == "void" else rewarded
    expected = [sequence_of(service, made[number]) for number in changed]
    assert [each for event in named for each in event.decisions] == expected
    if rule != "void":
        standing = {"retract": "retracted", "hold": "quarantined"}[rule]
        found = [visit.sequence for visit in live(service).open if visit.standing == standing]
        assert [each for each in found if each in expected] == expected
    assert is_replay(service)


def test_many_unknown_identifiers_are_counted_and_some_listed(visited):
    service, made = visited
    answer = service.void("ads", [*made[:2], *(f"forged {number}" for number in range(500))])
    assert (answer.changed, answer.unknown) == (2, 500)
    assert answer.unknown_listed == [f"forged {number}" for number in range(100)]


def test_a_decision_of_another_experiment_is_unknown(visited):
    service, _ = visited
    service.create("mails", ["a", "b"], 0)
    other = service.decide("mails")
    answer = service.void("ads", [other])
    assert (answer.visits, answer.unknown_listed) == (0, [other.decision])


def test_the_log_says_how_visits_were_selected_but_names_no_unit(visited):
    service, _ = visited
    service.void("ads", units=["unit 0"], reason="a bot")
    service.hold("ads", sources=["source 1"], since=START + 1)
    hold, void, *_ = service.actions("ads")
    assert (void.action, void.detail, void.reason) == ("void", "1 visit by 1 unit", "a bot")
    assert (hold.action, hold.detail) == (
        "hold",
        "4 visits by source source 1; since 2023-11-14 22:13 UTC",
    )


# --- previews ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", ["retract", "void", "hold"])
def test_a_ruling_is_about_what_its_preview_has_shown(visited, rule):
    """Visits and rewards that came since stay out of it, and stay as they are."""
    service, made = visited
    call = getattr(service, rule)
    preview = call("ads", sources=["source 0", "shop"], preview=True)
    assert preview.head == service.describe("ads").head
    later = service.decide("ads", source="shop")
    service.reward(later, 1.0, source="shop")
    service.reward(made[9], 1.0, source="source 0")
    answer = call("ads", sources=["source 0", "shop"], head=preview.head)
    assert (answer.visits, answer.changed) == (preview.visits, preview.changed)
    assert answer.head == service.describe("ads").head != preview.head
    (ruled,) = (event for _, event in events(service) if isinstance(event, Ruled))
    assert sequence_of(service, later) not in ruled.decisions
    assert is_replay(service)


@pytest.mark.parametrize("rule", ["retract", "void", "hold"])
def test_a_ruling_is_refused_if_something_was_changed_since_its_preview(visited, rule):
    service, made = visited
    call = getattr(service, rule)
    head = call("ads", sources=["source 0"], preview=True).head
    service.retract("ads", [made[0]])
    before = live_bytes(service)
    with pytest.raises(Outdated, match="something was changed since the preview"):
        call("ads", sources=["source 0"], head=head)
    for wrong in ("", "nonsense", "5-0000", "-1-x", f"{10**30}-x", head[:-1] + "x"):
        with pytest.raises(Outdated, match="the preview is not one of this log"):
            call("ads", sources=["source 0"], head=wrong)
    assert live_bytes(service) == before
    again = call("ads", sources=["source 0"], preview=True)
    assert call("ads", sources=["source 0"], head=again.head).changed == again.changed
    assert is_replay(service)


def test_a_ruling_with_a_head_is_refused_if_a_change_comes_while_it_is_made(visited, monkeypatch):
    service, _ = visited
    head = service.void("ads", sources=["shop"], preview=True).head
    replay = LogReader.replay

    def replay_late(reader, ruled, end):
        found = replay(reader, ruled, end)
        service.pause("ads")
        return found

    monkeypatch.setattr(LogReader, "replay", replay_late)
    with pytest.raises(Outdated):
        service.void("ads", sources=["shop"], head=head)
    assert service.describe("ads").decisions == 12
    assert is_replay(service)


def test_what_comes_while_a_ruling_is_made_is_part_of_its_state(visited, clock, monkeypatch):
    service, made = visited
    replay = LogReader.replay

    def replay_late(reader, ruled, end):
        found = replay(reader, ruled, end)
        service.reward(made[9], 1.0)
        service.decide_many("ads", 5)
        return found

    monkeypatch.setattr(LogReader, "replay", replay_late)
    assert service.void("ads", made[:3]).changed == 3
    assert service.describe("ads").decisions == 14
    assert is_replay(service)


def test_two_rulings_at_once_are_made_one_after_the_other(visited, monkeypatch):
    """One by another server that comes between the replay and its event: it is made again."""
    service, made = visited
    other = Service(service.engine.store, service.keyring, clock=service.engine._log_time._clock)
    replay, done = LogReader.replay, []

    def replay_late(reader, ruled, end):
        found = replay(reader, ruled, end)
        if not done:
            done.append(True)
            other.void("ads", made[4:6])
        return found

    monkeypatch.setattr(LogReader, "replay", replay_late)
    with other:
        assert service.void("ads", made[:3]).changed == 3
        assert service.describe("ads").decisions == 7
        assert is_replay(service)
        assert live_bytes(other) == live_bytes(service)


# --- holding ----------------------------------------------------------------------------------


@pytest.mark.parametrize("settle", SETTLE)
def test_a_held_reward_counts_when_it_is_released(service, clock, settle):
    decisions = play(service, clock, settle=settle)
    close_all(service, clock)
    before = learned(service)
    answer = service.hold("ads", decisions[3:20])
    assert (answer.changed, answer.replayed) == (17, True)
    assert learned(service) == without_rewards(service, decisions[3:20])
    assert [each.decision for each in service.quarantine("ads")] == [
        sequence_of(service, each) for each in decisions[3:20]
    ]
    service.release("ads", decisions[3:20])
    assert learned(service) == before
    assert service.quarantine("ads") == []
    assert is_replay(service)


@pytest.mark.parametrize(
    ("hold", "held"),
    [
        ({"sources": ["bots"]}, [0, 2]),
        ({"labels": {"campaign": "x"}}, [0, 1]),
        ({"sources": ["bots"], "labels": {"campaign": "x"}}, [0]),
    ],
)
def test_a_standing_hold_holds_what_comes(service, clock, hold, held):
    service.create("ads", ["a", "b"], 0, policy="ucb1", window=10, horizon=1000)

    def visits():
        made = service.decide_many("ads", 4)
        for decision, source, campaign in zip(
            made, ("bots", "web", "bots", None), "xxyy", strict=True
        ):
            service.reward(decision, 1.0, source=source, labels={"campaign": campaign})
        return [sequence_of(service, each) for each in made]

    visits()
    answer = service.hold("ads", **hold, standing=True, reason="odd")
    assert answer.changed == len(held)  # those that have come
    (standing,) = service.describe("ads").holds
    assert (standing.source, standing.labels) == (
        hold.get("sources", [None])[0],
        hold.get("labels", {}),
    )
    numbers = visits()
    quarantined = [each.decision for each in service.quarantine("ads")][len(held) :]
    assert quarantined == [numbers[each] for each in held]
    clock.move(10)
    assert sum(arm.withheld for arm in service.describe("ads").arms) == 2 * len(held)
    service.release("ads", **hold, standing=True)
    assert service.describe("ads").holds == []
    visits()
    assert service.quarantine("ads") == []
    assert sum(arm.withheld for arm in service.describe("ads").arms) == 0
    assert is_replay(service)
    actions = [each.action for each in service.actions("ads")]
    assert actions[:4] == ["end-standing-hold", "release", "begin-standing-hold", "hold"]


@pytest.mark.parametrize(
    "selection",
    [
        {"units": ["u"]},
        {"sources": ["x", "y"]},
        {"sources": ["x"], "since": 5},
        {"decisions": [5], "sources": ["x"]},
    ],
)
def test_what_cannot_stand_is_refused(service, selection):
    service.create("ads", ["a", "b"], 0)
    with pytest.raises(InvalidParameter, match="a standing hold takes one source, labels, or both"):
        service.hold("ads", **selection, standing=True)
