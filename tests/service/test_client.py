"""Clients: typed answers, errors by their code, and retries that do no harm."""

import asyncio
import re
import time
from pathlib import Path

import httpx2
import pytest
from starlette.testclient import TestClient

import armrace
from armrace.errors import (
    ArmraceError,
    InvalidParameter,
    UnknownName,
)
from armrace.service.http.application import create_application
from armrace.service.operations import experiments
from armrace_client.answers import RewardAnswer
from armrace_client.leases import LeasedExperiment
from armrace_client.queue import RewardQueue
from hosting import free_port, hosted
from serving import LOCAL

ADDRESS = "http://127.0.0.1"


class Network(httpx2.BaseTransport):
    """Carries requests to an application; loses the answers of the first few."""

    def __init__(self, client: TestClient, losses: int = 0) -> None:
        self.client, self.losses, self.sent = client, losses, 0

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        self.sent += 1
        got = self.client.request(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers=dict(request.headers),
        )
        if self.sent <= self.losses:
            raise httpx2.ReadTimeout("the answer was lost")
        return httpx2.Response(got.status_code, headers=dict(got.headers), content=got.content)


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
        assert client.retract("ads", sources="web").changed == 1
        assert client.release("ads", [decision]).changed == 1
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
        preview = client.retract("ads", sources="bot", preview=True)
        assert preview.changed == 1
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
        assert client.release("ads", sources="web", preview=True).changed == 1
        assert [each.source for each in client.quarantine("ads")] == ["web"]
        with pytest.raises(InvalidParameter, match="is not a file"):
            client.back_up()
        assert client.void("ads", sources="bot", reason="bots").changed == 1
        assert client.hold("ads", sources="odd", standing=True).changed == 0
        assert client.describe("ads").holds[0].source == "odd"
        actions = [each.action for each in client.actions("ads")]
        assert actions[:2] == ["begin-standing-hold", "void"]
        assert client.start_afresh("ads").generation == 1
        assert client.record("ads", "a").arm == "a"
        assert client.finish("ads").phase == "finished"
        assert client.delete("ads", without_export=True) == []


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


def test_the_asynchronous_client(service):
    service.create("ads", ["a", "b"], 0)

    async def work():
        transport = httpx2.ASGITransport(create_application(service, declared_open=True))
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
    monkeypatch.setattr(experiments, "compile_policy", lambda settings: time.sleep(1.0))
    with hosted(service) as address, armrace.Client(address, timeout=0.2, retries=0) as client:
        assert client.create("ads", ["a", "b"], 0).phase == "running"


def test_rewards_are_queued_for_a_real_service(application, service):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    made = service.decide_many("ads", 30)
    with connect(application) as client, client.queue() as queue:
        assert isinstance(queue, RewardQueue)
        for decision in made:
            queue.put(decision, 1.0)
    assert {service.reward(decision, 1.0) for decision in made} == {"duplicate"}


def test_visits_are_drawn_under_a_lease_of_a_real_service(application, service):
    service.create("ads", ["a", "b"], 0, policy="tsallis-inf", horizon=1000)
    with connect(application) as client, LeasedExperiment(client, "ads") as leased:
        for _ in range(20):
            leased.decide().reward(1.0)
    assert [(row.by, row.reward) for row in service.rows("ads")] == [("lease", 1.0)] * 20
