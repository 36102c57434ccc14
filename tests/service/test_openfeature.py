"""Decisions as flags, with the official provider of OpenFeature against a server."""

import json

import httpx2
import pytest
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from armrace.service.http.application import create_application
from armrace.service.http.server import Server
from armrace_client import Client
from hosting import running
from serving import events

SCHEMA = {"device": {"type": "category", "values": ["ios", "web"]}}


@pytest.fixture
def url(address):
    return f"http://127.0.0.1:{address[1]}"


@pytest.fixture
def flags(url):
    yield provided(url)
    api.clear_providers()


def provided(url, key=None):
    """The client of an application that has nothing of armrace."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    api.set_provider_and_wait(OFREPProvider(url, headers_factory=lambda: headers))
    return api.get_client()


def visitor(unit="u1", **attributes):
    return EvaluationContext(unit, attributes)


def bulk(url, context, **headers):
    return httpx2.post(f"{url}/ofrep/v1/evaluate/flags", json={"context": context}, headers=headers)


def evaluate(url, name, body):
    headers = {"Content-Type": "application/json"}
    return httpx2.post(f"{url}/ofrep/v1/evaluate/flags/{name}", content=body, headers=headers)


def decided(service, name="ads"):
    return [event for _, event in events(service, name) if hasattr(event, "arm")]


# --- one flag ---------------------------------------------------------------------------------


def test_a_flag_is_decided_once_for_a_unit_and_rewarded(flags, url, service):
    first = flags.get_string_details("ads", "none", visitor())
    assert first.value == first.variant in ("a", "b")
    assert (first.reason, first.error_code) == (Reason.SPLIT, None)
    assert first.flag_metadata["probability"] == 1.0
    assert flags.get_string_details("ads", "none", visitor()) == first
    assert flags.get_string_details("ads", "none", visitor("u2")).value in ("a", "b")
    assert service.describe("ads").decisions == 2
    with Client(url) as client:
        assert client.reward(first.flag_metadata["decision"], 1.0) == "accepted"
        assert client.reward(first.flag_metadata["decision"], 1.0) == "duplicate"


def test_an_experiment_takes_the_features_that_it_declares(flags, service):
    service.create(
        "leafy", ["a", "b"], 0, policy="leaf-barrier", context=SCHEMA, leaves={"device": True}
    )
    given = {"source": "203.0.113.7", "labels": {"campaign": "spring"}}
    context = visitor(device="ios", plan="free", nested={"x": [1]}, armrace=given)
    found = flags.get_string_details("leafy", "none", context)
    assert found.flag_metadata["leaf"] == "device=ios"
    assert flags.get_string_details("ads", "none", context).error_code is None
    made = decided(service, "leafy") + decided(service)
    assert [each.source for each in made] == ["203.0.113.7"] * 2
    assert [each.labels for each in made] == [{"campaign": "spring"}] * 2
    refused = flags.get_string_details("leafy", "none", visitor("u2", device=7))
    assert (refused.value, refused.error_code) == ("none", ErrorCode.INVALID_CONTEXT)
    assert "'device' must be a text" in refused.error_message


@pytest.mark.parametrize(
    ("arms", "kind", "default", "values"),
    [
        (["true", "false"], "boolean", None, {True, False}),
        (["3", "12"], "integer", 0, {3, 12}),
        (["0.5", "1"], "float", 0.0, {0.5, 1.0}),
        (["true", "maybe"], "string", "", {"true", "maybe"}),
        (["1", "true"], "string", "", {"1", "true"}),
    ],
)
def test_arms_that_are_all_truths_or_numbers_are_values(
    flags, service, arms, kind, default, values
):
    service.create("typed", arms, 0, policy="tsallis-inf", horizon=100, seed=1)
    ask = getattr(flags, f"get_{kind}_details")
    found = [ask("typed", default, visitor(f"u{n}")) for n in range(20)]
    assert {each.error_code for each in found} == {None}
    assert {each.value for each in found} == values
    assert {each.variant for each in found} == set(arms)
    assert {type(each.value) for each in found} == {type(value) for value in values}


def test_an_experiment_that_is_paused_leaves_the_default(flags, service):
    service.pause("ads")
    found = flags.get_string_details("ads", "mine", visitor())
    assert (found.value, found.reason, found.error_code) == ("mine", Reason.DISABLED, None)
    service.resume("ads")
    assert flags.get_string_value("ads", "mine", visitor()) in ("a", "b")


def test_refusals_have_the_codes_of_the_protocol(flags, url, service):
    unknown = flags.get_string_details("nothing", "none", visitor())
    assert (unknown.value, unknown.error_code) == ("none", ErrorCode.FLAG_NOT_FOUND)
    nobody = flags.get_string_details("ads", "none", EvaluationContext())
    assert nobody.error_code == ErrorCode.TARGETING_KEY_MISSING
    for context in (visitor("u" * 201), visitor(armrace={"sauce": "x"}), visitor(armrace=3)):
        assert flags.get_string_details("ads", "none", context).error_code == (
            ErrorCode.INVALID_CONTEXT
        )
    for name, body, status, code in [
        ("ads", "{", 400, "PARSE_ERROR"),
        ("ads", '{"context": []}', 400, "PARSE_ERROR"),
        ("ads", '{"context": {"targetingKey": 7}}', 400, "INVALID_CONTEXT"),
        ("a/b", '{"context": {"targetingKey": "u"}}', 404, "FLAG_NOT_FOUND"),
        ("ads", json.dumps({"context": {"text": "x" * 2**16}}), 400, "GENERAL"),
    ]:
        answer = evaluate(url, name, body)
        found = answer.json()
        assert (answer.status_code, found["key"], found["errorCode"]) == (status, name, code)
        assert found["errorDetails"].endswith(".")
    newer = '{"context": {"targetingKey": "u"}, "from a later version": 1}'
    assert evaluate(url, "ads", newer).status_code == 200


def test_keys_and_rates_are_those_of_the_service(service):
    key, reader = (service.keyring.create([each])[1] for each in ("decide", "read"))
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=100)
    server = Server(create_application(service, rate=1.0), "127.0.0.1", 0)
    with running(server, seconds=5) as (_, port):
        url = f"http://127.0.0.1:{port}"
        for wrong, sentence in ((None, "unauthorized"), (reader, "forbidden")):
            found = provided(url, wrong).get_string_details("ads", "none", visitor())
            assert (found.value, found.error_message) == ("none", sentence)
        found = provided(url, key).get_string_details("nothing", "none", visitor())
        assert found.error_message == "there is no experiment named 'nothing'."  # names no other
        answers = [
            httpx2.post(
                f"{url}/ofrep/v1/evaluate/flags/ads",
                json={"context": {"targetingKey": "u"}},
                headers={"Authorization": f"Bearer {key}"},
            )
            for _ in range(3)
        ]
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["Retry-After"]) >= 1
        limited = provided(url, key).get_string_details("ads", "none", visitor())
        assert "Rate limited" in limited.error_message
    api.clear_providers()


# --- several flags ----------------------------------------------------------------------------


def test_a_bulk_evaluation_decides_for_what_the_context_names_alone(url, service):
    for name in ("more", "other"):
        service.create(name, ["x", "y"], 0, policy="ucb1", horizon=100)
    service.pause("more")
    context = {"targetingKey": "u1", "armrace": {"experiments": ["ads", "more", "gone", "ads"]}}
    answer = bulk(url, context)
    found = {each["key"]: each for each in answer.json()["flags"]}
    assert list(found) == ["ads", "more", "gone"]
    assert found["ads"]["value"] in ("a", "b")
    assert (found["more"]["reason"], "value" in found["more"]) == ("DISABLED", False)
    assert found["gone"]["errorCode"] == "FLAG_NOT_FOUND"
    assert [service.describe(name).decisions for name in ("ads", "more", "other")] == [1, 0, 0]
    assert decided(service)[0].labels == {"evaluation": "bulk"}
    # The same decision for the same unit, whichever way it asks.
    assert bulk(url, context).json() == answer.json()
    assert service.void("ads", labels={"evaluation": "bulk"}).changed == 1


def test_an_answer_that_is_known_is_not_sent_again(url, service):
    context = {"targetingKey": "u1", "armrace": {"experiments": ["ads"]}}
    first = bulk(url, context)
    tag = first.headers["ETag"]
    for known in (tag, f'"x", {tag}', f"W/{tag}"):
        again = bulk(url, context, **{"If-None-Match": known})
        assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", tag)
    assert service.describe("ads").decisions == 1
    assert bulk(url, context, **{"If-None-Match": '"x"'}).status_code == 200
    other = bulk(url, {**context, "targetingKey": "u2"}, **{"If-None-Match": tag})
    assert other.status_code == 200
    service.pause_arm("ads", first.json()["flags"][0]["value"])
    changed = bulk(url, context, **{"If-None-Match": tag})
    assert changed.json()["flags"][0]["value"] != first.json()["flags"][0]["value"]


@pytest.mark.parametrize(
    ("context", "code"),
    [
        ({"targetingKey": "u1"}, "INVALID_CONTEXT"),
        ({"targetingKey": "u1", "armrace": {"experiments": []}}, "INVALID_CONTEXT"),
        ({"targetingKey": "u1", "armrace": {"experiments": ["ads"] * 101}}, "INVALID_CONTEXT"),
        ({"armrace": {"experiments": ["ads"]}}, "TARGETING_KEY_MISSING"),
    ],
)
def test_a_bulk_evaluation_without_names_or_unit_is_refused(url, service, context, code):
    answer = bulk(url, context)
    assert (answer.status_code, answer.json()["errorCode"]) == (400, code)
    assert service.describe("ads").decisions == 0
