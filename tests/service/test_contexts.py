"""Experiments whose visitors differ: schemas, contexts of decisions, logs, rulings, refusals."""

import asyncio
import json
import math
import struct

import msgspec
import polars
import pytest

from armrace.contexts import Schema
from armrace.errors import (
    AlreadyExists,
    BadFeature,
    InvalidParameter,
    MissingFeature,
    UnknownFeature,
)
from armrace.policies import POLICIES
from armrace.service.model.events import DecidedIn
from armrace_client import AsyncClient, Client, LeasedExperiment
from armrace_client.leases import Draws
from armrace_client.operations import LeasedVisit, Visit
from hosting import hosted
from serving import events, is_replay, live, live_bytes, replayed, replayed_bytes

CONTEXTUAL = [name for name, policy in POLICIES.items() if policy.takes_contexts]
FEATURES = {
    "device": {"type": "category", "values": ["ios", "android"]},
    "country": {"type": "category", "buckets": 8},
    "age": {"type": "number", "low": 18, "high": 80},
    "member": {"type": "boolean"},
}
LEAVES = {"device": True, "age": [30, 50]}
DEVICES = ["ios", "android", "web"]


def visitor(number: int) -> dict:
    """The visitor of a number: all that follows depends on it alone."""
    return {
        "device": DEVICES[number % 3],
        "country": f"c{number % 7}",
        "age": 18 + number * 13 % 60,
        "member": number % 2 == 0,
    }


def make(service, policy="leaf-barrier", arms=("a", "b"), **more):
    given = {"missing": 0, "horizon": 1000, "window": 60, "seed": 3}
    given |= {"context": FEATURES, "leaves": LEAVES, **more}
    return service.create("ads", list(arms), policy=policy, **given)


def serve(service, clock, count, start=0, **more):
    """Decide and reward visitors; on Android arm b is the better one, elsewhere arm a."""
    made = []
    for number in range(start, start + count):
        who = visitor(number)
        decision = service.decide("ads", context=who, **more)
        good = (decision.arm == "b") == (who["device"] == "android")
        if number % 5:
            service.reward(decision, 1.0 if good else 0.25)
        clock.move(1)
        made.append(decision)
    return made


@pytest.mark.parametrize("policy", CONTEXTUAL)
def test_a_log_of_contexts_is_replayed_to_the_bit(service, clock, policy):
    make(service, policy)
    made = serve(service, clock, 200)
    clock.move(60)
    assert is_replay(service)
    assert {each.leaf for each in made} >= {"device=ios, age < 30", "device=other, 30 <= age < 50"}
    service.retract("ads", made[:20])
    service.void("ads", made[40:50])
    service.hold("ads", made[60:70])
    service.add_arm("ads", "c")
    serve(service, clock, 60, 200)
    service.start_afresh("ads")
    serve(service, clock, 60, 260)
    service.retire_arm("ads", "c")
    serve(service, clock, 40, 320)
    clock.move(60)
    assert is_replay(service)


@pytest.mark.parametrize("policy", CONTEXTUAL)
def test_voiding_everything_leaves_what_never_was(service, clock, policy):
    make(service, policy)
    made = serve(service, clock, 60)
    clock.move(100)
    service.void("ads", made)
    state = live(service).generation
    fresh = type(state).start(live(service).settings, 0, range(2), 1000).learner
    assert state.learner.snapshot().state == fresh.snapshot().state


def test_the_log_holds_codes_and_no_values(service):
    make(service)
    service.decide("ads", context={**visitor(1), "country": "Peru", "age": 64.25})
    (event,) = [each for _, each in events(service) if isinstance(each, DecidedIn)]
    features = struct.unpack("<4h", event.code.features)
    settings = live(service).settings
    assert features[0] == 1
    assert features[2] == round(4096 * (2 * 64.25 - 98) / 62)
    assert event.code == settings.schema.encode(
        {**visitor(1), "country": "Peru", "age": 64.25}, settings.feature_key
    )
    assert b"Peru" not in msgspec.msgpack.encode(event)


def test_each_experiment_has_a_secret_key_which_nobody_is_shown(service):
    view = make(service)
    settings = live(service).settings
    assert len(settings.feature_key) == 16
    assert not {"feature_key", "seed"} & set(view.settings)
    assert view.settings["schema"]["leaves"] == {"device": True, "age": (30.0, 50.0)}
    assert make(service).created == view.created  # the same settings, but for a key drawn anew


def test_features_never_change(service):
    make(service)
    with pytest.raises(AlreadyExists, match=r"features never change.*another name"):
        service.create(
            "ads",
            ["a", "b"],
            0,
            policy="leaf-barrier",
            context={**FEATURES, "hour": {"type": "number", "low": 0, "high": 24}},
            leaves=LEAVES,
            horizon=1000,
            window=60,
        )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "ucb1"}, "ucb1 takes no context; policies that do are .*expert-barrier"),
        ({"leaves": None}, "leaf-barrier needs leaves: name the features"),
        ({"leaves": {"hour": True}}, "'hour', which is not declared"),
        ({"context": {}, "leaves": None}, "at least one feature"),
        ({"context": None}, "leaves need features"),
        ({"context": {"age": {"type": "number", "low": 3, "high": 3}}}, "low below its high"),
        ({"context": {"age": {"type": "text"}}}, "the schema cannot be read"),
        ({"context": {"\ud800": {"type": "boolean"}}, "leaves": None}, "names of features must be"),
        (
            {"context": {"c": {"type": "category", "values": ["\ud800"]}}, "leaves": None},
            "values of the feature 'c' must be text",
        ),
        ({"missing_feature": "guess"}, "the schema cannot be read"),
        ({"arms": [f"arm {n}" for n in range(500)]}, "arms times leaves must be at most 4,096"),
        (
            {"context": {"c": {"type": "category", "buckets": 128}}, "leaves": None},
            "at most 128 coordinates",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(service, given, words):
    settings = {"policy": "leaf-barrier", "context": FEATURES, "leaves": LEAVES} | given
    arms = settings.pop("arms", ["a", "b"])
    with pytest.raises((InvalidParameter, UnknownFeature), match=words):
        service.create("ads", arms, 0, **settings)
    assert service.names() == []


def test_the_default_of_contexts_is_recommended_for_them(service):
    view = service.create("ads", ["a", "b"], 0, context=FEATURES)
    assert view.settings["policy"]["name"] == "expert-barrier"


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"age": None}, MissingFeature, "lacks the feature 'age'"),
        ({"hour": 3}, UnknownFeature, "no feature 'hour'; there are device, country, age, member"),
        ({"age": math.nan}, BadFeature, "'age' must be a finite number; got nan"),
        ({"age": math.inf}, BadFeature, "'age' must be a finite number"),
        ({"age": 10**400}, BadFeature, "'age' must be a finite number"),
        ({"age": "34"}, BadFeature, "'age' must be a number; got '34'"),
        ({"age": True}, BadFeature, "'age' must be a number; got True"),
        ({"member": 1}, BadFeature, "'member' must be true or false"),
        ({"device": ["ios"]}, BadFeature, "'device' must be a text"),
        ({"country": "x" * 201}, BadFeature, "'country' must have at most 200 characters"),
    ],
)
def test_contexts_are_refused_by_name_and_leave_no_trace(service, change, kind, words):
    make(service)
    before = live_bytes(service)
    given = {**visitor(0), **change}
    for decide in (
        service.decide,
        lambda name, context: service.record(name, "a", context=context),
    ):
        with pytest.raises(kind, match=words):
            decide("ads", context=given)
    assert live_bytes(service) == before
    answer = service.decide_batch("ads", [Visit(context=given), Visit(context=visitor(1))])
    assert [each.code for each in answer.refusals] == [kind.code]
    assert answer.decisions[1].leaf == "device=android, 30 <= age < 50"


def test_no_context_is_refused_by_the_first_feature_and_one_too_many_as_well(service):
    make(service)
    with pytest.raises(MissingFeature, match="'device'"):
        service.decide("ads")
    with pytest.raises(InvalidParameter, match="context must give features by name; got 'ios'"):
        service.decide("ads", context="ios")
    service.create("alike", ["a", "b"], 0, policy="ucb1", horizon=100)
    with pytest.raises(InvalidParameter, match="alike declares no features; leave out the context"):
        service.decide("alike", context={"age": 3})
    assert service.decide("alike", context={}).leaf is None


def test_a_missing_feature_may_be_a_value(service):
    make(service, missing_feature="bucket")
    assert service.decide("ads", context={"device": "ios"}).leaf == "device=ios, age missing"


def test_a_request_is_for_one_visitor(service):
    make(service)
    first = service.decide("ads", request="r", context=visitor(1))
    again = service.decide("ads", request="r", context=visitor(1))
    assert (again.decision, again.repeated) == (first.decision, True)
    with pytest.raises(AlreadyExists, match="same request in another context"):
        service.decide("ads", request="r", context=visitor(2))
    shown = service.decide("ads", unit="u", context=visitor(1))
    assert service.decide("ads", unit="u", context=visitor(2)).decision == shown.decision


def test_the_largest_schemas_are_served(service, clock):
    many = {f"f{n}": {"type": "number", "low": 0, "high": 1} for n in range(64)}
    service.create("ads", ["a", "b"], 0, policy="linear-ucb", horizon=100, context=many, window=1)
    for number in range(4):
        decision = service.decide("ads", context=dict.fromkeys(many, number / 4))
        service.reward(decision, 1)
    clock.move(1)
    assert is_replay(service)
    wide = {"c": {"type": "category", "buckets": 64}, "n": {"type": "number", "low": 0, "high": 1}}
    leaves = {"c": True, "n": [0.25, 0.5, 0.75]}
    service.create(
        "wide", ["a", "b"], 0, policy="leaf-barrier", horizon=100, context=wide, leaves=leaves
    )
    for number in range(30):
        service.decide("wide", context={"c": f"{number}", "n": number / 30})
    view = service.describe("wide")
    assert sum(each.decisions for each in view.leaves) == 30
    assert live_bytes(service, "wide") == replayed_bytes(service, "wide")


def test_the_state_shows_leaves_experts_and_coefficients(service, clock):
    make(service, "expert-barrier", rewards=(0.0, 10.0))
    for number in range(300):
        who = visitor(number)
        decision = service.decide("ads", context=who)
        service.reward(
            decision, 8.0 if (decision.arm == "b") == (who["device"] == "android") else 2
        )
    clock.move(60)
    view = service.describe("ads")
    assert [each.leaf for each in view.leaves] == live(service).leaf_names
    android = next(each for each in view.leaves if each.leaf == "device=android, age < 30")
    assert sum(each.decisions for each in view.leaves) == view.decisions == 300
    better = android.arms[1]
    assert better.lower < better.mean < better.upper
    assert better.mean == pytest.approx(8.0, abs=1e-5)
    assert list(view.experts) == ["linear", "linear-ucb", "leaves", "always a", "always b"]
    assert sum(view.experts.values()) == pytest.approx(1)
    service.add_arm("ads", "c")
    assert service.describe("ads").experts["always c"] == 0.0
    adds = view.coefficients["b"]
    assert adds["device=android"] > 0.5 > adds["device=ios"]


def test_the_history_has_the_weights_of_experts(service, clock):
    make(service, "expert-barrier")
    serve(service, clock, 150)
    service.start_afresh("ads")
    serve(service, clock, 150, 150)
    clock.move(60)
    history, view = service.history("ads"), service.describe("ads")
    assert list(history.experts) == ["linear", "linear-ucb", "leaves", "single arms"]
    shares = [each for each in zip(*history.experts.values(), strict=True) if None not in each]
    assert len(shares) > 40
    assert all(sum(each) == pytest.approx(1) for each in shares)
    last = [view.experts[name] for name in ("linear", "linear-ucb", "leaves")]
    assert list(shares[-1][:3]) == last
    assert shares[-1][3] == view.experts["always a"] + view.experts["always b"]
    service.add_arm("ads", "c")
    assert service.history("ads").experts["single arms"][-1] == shares[-1][3]
    assert is_replay(service)
    service.create("alike", ["a", "b"], 0)
    assert service.history("alike").experts == {}


def test_probabilities_of_leaves_are_those_of_their_next_decisions(service, clock):
    make(service)
    serve(service, clock, 300)
    for leaf in service.describe("ads").leaves:
        number = next(n for n in range(300) if _leaf_of(service, n) == leaf.leaf)
        decision = service.decide("ads", context=visitor(number))
        shown = {each.arm: each.probability for each in leaf.arms}
        assert shown[decision.arm] == decision.probability


def _leaf_of(service, number):
    state = live(service)
    return state.leaf_names[state.encoded(visitor(number)).leaf]


@pytest.mark.parametrize("cuts", [LEAVES, {"country": True, "member": True}])
def test_a_lease_draws_in_the_leaf_of_each_visitor(service, clock, cuts):
    make(service, leaves=cuts, floors={"a": 0.1})
    serve(service, clock, 200)
    with LeasedExperiment(service, "ads", seconds=50) as leased:
        made = []
        for number in range(64):
            made.append(leased.decide(context=visitor(number)))
            made[-1].reward(0.5)
    assert not leased.refused
    state = live(service)
    lease = made[0].lease
    visits = {each.draw: each for each in state.open if each.lease}
    for number, each in enumerate(made):
        leaf = state.encoded(visitor(number)).leaf
        weights = lease.weights[2 * leaf :][:2]
        assert each.arm == "ab"[Draws(bytes.fromhex(lease.seed), lease.stream, weights).arm(number)]
        assert visits[number].probability == each.probability
        assert (visits[number].arm, visits[number].code.leaf) == ("ab".index(each.arm), leaf)
    assert (lease.feature_key != "") == ("country" in cuts)
    clock.move(60)
    assert is_replay(service)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("expert-barrier", "its weights depend on all of them"),
        ("square-cb", "does not draw its decisions by the weights of a moment"),
    ],
)
def test_what_looks_at_more_than_leaves_cannot_be_leased(service, policy, why):
    make(service, policy)
    with pytest.raises(InvalidParameter, match=f"{why}.*use decide"):
        service.lease("ads")


def test_a_leased_visit_without_its_features_is_refused(service):
    make(service)
    with LeasedExperiment(service, "ads") as leased:
        with pytest.raises(MissingFeature, match="'device'"):
            leased.decide()
        with pytest.raises(UnknownFeature, match="'hour'"):
            leased.decide(context={**visitor(0), "hour": 3})
    lease = service.lease("ads")
    (answer,) = service.report("ads", lease.lease, [LeasedVisit(0)])
    assert (answer.status, answer.detail) == ("invalid", "the context lacks the feature 'device'.")


def test_exports_have_encoded_features_and_leaves(service, tmp_path):
    make(service)
    service.decide("ads", context={**visitor(1), "age": 90})
    service.record("ads", "a", context=visitor(3))
    first, second = service.rows("ads")
    assert first.leaf == "device=android, age >= 50"
    assert (first.features["age"], first.features["member"]) == (4096, -4096)
    assert list(second.features) == list(FEATURES)
    service.export("ads", tmp_path / "ads.parquet")
    rows = polars.read_parquet(tmp_path / "ads.parquet").to_dicts()
    assert [json.loads(row["features"]) for row in rows] == [first.features, second.features]
    assert [row["leaf"] for row in rows] == [first.leaf, second.leaf]


def test_leaves_that_the_horizon_is_too_short_for_are_noted(service):
    assert make(service, horizon=1000).notes == []
    service.finish("ads")
    service.delete("ads", without_export=True)
    (note,) = make(service, horizon=800).notes
    assert note.startswith("The horizon has 44 decisions for each arm in each of 9 leaves")


def test_clients_send_contexts_and_get_errors_of_their_kind(service):
    make(service)
    with hosted(service) as address:
        with Client(address) as client:
            decision = client.decide("ads", context=visitor(1))
            assert decision.leaf == "device=android, 30 <= age < 50"
            assert client.describe("ads").leaves[0].decisions == 1
            for change, kind in (
                ({"age": None}, MissingFeature),
                ({"hour": 3}, UnknownFeature),
                ({"age": "x"}, BadFeature),
            ):
                with pytest.raises(kind, match=next(iter(change))):
                    client.decide("ads", context={**visitor(1), **change})
            with pytest.raises(InvalidParameter):
                client.decide("ads", context={"age": [1]})
            with pytest.raises(AlreadyExists, match="features never change"):
                client.create("ads", ["a", "b"], 0, context={"age": FEATURES["age"]})
            with LeasedExperiment(client, "ads") as leased:
                leased.decide(context=visitor(2)).reward(1.0)
            assert not leased.refused

        async def ask():
            async with AsyncClient(address) as client:
                return await client.decide("ads", context=visitor(3))

        assert asyncio.run(ask()).leaf == "device=ios, age >= 50"
        assert is_replay(service)


def test_a_schema_is_read_back_from_the_log(service):
    make(service)
    assert replayed(service).settings.schema == Schema.declare(FEATURES, LEAVES)
