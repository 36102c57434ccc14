"""Guardrails: numbers that come with rewards, are watched, and never learned."""

import random
from types import SimpleNamespace

import numpy as np
import polars
import pytest

from armrace.errors import InvalidParameter, RewardConflict, UnknownName
from armrace.service.model.settings import GRID, Guardrail
from armrace.service.model.views import _guardrail
from armrace.service.model.visits import MetricTotals
from armrace.statistics.bounded_means import bernstein_for_all_times
from armrace_client import Client
from armrace_client.calls import RewardItem
from armrace_client.operations import LeasedVisit
from serving import is_replay, learned, live

LATENCY = {"low": 0, "high": 2, "worse": "higher", "limit": 1.5}
MARGIN = {"low": -1, "high": 1, "worse": "lower"}


def create(service, policy="ucb1", **settings):
    defaults = {"window": 10, "horizon": 1000, "seed": 3, "guardrails": {"latency": LATENCY}}
    service.create("ads", ["a", "b"], 0, policy=policy, **{**defaults, **settings})


def play(service, clock, rounds, **means):
    """Every visit is rewarded; every third has no metric."""
    rng, made = random.Random(rounds), []
    for number in range(rounds):
        decision = service.decide("ads", source=f"source {number % 5}")
        metrics = {"latency": means[decision.arm] + 0.4 * rng.random()} if number % 3 else None
        service.reward(decision, float(number % 2), metrics=metrics)
        made.append(decision)
        clock.move(0.01)
    clock.move(10)
    return made


def of_arms(service):
    (found,) = service.describe("ads").guardrails
    return {each.arm: each for each in found.arms}


def test_what_counts_is_what_the_rewards_that_count_have_brought(service, clock):
    create(service, quarantine=0.5)
    made = play(service, clock, 300, a=0.2, b=1.0)
    late = service.decide("ads")
    service.reward(late, 1.0, suspicion=0.9, metrics={"latency": 2.0})
    clock.move(10)
    service.void("ads", made[:50])
    service.retract("ads", made[50:90])
    rows = service.rows("ads")
    assert rows[-1].metrics == {"latency": 2.0}
    for name, each in of_arms(service).items():
        kept = [
            row.metrics["latency"]
            for row in rows
            if row.arm == name and row.metrics and row.counts and not row.void
        ]
        squares, total = 0.0, 0.0
        for number, value in enumerate(kept):  # on [0, 1], from the mean of those before
            squares += (value / 2 - (total + 0.5) / (number + 1)) ** 2
            total += value / 2
        low, high = bernstein_for_all_times(total, squares, len(kept), 1.0, 0.05 * 0.95 / 2)
        assert (each.count, each.mean) == (len(kept), pytest.approx(np.mean(kept)))
        assert (each.lower, each.upper) == pytest.approx((2 * max(low, 0), 2 * min(high, 1)))
    assert is_replay(service)
    service.release("ads", made[:90])
    service.release("ads", [late])
    assert sum(each.count for each in of_arms(service).values()) == 201
    preview = service.void("ads", made[:50], preview=True)
    assert sum(each.count for each in preview.before.guardrails[0].arms) == 201
    assert sum(each.count for each in preview.after.guardrails[0].arms) < 201


def test_it_warns_of_what_is_too_bad_and_of_what_is_worse(service, clock):
    create(service, guardrails={"latency": LATENCY, "margin": MARGIN})
    for number in range(400):
        decision = service.decide("ads")
        is_a = decision.arm == "a"
        metrics = {"latency": 0.3 if is_a else 1.9, "margin": 0.5 if is_a else -0.5}
        service.reward(decision, float(number % 2), metrics=metrics)
    clock.move(10)
    latency, margin = service.describe("ads").guardrails
    assert [each.split(":")[0] for each in latency.warnings] == [
        "latency of b is beyond 1.5",
        "latency of b is worse than that of a",
    ]
    assert [each.split(":")[0] for each in margin.warnings] == [
        "margin of b is worse than that of a"
    ]
    service.retire_arm("ads", "b")
    assert not any(each.warnings for each in service.describe("ads").guardrails)
    service.add_arm("ads", "c")
    assert service.describe("ads").guardrails[0].arms[2].count == 0
    assert is_replay(service)


@pytest.mark.parametrize("settle", ["window", "immediate"])
def test_no_policy_learns_a_metric(make_service, clock, settle):
    one, other = make_service(), make_service()
    for service in (one, other):
        create(service, settle=settle, policy="thompson")
        for number in range(30):
            decision = service.decide("ads")
            metrics = {"latency": 0.1 * (number % 7)} if service is one else None
            service.reward(decision, 1.0, metrics=metrics)
    clock.move(10)
    for service in (one, other):
        service.describe("ads")
    assert learned(one) == learned(other)


def test_a_reward_with_other_metrics_is_another_reward(service, clock):
    create(service)
    decision = service.decide("ads")
    assert service.reward(decision, 1.0, metrics={"latency": 0.5}) == "accepted"
    for _ in range(2):  # while the window is open, and from the log when it has closed
        assert service.reward(decision, 1.0, metrics={"latency": 0.5}) == "duplicate"
        for metrics in (None, {"latency": 0.6}):
            with pytest.raises(RewardConflict, match="has had its reward with other metrics"):
                service.reward(decision, 1.0, metrics=metrics)
        clock.move(10)
        service.describe("ads")
    assert service.describe("ads").conflicts == 4
    assert sum(each.count for each in of_arms(service).values()) == 1
    assert is_replay(service)


def test_metrics_come_by_all_ways(service, clock, address, tmp_path):
    settings = {"window": 10, "horizon": 1000, "guardrails": {"latency": LATENCY}}
    with Client("http://{}:{}".format(*address)) as client:
        client.create("shop", ["a", "b"], 0, policy="tsallis-inf", **settings)
        made = client.decide_many("shop", 3)
        client.reward(made[0], 1.0, metrics={"latency": 0.25})
        (answer,) = client.reward_many([RewardItem(made[1], 1.0, metrics={"latency": 0.5})])
        with client.queue() as queue:
            queue.put(made[2], 1.0, metrics={"latency": 0.75})
        lease = client.lease("shop", visits=5)
        visits = [
            LeasedVisit(0, 1.0, metrics={"latency": 1.0}),
            LeasedVisit(1, 1.0, metrics={"x": 1}),
            LeasedVisit(2, metrics={"latency": 1.0}),
        ]
        reported = client.report("shop", lease.lease, visits)
        clock.move(10)
        found = client.describe("shop").guardrails
    assert answer.status == "accepted"
    assert [each.status for each in reported] == ["accepted", "invalid", "invalid"]
    assert reported[2].detail == "metrics come with a reward; send them with it."
    assert sum(each.count for each in found[0].arms) == 4
    assert live(service, "shop").decisions == 4  # what is refused is not counted
    service.export("shop", tmp_path / "shop.parquet")
    kept = polars.read_parquet(tmp_path / "shop.parquet")["metrics"].to_list()
    assert kept == [f'{{"latency":{value}}}' for value in (0.25, 0.5, 0.75, 1.0)]


@pytest.mark.parametrize(
    ("metrics", "error", "words"),
    [
        ({"speed": 1}, UnknownName, "no guardrail named 'speed'"),
        ({"latency": 3}, InvalidParameter, r"metric 'latency' must be in \[0, 2\]; got 3"),
        ({"latency": float("nan")}, InvalidParameter, "metric 'latency' must be a finite number"),
        (["latency"], InvalidParameter, "metrics must give numbers by name"),
    ],
)
def test_metrics_that_are_refused(service, metrics, error, words):
    create(service)
    with pytest.raises(error, match=words):
        service.reward(service.decide("ads"), 1.0, metrics=metrics)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"x": {"low": 0, "high": 1}}, "guardrail 'x' cannot be read: .*worse"),
        ({"x": {"low": 1, "high": 1, "worse": "higher"}}, "low and high of the guardrail 'x'"),
        ({"x": {**MARGIN, "limit": 2}}, r"the limit of the guardrail 'x' must be in \[-1, 1\]"),
        ({"x": {**MARGIN, "more": 2}}, "guardrail 'x' cannot be read"),
        ({f"x{number}": MARGIN for number in range(9)}, "guardrails must be at most 8"),
        ({"": MARGIN}, "names of guardrails must be text"),
    ],
)
def test_guardrails_that_cannot_be(service, declared, words):
    with pytest.raises(InvalidParameter, match=words):
        create(service, guardrails=declared)


RUNS, VISITS = 60, 600


def _warnings(rng, means, limit):
    """Whether any warning came, at any of 10 looks, with arms that are chosen by what was seen."""
    declared = Guardrail(0.0, 1.0, "higher", limit)
    totals = [MetricTotals() for _ in means]
    settings = SimpleNamespace(guardrails={"latency": declared}, arms=[*"abc"], schema=None)
    experiment = SimpleNamespace(
        settings=settings, guardrails={"latency": totals}, arms=[*"abc"], statuses=["active"] * 3
    )
    warned = False
    for number in range(VISITS):
        worst = max(range(3), key=lambda arm: totals[arm].steps / max(1, totals[arm].count))
        arm = worst if rng.random() < 0.5 else int(rng.integers(3))
        totals[arm].add(int(GRID * (rng.random() < means[arm])))
        if number % 60 == 59:
            warned = warned or bool(_guardrail(experiment, "latency", declared).warnings)
    return warned


def test_warnings_are_false_no_more_often_than_they_say():
    """All means are the same and at the limit, and the arm that looks worst is watched most."""
    rng = np.random.default_rng(8)
    false = sum(_warnings(rng, [0.3] * 3, 0.3) for _ in range(RUNS))
    assert false <= 10  # more have a probability below 0.1% at a level of 5%
    assert all(_warnings(rng, [0.3, 0.3, 0.8], 0.5) for _ in range(20))
