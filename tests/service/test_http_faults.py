"""The service over HTTP when something fails: stores, requests with defects, crowds, backups."""

from __future__ import annotations

import asyncio
import io
import json
import threading

import msgspec
import pytest
from starlette.testclient import TestClient

from armrace.errors import DamagedFile, RequestFailed, StoreFailed
from armrace.service import MemoryStore, Service
from armrace.service.http.application import create_application
from armrace.service.http.front import Front
from armrace.service.http.inside import Visitor
from armrace.service.http.logs import RequestLog
from armrace.service.http.problems import Overloaded, headers_of, status_of
from armrace.service.http.wire import DecideBody
from armrace.service.requests.decisions import Decide
from serving import LOCAL, folded_bytes, live_bytes
from stray_policies import Stray


@pytest.mark.parametrize(
    "error", [StoreFailed("the disk is full."), DamagedFile("the log is damaged.")]
)
def test_a_store_that_fails_for_good_stops_the_process(clock, error):
    class Failing(MemoryStore):
        fails = False

        def turn(self):
            if self.fails:
                raise error
            return super().turn()

    store, stopped = Failing(), []
    service = Service(store, clock=clock)
    application = create_application(
        service, when_failed=lambda: stopped.append(True), declared_open=True
    )
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        assert client.get("/readyz").status_code == 200
        store.fails = True
        response = client.get("/v1/experiments")
        assert response.status_code == 503
        assert response.headers["Retry-After"] == "1"
        assert stopped == [True]
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
        store.fails = False


class _Broken(msgspec.Struct, frozen=True):
    """A request that meets a defect, as a policy of one's own may."""

    def perform(self, books):
        raise ZeroDivisionError("a defect")


def test_a_defect_is_answered_logged_and_hurts_no_other_request(service, monkeypatch):
    """The process goes on, and requests of the same turn are performed all the same."""
    stopped, file = [], io.StringIO()
    service.create("ads", ["a", "b"], 0)
    application = create_application(
        service,
        when_failed=lambda: stopped.append(True),
        log=RequestLog("problems", file),
        declared_open=True,
    )
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        before = live_bytes(service)
        with monkeypatch.context() as broken:
            broken.setattr(DecideBody, "ask", lambda body, tenant, name: _Broken())
            headers = {"X-Request-Id": "abc"}
            answer = client.post("/v1/experiments/ads/decide", headers=headers)
        assert answer.status_code == 500
        assert answer.json()["code"] == "request-failed"
        assert "ZeroDivisionError" in answer.json()["message"]
        again = client.post("/v1/experiments/ads/decide", json={})
        assert again.status_code == 200, again.text
        assert again.json()["arm"] in ("a", "b")
        assert live_bytes(service) != before
        assert folded_bytes(service.ledger.store) == live_bytes(service)

        async def fail(call):
            raise KeyError("secret")

        monkeypatch.setattr("armrace.service.http.operations.Front.ask", fail)
        assert client.get("/v1/experiments").json()["code"] == "request-failed"
    line, _ = [json.loads(line) for line in file.getvalue().splitlines()]
    assert (line["request"], line["code"]) == ("abc", "request-failed")
    assert "ZeroDivisionError: a defect" in line["error"]
    assert stopped == []


def test_a_policy_that_draws_what_it_cannot_have_is_answered_with_500(service):
    service.create("ads", ["a", "b"], 0)
    service.create("own", ["a", "b"], 0, policy=Stray(arm=5))
    application = create_application(service, declared_open=True)
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        for _ in range(7):
            client.post("/v1/experiments/own/decide", json={}).raise_for_status()
        before = live_bytes(service)
        answer = client.post("/v1/experiments/own/decide", json={})
        assert (answer.status_code, answer.json()["code"]) == (500, "broken-policy")
        assert answer.json()["message"] == "the policy stray chose arm 5; its arms are 0 to 1."
        assert live_bytes(service) == before
        assert client.post("/v1/experiments/ads/decide", json={}).status_code == 200
        assert client.get("/readyz").status_code == 200


def test_a_defect_in_one_request_of_a_turn_is_that_requests_alone(service):
    service.create("ads", ["a", "b"], 0)

    async def ask():
        front = Front(service.ledger)
        requests = [Decide("main", "ads"), _Broken(), Decide("main", "ads")]
        return await asyncio.gather(*map(front.ask, requests), return_exceptions=True)

    first, broken, last = asyncio.run(ask())
    assert {first.experiment, last.experiment} == {"ads"}
    assert isinstance(broken, RequestFailed)
    assert service.describe("ads").decisions == 2


def test_too_many_waiting_requests_are_refused_at_once(service):
    service.create("ads", ["a", "b"], 0)

    async def ask():
        front = Front(service.ledger, most_waiting=2)
        asked = [front.ask(Decide("main", "ads")) for _ in range(3)]
        return await asyncio.gather(*asked, return_exceptions=True)

    *made, refused = asyncio.run(ask())
    assert [each.experiment for each in made] == ["ads", "ads"]
    assert isinstance(refused, Overloaded)
    assert status_of(refused) == 503
    assert "Retry-After" in headers_of(refused)


def test_a_store_that_fails_in_a_page_stops_the_process_too(service):
    stopped, found = [], []
    create_application(
        service,
        when_failed=lambda: stopped.append(True),
        pages=lambda inside: found.append(inside) or [],
        declared_open=True,
    )
    (inside,) = found

    class Failing(MemoryStore):
        def turn(self):
            raise StoreFailed("the disk is full.")

    service.ledger.store = Failing()

    async def look():
        await inside.call(Visitor("main", None), "GET", "/v1/health")

    with pytest.raises(StoreFailed):
        asyncio.run(look())
    assert stopped == [True]


def test_backups_are_written_one_at_a_time(tmp_path):
    begun, end = threading.Event(), threading.Event()

    class Slow(MemoryStore):
        def back_up(self, path):
            begun.set()
            assert end.wait(30)

    application = create_application(Service(Slow()), declared_open=True)
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        answers = []
        first = threading.Thread(target=lambda: answers.append(client.post("/v1/backup")))
        first.start()
        assert begun.wait(30)
        second = client.post("/v1/backup")
        assert (second.status_code, second.json()["code"]) == (503, "overloaded")
        end.set()
        first.join()
        assert answers[0].status_code == 200
        assert client.post("/v1/backup").status_code == 200
