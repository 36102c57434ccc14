"""Features of arms: vectors by hand, a shared model in exact fractions, and the service."""

import struct
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from armrace.contexts import ABSENT, MISSING, BadFeature, MissingFeature, Schema, UnknownFeature
from armrace.environments import OfferVisitors, Visitors
from armrace.errors import AlreadyExists, InvalidParameter
from armrace.kernels.generics import Context, Ticket, assign, learn
from armrace.policies import POLICIES, LinearUcb
from armrace.policies.linear.models import optimistic_score
from armrace.simulation import simulate
from armrace_client import Client
from armrace_client.operations import Visit
from hosting import hosted
from serving import events, is_replay, live, live_bytes

FEATURES = {"member": {"type": "boolean"}}
OF_ARMS = {"price": {"type": "number", "low": 0, "high": 8}}
CROSS = [("member", "price")]
SCHEMA = Schema.declare(FEATURES, arm_features=OF_ARMS, cross=CROSS)
TAKERS = [name for name, policy in POLICIES.items() if policy.takes_arm_features]


def code(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}h", *numbers)


def test_the_vector_of_an_arm_has_its_features_and_the_products() -> None:
    member = SCHEMA.encode({"member": False}).features
    cheap, dear = (SCHEMA.encode_arm({"price": price}) for price in (2, 7))
    assert (cheap, dear) == (code(-2048), code(3072))
    # (1, member, price, member times price) / sqrt(1 + 3 parts)
    expected = [0.5, -0.5, -0.25, 0.25, 0.5, -0.5, 0.375, -0.375]
    assert SCHEMA.vector_of_arms(member, [cheap, dear]).tolist() == expected
    assert SCHEMA.coordinate_names() == ["1", "member", "price", "member x price"]
    assert SCHEMA.shape == (4, 1, True)


def test_products_of_categories_and_what_is_missing() -> None:
    schema = Schema.declare(
        {"device": {"type": "category", "values": ["ios"]}},
        missing="bucket",
        arm_features={"price": OF_ARMS["price"], "colour": {"type": "category", "values": ["red"]}},
        cross=[("device", "colour")],
    )
    visitor = schema.encode({"device": "ios"}).features
    red, unknown = schema.encode_arm({"price": 8, "colour": "red"}), schema.encode_arm({})
    assert (red, unknown) == (code(4096, 0), code(ABSENT, ABSENT))
    rows = schema.vector_of_arms(visitor, [red, unknown]).reshape(2, -1) * sqrt(5)
    # 1; ios, other; price, missing; red, other; each device with each colour
    assert rows[0] == pytest.approx([1, 1, 0, 1, 0, 1, 0, 1, 0, 0, 0])
    assert rows[1] == pytest.approx([1, 1, 0, 0, 1, 0, 1, 0, 1, 0, 0])
    assert schema.encode_arm({"colour": "blue"}, before=red) == code(4096, 1)
    assert (schema.vector_of_arms(code(MISSING), [red])[1:3] * sqrt(5)).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ({"arm_features": FEATURES}, InvalidParameter, "must have other names; got 'member' twice"),
        ({"cross": [["price", "member"]]}, UnknownFeature, "got 'price' and 'member'"),
        ({"cross": CROSS * 2}, InvalidParameter, "the pairs of cross must differ"),
        ({"cross": [["member"]]}, InvalidParameter, "the schema cannot be read"),
        ({"leaves": {"price": [3]}}, UnknownFeature, "'price', which is not declared"),
        (
            {"arm_features": {"c": {"type": "category", "buckets": 128}}},
            InvalidParameter,
            "at most 128 coordinates",
        ),
    ],
)
def test_bad_declarations_are_refused(given: dict, kind: type, words: str) -> None:
    with pytest.raises(kind, match=words):
        Schema.declare(FEATURES, **{"arm_features": OF_ARMS, **given})


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss' elimination, in exact numbers."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place, _ in enumerate(rows):
        rows[place] = [value / rows[place][place] for value in rows[place]]
        for other, row in enumerate(rows):
            if other != place:
                rows[other] = [
                    value - row[place] * own for value, own in zip(row, rows[place], strict=True)
                ]
    return [row[-1] for row in rows]


def test_all_arms_share_one_model_which_is_exact() -> None:
    """Ridge regression of all rewards, each with the vector of its arm."""
    state = LinearUcb().start_with(3, 1000, SCHEMA.shape)
    matrix = [[Fraction(int(i == j)) for j in range(4)] for i in range(4)]
    moments = [Fraction(0)] * 4
    for number in range(30):
        member = SCHEMA.encode({"member": number % 3 > 0}).features
        prices = [SCHEMA.encode_arm({"price": (5 * number + 3 * arm) % 9}) for arm in range(3)]
        flat = SCHEMA.vector_of_arms(member, prices)
        context = Context(flat, 0)
        exact = [[Fraction(value) for value in row] for row in flat.reshape(3, 4)]
        coefficients = solved(matrix, moments)
        for arm, vector in enumerate(exact):
            mean = sum(a * b for a, b in zip(vector, coefficients, strict=True))
            image = solved(matrix, vector)
            width = sqrt(sum(a * b for a, b in zip(vector, image, strict=True)))
            score = optimistic_score(state, arm, context)
            assert score == pytest.approx(float(mean) + width, abs=1e-9)
        arm, reward = number * 7 % 3, Fraction(number % 5, 4)
        learn(state, assign(state, Ticket(arm=arm), context), float(reward), context)
        vector = exact[arm]
        matrix = [[m + a * b for m, b in zip(row, vector, strict=True)]
                  for row, a in zip(matrix, vector, strict=True)]  # fmt: skip
        moments = [m + reward * a for m, a in zip(moments, vector, strict=True)]
    assert state.models.ridge.weights.shape == (1, 4)
    expected = [float(each) for each in solved(matrix, moments)]
    assert state.models.ridge.weights[0] == pytest.approx(expected, abs=1e-9)


def test_a_shared_model_learns_from_all_arms() -> None:
    """Means of four runs; with a model for each arm, the same policy loses more than three times
    as much, in runs of other seeds."""

    def lost(environment: object) -> float:
        found = simulate("linear-ucb", environment, horizon=5_000, replications=4, seed=8)
        return found.figure("pseudo_regret").mean

    offers = OfferVisitors()
    kinds = offers.kinds()
    flat = kinds.vectors.reshape(len(kinds.vectors), -1) / sqrt(offers.offers)
    assert 3 * lost(offers) < lost(Visitors(vectors=flat, means=kinds.means))


@pytest.mark.parametrize("policy", TAKERS)
def test_arms_of_every_policy_have_their_own_vector_in_simulations(policy: str) -> None:
    """One arm pays by its price alone, which differs from visitor to visitor."""
    generator = np.random.default_rng(3)
    prices = generator.uniform(-1, 1, size=(64, 3))
    vectors = np.stack([np.ones_like(prices), prices], axis=2) / sqrt(2)
    shop = Visitors(vectors=vectors, means=0.5 + 0.4 * prices)
    found = simulate(policy, shop, horizon=3_000, replications=2, seed=5)
    wasted = 3_000 * (shop.means.max(axis=1).mean() - shop.means.mean())
    assert found.figure("pseudo_regret").mean < wasted / 2


# --- the service --------------------------------------------------------------------------------


def make(service, policy: str = "linear-ucb", **more):
    given = {"missing": 0, "horizon": 1000, "window": 60, "seed": 3, "context": FEATURES}
    given |= {"arm_features": OF_ARMS, "cross": CROSS}
    given |= {"arm_values": {"red": {"price": 1}, "blue": {"price": 6}}, **more}
    return service.create("ads", ["red", "blue"], policy=policy, **given)


def serve(service, clock, numbers: range) -> list:
    """Members like what is dear, others what is cheap; every third decision has other prices."""
    made = []
    for number in numbers:
        member, prices = number % 2 == 0, {"red": 1.0, "blue": 6.0, "green": 3.0}
        given = None
        if number % 3 == 0:
            given = {"red": {"price": number * 7 % 9}}
            prices["red"] = given["red"]["price"]
        decision = service.decide("ads", context={"member": member}, arms=given)
        worth = prices[decision.arm] / 8
        service.reward(decision, worth if member else 1 - worth)
        clock.move(1)
        made.append(decision)
    return made


@pytest.mark.parametrize("policy", TAKERS)
def test_a_log_with_features_of_arms_is_replayed_to_the_bit(service, clock, policy) -> None:
    make(service, policy)
    made = serve(service, clock, range(80))
    # A new arm between the decisions and the rewards' being learned.
    service.add_arm("ads", "green", features={"price": 3})
    made += serve(service, clock, range(80, 120))
    clock.move(60)
    assert is_replay(service)
    service.retract("ads", made[5:15])
    service.void("ads", made[20:30])
    service.retire_arm("ads", "red")
    service.start_afresh("ads")
    serve(service, clock, range(121, 160, 3))
    clock.move(60)
    assert is_replay(service)
    assert live(service).generation.places == [1, 2]


def test_what_a_price_is_worth_holds_for_an_arm_that_is_new(service, clock) -> None:
    make(service, settle="immediate")
    serve(service, clock, range(300))
    view = service.describe("ads")
    assert list(view.coefficients) == ["every arm"]
    found = view.coefficients["every arm"]
    assert list(found) == ["1", "member", "price", "member x price"]
    assert found["1"] == pytest.approx(0.5, abs=0.05)
    assert found["member x price"] == pytest.approx(0.5, abs=0.05)
    service.add_arm("ads", "green", features={"price": 8})
    member, other = ({"member": each} for each in (True, False))
    assert service.decide("ads", context=member).arm == "green"
    assert service.decide("ads", context=other).arm == "red"
    dear = {"red": {"price": 8}, "green": {"price": 0}}
    assert service.decide("ads", context=other, arms=dear).arm == "green"


def test_the_log_holds_codes_of_arms_where_a_decision_gave_some(service) -> None:
    make(service)
    service.decide("ads", context={"member": True})
    service.decide("ads", context={"member": True}, arms={"blue": {"price": 4}})
    codes = [each.code.features for _, each in events(service) if hasattr(each, "code")]
    assert codes == [code(4096), code(4096, -3072, 0)]
    assert [row.features for row in service.rows("ads")] == [{"member": 4096}] * 2


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "leaf-barrier"}, "leaf-barrier has no use for features of arms; .*linear-ucb"),
        ({"arm_values": {"green": {"price": 3}}}, "must name arms of the experiment; got 'green'"),
        ({"arm_values": {"red": {"size": 3}}}, "no feature 'size'; there are price"),
        ({"arm_values": {"red": {"price": "3"}}}, "'price' must be a number; got '3'"),
        ({"arm_features": None, "cross": None}, "values of arms need features"),
        ({"arm_features": None, "arm_values": None}, "cross must name a feature of visitors"),
    ],
)
def test_experiments_that_do_not_fit_are_refused(service, given, words) -> None:
    with pytest.raises((InvalidParameter, UnknownFeature, BadFeature), match=words):
        make(service, **given)
    assert service.names() == []


def test_features_of_arms_are_refused_by_name_and_leave_no_trace(service) -> None:
    make(service, arm_values={"red": {"price": 1}})
    before = live_bytes(service)
    for arms, kind, words in (
        (None, MissingFeature, "the arm 'blue' lacks the feature 'price'"),
        ({"red": {"price": 2}}, MissingFeature, "the arm 'blue' lacks the feature 'price'"),
        ({"blue": {"size": 2}}, UnknownFeature, "no feature 'size'; there are price"),
        ({"blue": {"price": True}}, BadFeature, "'price' must be a number; got True"),
        ({"green": {"price": 2}}, InvalidParameter, "must name arms of the experiment"),
        ({"blue": 3}, InvalidParameter, "arms must give features by arm"),
    ):
        for ask in (service.decide, lambda name, **more: service.record(name, "red", **more)):
            with pytest.raises(kind, match=words):
                ask("ads", context={"member": True}, arms=arms)
    with pytest.raises(UnknownFeature, match="no feature 'size'"):
        service.add_arm("ads", "green", features={"size": 1})
    assert live_bytes(service) == before
    service.decide("ads", context={"member": True}, arms={"blue": {"price": 2}})


def test_without_declared_features_arms_have_none(service) -> None:
    service.create("plain", ["a", "b"], 0)
    for call in (
        lambda: service.decide("plain", arms={"a": {"price": 1}}),
        lambda: service.add_arm("plain", "c", features={"price": 1}),
    ):
        with pytest.raises(InvalidParameter, match="declares no features of arms"):
            call()


def test_clients_send_features_of_arms(service) -> None:
    with hosted(service) as address, Client(address) as client:
        view = make(client, arm_features={**OF_ARMS, "kind": {"type": "category", "buckets": 4}},
                    arm_values=None)  # fmt: skip
        assert make(service, arm_features={**OF_ARMS, "kind": {"type": "category", "buckets": 4}},
                    arm_values=None).created == view.created  # fmt: skip
        arms = {each: {"price": 2, "kind": "big"} for each in ("red", "blue")}
        first = client.decide("ads", context={"member": True}, arms=arms, request="r")
        assert client.decide("ads", context={"member": True}, arms=arms, request="r").repeated
        arms["red"]["price"] = 3
        with pytest.raises(AlreadyExists, match="another context"):
            client.decide("ads", context={"member": True}, arms=arms, request="r")
        batch = [Visit(context={"member": False}, arms=arms), Visit(context={"member": False})]
        answer = client.decide_batch("ads", batch)
        assert answer.decisions[0].arm in arms
        assert "lacks the feature" in answer.refusals[0].message
        client.reward(first, 1.0)
        with pytest.raises(AlreadyExists, match="other features"):
            make(client, arm_values=None, arm_features={**OF_ARMS, "size": {"type": "boolean"}})
        assert is_replay(service)
