"""Clients over HTTP: addresses, bodies, refusals, and retries that do no harm."""

import asyncio
import json

import httpx2
import pytest

from armrace_client import (
    ArmraceError,
    AsyncClient,
    AsyncRewardQueue,
    Client,
    DecisionAnswer,
    RewardItem,
    RewardQueue,
)
from armrace_client.answers import ExperimentView, RewardAnswer
from armrace_client.errors import (
    BadFeature,
    InvalidParameter,
    RewardConflict,
    ServiceUnreachable,
    Unauthorised,
    UnknownName,
)
from armrace_client.operations import Visit

ADDRESS = "http://127.0.0.1:8380"
DECISION = {"decision": "x", "experiment": "ads", "arm": "a", "probability": 0.5}
VIEW = {
    "name": "ads",
    "phase": "running",
    "settings": {},
    "created": 1,
    "generation": 0,
    "horizon": 100,
    "decisions": 0,
    "open": 0,
    "arms": [],
    "layers": [],
    "notes": [],
}
RULING = {"head": "h", "visits": 1, "rewarded": 1, "changed": 1, "replayed": False}


class Network:
    """Answers requests one after the other; the last answer is repeated."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []

    def __call__(self, request):
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, httpx2.Response):  # a copy, for a response is read once
            return httpx2.Response(
                answer.status_code, headers=answer.headers, content=answer.content
            )
        return httpx2.Response(200, json=answer)

    @property
    def paths(self):
        return [request.url.raw_path.decode() for request in self.requests]

    @property
    def bodies(self):
        return [json.loads(request.content) for request in self.requests]


def connect(network, **more):
    return Client(ADDRESS, transport=httpx2.MockTransport(network), **more)


def problem(status, code, message, **headers):
    return httpx2.Response(status, json={"code": code, "message": message}, headers=headers)


@pytest.fixture
def pauses(monkeypatch):
    found = []
    monkeypatch.setattr("time.sleep", found.append)
    return found


# --- requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "answer", "method", "path", "body"),
    [
        (lambda c: c.describe("a b/ü%"), VIEW, "GET", "/v1/experiments/a%20b%2F%C3%BC%25", None),
        (lambda c: c.names(), {"experiments": []}, "GET", "/v1/experiments", None),
        (lambda c: c.audit("ads"), {}, "GET", "/v1/experiments/ads/audit", None),
        (
            lambda c: c.audit("ads", level=0.01),
            {},
            "GET",
            "/v1/experiments/ads/audit?level=0.01",
            None,
        ),
        (lambda c: c.health("a&b", 7), [], "GET", "/v1/health?after=a%26b&most=7", None),
        (lambda c: c.pause("ads"), VIEW, "POST", "/v1/experiments/ads/pause", {}),
        (
            lambda c: c.retire_arm("ads", "c / d", reason="ugly"),
            {"arm": "c", "status": "retired", "generation": 0, "new_generation": False}
            | {"guarantee": ""},
            "POST",
            "/v1/experiments/ads/arms/c%20%2F%20d/retire",
            {"reason": "ugly"},
        ),
        (
            lambda c: c.create("ads", ("a", "b"), 0, window=10),
            VIEW,
            "POST",
            "/v1/experiments",
            {"name": "ads", "arms": ["a", "b"], "missing": 0, "window": 10},
        ),
        (
            lambda c: c.void("ads", sources="bot", since=5, preview=True),
            RULING,
            "POST",
            "/v1/experiments/ads/void",
            {"sources": ["bot"], "since": 5, "preview": True},
        ),
        (
            lambda c: c.decide("ads", eligible=("a",), request="r", labels={"campaign": "7"}),
            DECISION,
            "POST",
            "/v1/experiments/ads/decide",
            {"eligible": ["a"], "request": "r", "labels": {"campaign": "7"}},
        ),
    ],
)
def test_requests_are_what_the_declarations_say(call, answer, method, path, body):
    network = Network(answer)
    with connect(network) as client:
        call(client)
    (request,) = network.requests
    assert (request.method, network.paths) == (method, [path])
    assert (json.loads(request.content) if request.content else None) == body


def test_what_decides_has_a_request_of_its_own_which_is_kept_in_retries(pauses):
    network = Network(httpx2.ReadTimeout("lost"), DECISION)
    with connect(network) as client:
        client.decide("ads")
        client.decide("ads")
        client.record("ads", "a")
    first, again, second, third = (each["request"] for each in network.bodies)
    assert first == again
    assert len({first, second, third}) == 3
    network = Network({"decisions": [DECISION] * 3, "refusals": []})
    with connect(network) as client:
        assert len(client.decide_many("ads", 3)) == 3
    (body,) = network.bodies
    assert len({each["request"] for each in body["decisions"]}) == 3


def test_rewards_go_under_their_experiment_if_it_is_known():
    network = Network({"status": "accepted"})
    made = DecisionAnswer("x", "a/b", "a", 0.5)
    with connect(network) as client:
        client.reward(made, 1.0, source="web")
        client.reward("x", 1.0)
    assert network.paths == ["/v1/experiments/a%2Fb/rewards", "/v1/rewards"]
    assert network.bodies[0] == {"decision": "x", "value": 1.0, "source": "web"}
    network = Network({"rewards": []})
    other = DecisionAnswer("y", "other", "a", 0.5)
    with connect(network) as client:
        for batch in ([made, made], [made, other], [made, "z"], ["z"], []):
            client.reward_many([RewardItem(each, 0) for each in batch])
    assert network.paths == ["/v1/experiments/a%2Fb/rewards/batch", *["/v1/rewards/batch"] * 4]


@pytest.mark.parametrize("dots", [".", "..", "a/../../b"])
def test_names_that_would_lead_elsewhere_are_not_sent(dots):
    """``.../ads/arms/../pause`` is the address that pauses the experiment."""
    network = Network(VIEW)
    with connect(network) as client:
        for change in (client.pause_arm, client.retire_arm, client.resume_arm):
            with pytest.raises(InvalidParameter, match=r"arm must not have \. or \.\. as a part"):
                change("ads", dots)
        with pytest.raises(InvalidParameter, match=r"name must not have \. or \.\. as a part"):
            client.pause(dots)
        with pytest.raises(InvalidParameter, match=r"name must not have \. or \.\. as a part"):
            next(client.events(dots))
    assert network.requests == []


@pytest.mark.parametrize("name", ["", 7, None])
def test_empty_names_are_refused(name):
    with connect(Network(VIEW)) as client, pytest.raises(InvalidParameter, match="must be a name"):
        client.describe(name)


def test_the_key_is_given_or_that_of_the_environment(monkeypatch):
    network = Network({"experiments": []})
    monkeypatch.delenv("ARMRACE_KEY", raising=False)
    connect(network).names()
    monkeypatch.setenv("ARMRACE_KEY", "armrace_of_the_environment")
    connect(network).names()
    connect(network, key="armrace_given").names()
    assert [each.headers.get("authorization") for each in network.requests] == [
        None,
        "Bearer armrace_of_the_environment",
        "Bearer armrace_given",
    ]


@pytest.mark.parametrize("key", ["secret\n", "se cret", "s\xe9cret"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key):
    with pytest.raises(InvalidParameter, match="key must be ASCII") as refused:
        connect(Network({}), key=key)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda c: c.decide("ads", context={"age": float("nan"), "os": None}),
            BadFeature,
            "age must be a finite number; got nan.",
        ),
        (
            lambda c: c.decide_batch("ads", [Visit(context={"age": float("-inf")})]),
            BadFeature,
            "age must be a finite number; got -inf.",
        ),
        (
            lambda c: c.lease("ads", visits=10, seconds=float("inf")),
            InvalidParameter,
            "seconds must be a finite number; got inf.",
        ),
        (
            lambda c: c.decide("ads", unit="\ud800"),
            InvalidParameter,
            r"text must be valid Unicode; got '\\ud800'.",
        ),
    ],
)
def test_what_json_cannot_say_is_refused_and_not_sent(call, kind, words):
    network = Network(DECISION)
    with pytest.raises(kind, match=words):
        call(connect(network))
    assert network.requests == []


def test_an_address_may_have_a_folder_and_must_be_one_of_http():
    network = Network({"experiments": []})
    Client(f"{ADDRESS}/armrace/", transport=httpx2.MockTransport(network)).names()
    assert network.paths == ["/armrace/v1/experiments"]
    with pytest.raises(InvalidParameter, match="address must begin with http"):
        Client("localhost")


# --- answers and refusals ---------------------------------------------------------------------


def test_answers_are_typed():
    with connect(Network(VIEW)) as client:
        assert isinstance(client.describe("ads"), ExperimentView)
    with connect(Network(httpx2.Response(200, content=b"rows"))) as client:
        assert client.export("ads", "parquet") == b"rows"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "reward-conflict", RewardConflict),
        (404, "unknown-name", UnknownName),
        (422, "invalid-parameter", InvalidParameter),
        (401, "unauthorised", Unauthorised),
        (418, "of-a-later-version", ArmraceError),
    ],
)
def test_refusals_are_errors_by_their_code(status, code, kind):
    network = Network(problem(status, code, "it must be so."))
    with connect(network) as client, pytest.raises(kind, match="it must be so") as refused:
        client.reward("x", 1.0)
    assert type(refused.value) is kind
    assert len(network.requests) == 1


@pytest.mark.parametrize("status", [200, 302, 404, 500])
def test_what_is_not_the_service_is_said(status):
    page = httpx2.Response(status, html="<html>")
    with (
        connect(Network(page)) as client,
        pytest.raises(ServiceUnreachable, match=f"status {status} is not a service of armrace"),
    ):
        client.names()


# --- retries ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_what_passes_is_tried_again(pauses, status):
    network = Network(httpx2.Response(status), httpx2.Response(status), {"experiments": ["ads"]})
    with connect(network) as client:
        assert client.names() == ["ads"]
    assert len(network.requests) == 3
    assert 0.025 <= pauses[0] <= 0.05 <= pauses[1] <= 0.1


def test_the_client_gives_up_after_its_retries_and_says_why(pauses):
    network = Network(httpx2.Response(503))
    with connect(network, retries=2) as client, pytest.raises(ServiceUnreachable) as error:
        client.names()
    assert str(error.value) == f"{ADDRESS} cannot be reached: it answers 503."
    assert len(network.requests) == 3


def test_the_client_waits_as_long_as_the_service_says(pauses):
    wait = [httpx2.Response(503, headers={"Retry-After": each}) for each in ("2", "a while")]
    with connect(Network(*wait, {"experiments": []})) as client:
        assert client.names() == []
    assert pauses[0] == 2.0
    assert pauses[1] <= 0.1


def test_what_takes_long_is_waited_for_and_not_begun_twice():
    """A ruling whose answer is lost may have been made; made again, it takes as long again."""
    for call in (
        lambda client: client.retract("ads", sources="web"),
        lambda client: client.void("ads", sources="web", preview=True),
        lambda client: client.export("ads"),
        lambda client: client.back_up(),
        lambda client: client.delete("ads"),
    ):
        network = Network(httpx2.ReadTimeout("the answer was lost"))
        with (
            connect(network, timeout=3) as client,
            pytest.raises(ServiceUnreachable, match="may have been done or not: the answer"),
        ):
            call(client)
        (request,) = network.requests
        assert request.extensions["timeout"] == {"connect": 3, "read": None, "write": 3, "pool": 3}
    with (
        connect(Network(httpx2.Response(504))) as client,
        pytest.raises(ServiceUnreachable, match="a proxy answers 504"),
    ):
        client.export("ads")


def test_what_takes_long_is_sent_again_if_it_cannot_have_begun(pauses):
    refused = httpx2.ConnectError("nobody listens")
    network = Network(refused, httpx2.Response(503), httpx2.Response(200, content=b"rows"))
    with connect(network) as client:
        assert client.export("ads") == b"rows"
    assert len(network.requests) == 3


def test_a_service_that_does_not_answer_is_named():
    with (
        Client("http://127.0.0.1:9", retries=1) as client,
        pytest.raises(ServiceUnreachable, match=r"http://127\.0\.0\.1:9 cannot be reached"),
    ):
        client.names()


# --- the asynchronous client ------------------------------------------------------------------


def test_the_asynchronous_client_does_the_same(monkeypatch):
    paused = []

    async def sleep(seconds):
        paused.append(seconds)

    async def work():
        network = Network(
            httpx2.ReadTimeout("lost"), httpx2.Response(503, headers={"Retry-After": "2"}), DECISION
        )
        transport = httpx2.MockTransport(network)
        async with AsyncClient(ADDRESS, transport=transport) as client:
            made = await client.decide("ads")
            assert made == DecisionAnswer("x", "ads", "a", 0.5)
        assert len({each["request"] for each in network.bodies}) == 1
        answers = Network({"rewards": [{"status": "accepted"}] * 2}, problem(404, "not-found", "."))
        async with AsyncClient(ADDRESS, transport=httpx2.MockTransport(answers)) as client:
            rewards = await client.reward_many([(made, 1.0), (made, 1.0)])
            with pytest.raises(ArmraceError) as refused:
                await client.names()
        assert refused.value.code == "not-found"
        return rewards

    monkeypatch.setattr("asyncio.sleep", sleep)
    assert asyncio.run(work()) == [RewardAnswer("accepted")] * 2
    assert paused[1] == 2.0


# --- streams ----------------------------------------------------------------------------------

STREAM = (
    ": open\n\n"
    f"event: state\ndata: {json.dumps(VIEW)}\n\n: beat\n\n"
    f"event: state\ndata: {json.dumps({**VIEW, 'decisions': 1})}\n\n"
    'event: end\ndata: {"code": "unauthorised"}\n\n'
)


def stream():
    return httpx2.Response(200, text=STREAM, headers={"Content-Type": "text/event-stream"})


def test_clients_follow_the_state_until_they_may_not():
    seen = []
    network = Network(stream())
    with connect(network) as client, pytest.raises(Unauthorised, match="stream has ended"):
        seen.extend(view.decisions for view in client.events("a b"))
    assert seen == [0, 1]
    assert network.paths == ["/v1/experiments/a%20b/events"]

    async def follow():
        transport = httpx2.MockTransport(Network(stream()))
        async with AsyncClient(ADDRESS, transport=transport) as client:
            async for view in client.events("ads"):
                seen.extend([view.decisions])

    with pytest.raises(Unauthorised, match="stream has ended"):
        asyncio.run(follow())
    assert seen == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (httpx2.ConnectError("nobody listens"), ServiceUnreachable, "cannot be reached: nobody"),
        (httpx2.Response(503), ServiceUnreachable, "it answers 503"),
        (httpx2.Response(200, html="<html>"), ServiceUnreachable, "text/event-stream"),
        (problem(404, "unknown-name", "there is none."), UnknownName, "there is none"),
    ],
)
def test_a_stream_that_cannot_begin_is_refused_in_a_sentence(answer, kind, words):
    with connect(Network(answer)) as client, pytest.raises(kind, match=words):
        next(client.events("ads"))

    async def follow():
        transport = httpx2.MockTransport(Network(answer))
        async with AsyncClient(ADDRESS, transport=transport) as client:
            async for _ in client.events("ads"):
                pass

    with pytest.raises(kind, match=words):
        asyncio.run(follow())


# --- queues of clients ------------------------------------------------------------------------


def test_clients_have_queues():
    network = Network({"rewards": [{"status": "accepted"}]})
    with connect(network) as client, client.queue() as queue:
        assert isinstance(queue, RewardQueue)
        queue.put(DecisionAnswer("x", "ads", "a", 0.5), 1.0, labels={"campaign": "7"})
    assert network.paths == ["/v1/experiments/ads/rewards/batch"]

    async def make():
        async with AsyncClient(ADDRESS) as client:
            assert isinstance(client.queue(), AsyncRewardQueue)

    asyncio.run(make())


def test_a_reward_that_cannot_be_written_does_not_take_others_with_it():
    network = Network({"rewards": [{"status": "accepted"}]})
    with connect(network) as client:
        queue = client.queue()
        for name, label in (("first", "7"), ("poison", "\ud800"), ("last", "8")):
            queue.put(DecisionAnswer(name, "ads", "a", 0.5), 1.0, labels={"campaign": label})
        with pytest.raises(InvalidParameter, match="must be valid Unicode"):
            queue.close()
    assert [item.decision.decision for item, _ in queue.refused] == ["poison"]
    sent = {each["decision"] for body in network.bodies for each in body["rewards"]}
    assert sent == {"first", "last"}
