"""Clients: typed answers, errors by their code, and retries that do no harm."""

from __future__ import annotations

import asyncio
import inspect
import re
import time
from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

import armrace
from armrace.errors import (
    ArmraceError,
    InvalidParameter,
    RewardConflict,
    ServiceUnreachable,
    UnknownName,
)
from armrace.service import RewardAnswer
from armrace.service.http import operations
from armrace.service.http.application import create_application
from hosting import free_port, hosted
from serving import LOCAL

ADDRESS = "http://127.0.0.1"


class Network(httpx.BaseTransport):
    """Carries requests to an application; loses the answers of the first few."""

    def __init__(self, client: TestClient, losses: int = 0) -> None:
        self.client, self.losses, self.sent = client, losses, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.sent += 1
        got = self.client.request(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers=dict(request.headers),
        )
        if self.sent <= self.losses:
            raise httpx.ReadTimeout("the answer was lost")
        return httpx.Response(got.status_code, headers=dict(got.headers), content=got.content)


@pytest.fixture
def application(service):
    with TestClient(
        create_application(service, declared_open=True), base_url=ADDRESS, client=LOCAL
    ) as client:
        yield client


def connect(application, losses=0, **more):
    return armrace.Client(ADDRESS, transport=Network(application, losses), **more)


def test_the_client_does_what_the_service_does(application, clock):
    with connect(application) as client:
        assert client.create("ads", ["a", "b"], 0, window=10, horizon=100).phase == "running"
        decision = client.decide("ads", eligible=["a"])
        assert decision.arm == "a"
        assert client.reward(decision, 1.0, source="web") == "accepted"
        made = client.decide_many("ads", 3)
        answers = client.reward_many([(each, 1.0) for each in made])
        assert answers == [RewardAnswer("accepted")] * 3
        assert client.retract("ads", source="web").rewards == 1
        assert client.release("ads", [decision]).rewards == 1
        clock.move(10)
        assert client.describe("ads").decisions == 4
        assert client.names() == ["ads"]


def test_the_client_rules_changes_arms_and_inspects(application, clock):
    with connect(application) as client:
        client.create("ads", ["a", "b"], 0, window=10, horizon=100, quarantine=0.5)
        decision, other = client.decide_many("ads", 2)
        client.reward(decision, 1.0, source="bot")
        client.reward(other, 1.0, source="web", suspicion=0.9)
        assert [each.source for each in client.quarantine("ads")] == ["web"]
        clock.move(10)
        preview = client.retract("ads", source="bot", preview=True)
        assert preview.rewards == 1
        assert sum(arm.rewarded for arm in preview.before.arms) == 1
        assert sum(arm.rewarded for arm in preview.after.arms) == 0
        assert sum(arm.rewarded for arm in client.describe("ads").arms) == 1
        assert client.add_arm("ads", "c / d").status == "active"
        assert client.pause_arm("ads", "c / d").status == "paused"
        assert client.resume_arm("ads", "c / d").status == "active"
        assert client.retire_arm("ads", "c / d").status == "retired"
        assert client.pause("ads").phase == "paused"
        assert client.resume("ads").phase == "running"
        assert client.export("ads").count(b"\n") == 2
        assert client.export("ads", format="parquet").startswith(b"PAR1")
        assert len(client.check_ratio("ads").rows) == 3
        assert client.audit("ads", level=0.01)["level"] == 0.01
        assert [each.name for each in client.health()] == ["ads"]
        assert client.history("ads").arms == ["a", "b", "c / d"]
        assert {each.source for each in client.sources("ads")} == {"bot", "web"}
        assert client.release("ads", source="web", preview=True).rewards == 1
        assert [each.source for each in client.quarantine("ads")] == ["web"]
        with pytest.raises(InvalidParameter, match="is not a file"):
            client.back_up()
        assert client.finish("ads").phase == "finished"


def test_both_clients_have_the_same_methods_with_the_same_descriptions():
    one, other = armrace.Client(ADDRESS), armrace.AsyncClient(ADDRESS)
    for name in ("decide", "reward", "retract", "add_arm", "export"):
        assert inspect.signature(getattr(one, name)) == inspect.signature(getattr(other, name))
        assert getattr(one, name).__doc__ == getattr(other, name).__doc__
    coroutine = other.names()
    assert inspect.iscoroutine(coroutine)
    coroutine.close()


@pytest.mark.parametrize("dots", [".", "..", "a/../../b"])
def test_names_that_would_lead_elsewhere_are_not_sent(application, dots):
    """``.../ads/arms/../pause`` is the address that pauses the experiment."""
    with connect(application) as client:
        client.create("ads", ["a", "b"], 0, policy="ucb1")
        for change in (client.pause_arm, client.retire_arm, client.resume_arm, client.add_arm):
            with pytest.raises(InvalidParameter, match=r"arm must not have \. or \.\. as a part"):
                change("ads", dots)
        with pytest.raises(InvalidParameter, match=r"name must not have \. or \.\. as a part"):
            client.pause(dots)
        assert client.describe("ads").phase == "running"


def test_refusals_are_the_errors_of_python(application):
    with connect(application) as client:
        client.create("ads", ["a", "b"], 0)
        decision = client.decide("ads")
        client.reward(decision, 1.0)
        with pytest.raises(RewardConflict, match="has had the reward 1; got 0"):
            client.reward(decision, 0.0)
        with pytest.raises(UnknownName, match="no experiment named 'none'"):
            client.decide("none")
        with pytest.raises(InvalidParameter, match="reward must be in"):
            client.reward(client.decide("ads"), 5)


def test_refusals_of_the_server_alone_keep_their_codes(service):
    _, text = service.keyring.create(["decide"])
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    with hosted(service) as address:
        for key, code in (("wrong", "unauthorised"), (text, "forbidden")):
            with armrace.Client(address, key=key) as client, pytest.raises(ArmraceError) as refused:
                client.describe("ads")
            assert refused.value.code == code


def test_a_lost_answer_is_asked_for_again_and_counts_once(application, service):
    service.create("ads", ["a", "b"], 0)
    with connect(application, losses=2) as client:
        client.decide("ads")
    assert service.describe("ads").decisions == 1


def test_what_takes_long_is_waited_for_and_not_begun_twice(application, service):
    """A ruling whose answer is lost may have been made; made again, it takes as long again."""
    service.create("ads", ["a", "b"], 0)
    patience = []

    class Patient(Network):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            patience.append(request.extensions["timeout"]["read"])
            return super().handle_request(request)

    for call in (
        lambda client: client.retract("ads", source="web"),
        lambda client: client.release("ads", source="web", preview=True),
        lambda client: client.export("ads"),
        lambda client: client.back_up(),
    ):
        network = Patient(application, losses=1)
        with armrace.Client(ADDRESS, transport=network, timeout=3) as client:
            with pytest.raises(ServiceUnreachable, match="may have been done or not"):
                call(client)
            assert network.sent == 1
    assert patience == [None] * 4
    proxy = httpx.MockTransport(lambda request: httpx.Response(504))
    with (
        armrace.Client(ADDRESS, transport=proxy) as client,
        pytest.raises(ServiceUnreachable, match="a proxy answers 504"),
    ):
        client.export("ads")


def test_what_takes_long_is_sent_again_if_it_cannot_have_begun():
    tries = []

    def refuse(request):
        tries.append(request.url.path)
        if len(tries) < 3:
            raise httpx.ConnectError("nobody listens")
        return httpx.Response(200, content=b"rows")

    with armrace.Client(ADDRESS, transport=httpx.MockTransport(refuse)) as client:
        assert client.export("ads") == b"rows"
    assert len(tries) == 3


def test_a_service_that_does_not_answer_is_named():
    client = armrace.Client("http://127.0.0.1:9", retries=1)
    with pytest.raises(ServiceUnreachable, match="cannot be reached"):
        client.names()
    client.close()
    with pytest.raises(InvalidParameter, match="address must begin with http"):
        armrace.Client("localhost")


def test_the_client_waits_as_long_as_the_service_says(monkeypatch):
    pauses = []
    monkeypatch.setattr("time.sleep", pauses.append)
    answers = iter(
        [
            httpx.Response(503, headers={"Retry-After": "2"}),
            httpx.Response(200, json={"experiments": []}),
        ]
    )
    transport = httpx.MockTransport(lambda request: next(answers))
    with armrace.Client(ADDRESS, transport=transport) as client:
        assert client.names() == []
    assert pauses == [2.0]


def test_the_asynchronous_client(service):
    service.create("ads", ["a", "b"], 0)

    async def work():
        transport = httpx.ASGITransport(create_application(service, declared_open=True))
        async with armrace.AsyncClient(ADDRESS, transport=transport) as client:
            made = await asyncio.gather(*[client.decide("ads") for _ in range(20)])
            answers = await client.reward_many([(each, 1.0) for each in made])
            one = await client.decide("ads")
            assert await client.reward(one, 0.0) == "accepted"
            assert (await client.describe("ads")).decisions == 21
            return [answer.status for answer in answers]

    assert asyncio.run(work()) == ["accepted"] * 20


def test_clients_follow_the_state_and_are_told_when_they_may_not(service):
    service.create("ads", ["a", "b"], 0)
    key, text = service.keyring.create(["read"])
    with hosted(service) as address:
        with armrace.Client(address, key=text) as client:
            with pytest.raises(UnknownName, match="no experiment named 'none'"):
                next(client.events("none"))
            views = client.events("ads")
            assert next(views).decisions == 0
            service.decide("ads")
            assert next(views).decisions == 1

        async def follow():
            async with armrace.AsyncClient(address, key=text) as client:
                async for view in client.events("ads"):
                    assert view.decisions == 1
                    service.keyring.revoke(key.id)

        with pytest.raises(ArmraceError, match="the stream has ended: unauthorised"):
            asyncio.run(follow())


@pytest.mark.parametrize(
    ("address", "transport", "reason"),
    [
        ("http://127.0.0.1:9", None, "cannot be reached"),
        (ADDRESS, httpx.MockTransport(lambda request: httpx.Response(503)), "it answers 503"),
    ],
)
def test_a_stream_that_cannot_begin_is_refused_in_a_sentence(address, transport, reason):
    with (
        armrace.Client(address, transport=transport) as client,
        pytest.raises(ServiceUnreachable, match=reason),
    ):
        next(client.events("ads"))


def test_the_shop_of_the_guide_works(application, service, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "guide" / "serving.md"
    (source,) = re.findall(r"```python\n(# shop\.py\n.*?)```", page.read_text(), re.DOTALL)
    (tmp_path / "shop.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    import shop  # type: ignore[import-not-found]

    shop.client.close()
    with armrace.Client(f"http://127.0.0.1:{free_port()}", timeout=0.5, retries=0) as shop.client:
        default = shop.banner("visitor 1")
        assert default == ("red", None)
        shop.clicked(default[1])
    with connect(application) as shop.client:
        shop.set_up()
        shop.set_up()
        arm, token = shop.banner("visitor 1")
        assert shop.banner("visitor 1") == (arm, token)
        shop.clicked(token)
    assert service.reward(token, 1.0) == "duplicate"


def test_a_policy_that_takes_long_to_compile_does_not_fail_the_first_create(service, monkeypatch):
    monkeypatch.setattr(operations, "warm_for_serving", lambda settings: time.sleep(1.0))
    with hosted(service) as address, armrace.Client(address, timeout=0.2, retries=0) as client:
        assert client.create("ads", ["a", "b"], 0).phase == "running"
