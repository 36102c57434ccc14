"""Rewards that add up within the window of a decision."""

import itertools
import random

import pytest

from armrace.errors import DecisionExpired, InvalidParameter, RewardConflict
from armrace_client import Client
from armrace_client.calls import RewardItem
from armrace_client.operations import LeasedVisit
from serving import events, is_replay, learned, live, sequence_of

WATCHED = {"returned": {"low": 0, "high": 50, "worse": "higher"}}


def create(service, **settings):
    defaults = {"policy": "ucb1", "window": 10, "horizon": 1000, "seed": 1, "quarantine": 0.5}
    more = {**defaults, "rewards": (0, 100), "accumulate": True, "guardrails": WATCHED, **settings}
    service.create("shop", ["a", "b"], 0, **more)


def buy(service, decision, order, value, **more):
    return service.reward(decision, value, part=order, **more)


def test_parts_add_up_to_the_largest_reward(service, clock):
    create(service)
    small, large, none = service.decide_many("shop", 3)
    for number, value in enumerate([10, 0, 25]):
        assert buy(service, small, f"order {number}", value) == "accepted"
    assert buy(service, large, "order 7", 70, metrics={"returned": 30}) == "accepted"
    assert buy(service, large, "order 8", 1e9, metrics={"returned": 30}) == "accepted"
    clock.move(10)
    view, rows = service.describe("shop"), service.rows("shop")
    assert [row.reward for row in rows] == [pytest.approx(35, abs=1e-4), 100, None]
    assert [row.parts for row in rows] == [3, 2, 0]
    assert [row.metrics for row in rows] == [{}, {"returned": 50}, {}]
    earned = sum(arm.mean * arm.closed for arm in view.arms if arm.closed)
    assert earned == pytest.approx(135, abs=1e-3)
    assert sum(arm.rewarded for arm in view.arms) == 2
    assert sum(each.count for each in view.guardrails[0].arms) == 1
    (source,) = service.sources("shop")
    assert (source.days[0].counted, source.days[0].mean) == (2, pytest.approx(67.5, abs=1e-3))
    (group,) = service.groups("shop").groups
    assert (group.rewarded, group.mean) == (2, pytest.approx(67.5, abs=1e-3))
    assert is_replay(service, "shop")
    assert none.arm in ("a", "b")


def test_each_part_counts_once_also_when_the_window_has_closed(service, clock):
    create(service)
    decision = service.decide("shop")
    assert buy(service, decision, "one", 10) == "accepted"
    assert buy(service, decision, "two", 10, metrics={"returned": 1}) == "accepted"
    for _ in range(2):
        assert buy(service, decision, "one", 10) == "duplicate"
        assert buy(service, decision, "two", 10, metrics={"returned": 1}) == "duplicate"
        with pytest.raises(RewardConflict, match="has had the reward 10; got 11"):
            buy(service, decision, "one", 11)
        with pytest.raises(RewardConflict, match="with other metrics"):
            buy(service, decision, "two", 10)
        clock.move(10)
    with pytest.raises(DecisionExpired):
        buy(service, decision, "three", 10)
    view = service.describe("shop")
    assert view.conflicts == 4
    assert sum(arm.mean * arm.closed for arm in view.arms if arm.closed) == pytest.approx(
        20, abs=1e-3
    )
    assert is_replay(service, "shop")
    names = [event.part for _, event in events(service, "shop") if hasattr(event, "part")]
    assert all(len(each) == 16 for each in names)  # hashes: an order may be of a person


def test_the_order_of_parts_does_not_matter(make_service, clock):
    parts = [("one", 0.0), ("two", 60.0), ("three", 30.0), ("four", 30.0)]
    states = set()
    for order in itertools.permutations(parts):
        service = make_service()
        create(service)
        decision = service.decide("shop")
        for name, value in order:
            buy(service, decision, name, value, metrics={"returned": value})
        clock.move(10)
        service.describe("shop")
        states.add((learned(service, "shop"), repr(service.describe("shop").guardrails)))
        clock.move(-10)
    assert len(states) == 1


def play(service, clock):
    """Orders of 30 visits, some suspicious in a later part, some of another source."""
    rng, made = random.Random(1), []
    for number in range(30):
        decision = service.decide("shop", source="site", unit=f"visitor {number}")
        for order in range(rng.randrange(4)):
            more = {"suspicion": 0.9} if number % 7 == 3 and order == 1 else {}
            source = "mill" if number % 5 == 2 and order == 1 else None
            buy(service, decision, f"order {order}", 10 + order, source=source, **more)
        made.append(decision)
        clock.move(0.1)
    return made


@pytest.mark.parametrize("closed", [False, True])
def test_rulings_take_whole_sums(service, clock, closed):
    create(service)
    made = play(service, clock)
    if closed:
        clock.move(10)
        service.describe("shop")
    rows = {row.decision: row for row in service.rows("shop")}
    suspicious = {row.decision for row in rows.values() if row.suspicion}
    assert suspicious
    held = {each.decision: each.value for each in service.quarantine("shop")}
    assert held == {number: rows[number].reward for number in suspicious}
    assert all(rows[number].counts is False for number in suspicious)
    several = {n for n, row in rows.items() if row.parts >= 2}
    from_mill = {sequence_of(service, made[n]) for n in range(2, 30, 5)} & several
    answer = service.retract("shop", sources=["mill"], preview=True)
    assert answer.visits == len(from_mill) > 0
    groups = {each.name: each for each in service.groups("shop").groups}
    assert groups["site"].held == len(suspicious)
    service.release("shop", [*suspicious])
    service.retract("shop", sources=["mill"])
    service.void("shop", made[:5])
    clock.move(10)
    view = service.describe("shop")
    counted = [row for row in service.rows("shop") if row.counts and not row.void]
    assert sum(arm.rewarded for arm in view.arms) == len(counted)
    total = sum(arm.mean * arm.closed for arm in view.arms if arm.closed)
    assert total == pytest.approx(sum(row.reward for row in counted))
    assert not {row.decision for row in counted} & from_mill
    service.release("shop", made)
    view = service.describe("shop")
    total = sum(arm.mean * arm.closed for arm in view.arms if arm.closed)
    assert total == pytest.approx(sum(row.reward or 0 for row in rows.values()))
    assert is_replay(service, "shop")


def test_a_standing_hold_holds_what_a_part_brings(service, clock):
    create(service)
    plain, early = service.decide("shop", source="site"), service.decide("shop")
    top = {"place": "top"}
    service.hold("shop", sources=["mill"], labels=top, standing=True)
    buy(service, plain, "one", 10, labels=top)
    buy(service, early, "one", 5, source="mill")
    assert not service.quarantine("shop")
    buy(service, early, "two", 5, labels=top)  # of a visit that is from the mill
    buy(service, plain, "two", 20, source="mill")  # of one that has the label
    buy(service, plain, "three", 5)  # what is held stays so
    values = {each.decision: each.value for each in service.quarantine("shop")}
    first, second = sequence_of(service, plain), sequence_of(service, early)
    assert values == pytest.approx({first: 35, second: 10}, abs=1e-3)
    days = {each.source: each.days[0] for each in service.sources("shop")}
    assert {name: (day.counted, day.quarantined) for name, day in days.items()} == {
        "site": (0, 1),
        "mill": (0, 1),
    }
    assert {each.name: each.held for each in service.groups("shop").groups} == {
        "site": 1,
        "mill": 1,
    }
    assert [row.counts for row in service.rows("shop")] == [False, False]
    clock.move(10)
    assert sum(arm.withheld for arm in service.describe("shop").arms) == 2
    assert service.release("shop", [plain, early]).changed == 2
    assert sum(arm.withheld for arm in service.describe("shop").arms) == 0
    assert is_replay(service, "shop")


def test_parts_come_by_all_ways(service, clock, address):
    with Client("http://{}:{}".format(*address)) as client:
        client.create("shop", ["a", "b"], 0, policy="tsallis-inf", window=10, accumulate=True)
        decision = client.decide("shop")
        assert client.reward(decision, 0.1, part="one") == "accepted"
        items = [RewardItem(decision, 0.2, part=part) for part in ("two", "two", "three")]
        assert [e.status for e in client.reward_many(items)] == [
            "accepted",
            "duplicate",
            "accepted",
        ]
        with client.queue() as queue:
            queue.put(decision, 0.3, part="four")
        lease = client.lease("shop", visits=2)
        visits = [LeasedVisit(0), LeasedVisit(1, 0.5)]
        reported = client.report("shop", lease.lease, visits)
        assert [each.status for each in reported] == ["accepted", "invalid"]
        assert client.reward(reported[0].decision, 0.4, part="one") == "accepted"
    clock.move(10)
    rows = service.rows("shop")
    assert [(row.parts, row.reward) for row in rows] == [
        (4, pytest.approx(0.8, abs=1e-5)),
        (1, pytest.approx(0.4, abs=1e-5)),
    ]
    assert live(service, "shop").decisions == 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"settle": "immediate"}, "accumulate needs settle='window'"),
        ({"accumulate": "no"}, "accumulate must be true or false; got 'no'"),
        ({"rewards": (-1, 1)}, "rewards must begin at 0 to accumulate; got -1"),
        (
            {"guardrails": {"x": {"low": 1, "high": 2, "worse": "lower"}}},
            "the guardrail 'x' must begin at 0 to accumulate; got 1",
        ),
    ],
)
def test_what_cannot_add_up_is_refused(service, settings, words):
    with pytest.raises(InvalidParameter, match=words):
        create(service, **settings)


def test_parts_and_sums_belong_together(service, monkeypatch):
    create(service)
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    monkeypatch.setattr("armrace.service.operations.deciding._MOST_PARTS", 2)
    decision = service.decide("shop")
    for value, part, words in (
        (1, None, "part must say what the reward is for"),
        (1, "", "part must be text of 1 to 200 characters"),
        (-1, "one", r"reward must be in \[0, 100\]; got -1"),
        (float("inf"), "one", "reward must be"),
        (float("nan"), "one", "reward must be"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            buy(service, decision, part, value)
    with pytest.raises(InvalidParameter, match="part is for experiments that accumulate"):
        buy(service, service.decide("ads"), "one", 1.0)
    buy(service, decision, "one", 1)
    buy(service, decision, "two", 1)
    with pytest.raises(InvalidParameter, match="parts of a decision must be at most 2"):
        buy(service, decision, "three", 1)
