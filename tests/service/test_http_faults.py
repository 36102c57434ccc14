"""The service over HTTP when something fails: stores, requests with defects, crowds, backups."""

import asyncio
import io
import json
import threading

import pytest
from starlette.testclient import TestClient

from armrace.errors import DamagedFile, RequestFailed, StoreFailed
from armrace.service import MemoryStore, Service
from armrace.service.http.access import Caller
from armrace.service.http.application import RequestLog, create_application
from armrace.service.operations import HANDLERS
from armrace.service.operations.deciding import decide
from armrace_client.errors import Forbidden
from armrace_client.operations import BackUp, Decide, ListNames
from serving import LOCAL, is_replay, live_bytes
from stray_policies import Stray


@pytest.mark.parametrize(
    "error", [StoreFailed("the disk is full."), DamagedFile("the log is damaged.")]
)
def test_a_store_that_fails_for_good_stops_the_process(clock, error):
    class Failing(MemoryStore):
        fails = False

        def transaction(self, *given, **more):
            if self.fails:
                raise error
            return super().transaction(*given, **more)

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


def decide_with_a_defect(session, asked, deliver):
    """What a policy of one's own may do."""

    def command(work):
        if asked.unit == "broken":
            raise ZeroDivisionError("a defect")
        return decide(work, asked)

    session.engine.enqueue_one(asked.name, command, session.principal, deliver)


def test_a_defect_is_answered_logged_and_hurts_no_other_request(service, monkeypatch):
    """The process goes on, and others of the same transaction are performed all the same."""
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
            broken.setitem(HANDLERS, Decide, decide_with_a_defect)
            headers, body = {"X-Request-Id": "abc"}, {"unit": "broken"}
            answer = client.post("/v1/experiments/ads/decide", headers=headers, json=body)
        assert answer.status_code == 500
        assert answer.json()["code"] == "request-failed"
        assert "ZeroDivisionError" in answer.json()["message"]
        again = client.post("/v1/experiments/ads/decide", json={})
        assert again.status_code == 200, again.text
        assert again.json()["arm"] in ("a", "b")
        assert live_bytes(service) != before
        assert is_replay(service)

        def fail(*given):
            raise KeyError("secret")

        monkeypatch.setattr(service.engine, "submit", fail)
        assert client.get("/v1/experiments").json()["code"] == "request-failed"
    line, _, _ = [json.loads(line) for line in file.getvalue().splitlines()]
    assert line["event"] == "failure"
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
        before = live_bytes(service, "own")
        answer = client.post("/v1/experiments/own/decide", json={})
        assert (answer.status_code, answer.json()["code"]) == (500, "broken-policy")
        assert answer.json()["message"] == "the policy stray chose arm 5; its arms are 0 to 1."
        assert live_bytes(service, "own") == before
        assert client.post("/v1/experiments/ads/decide", json={}).status_code == 200
        assert client.get("/readyz").status_code == 200


def api_of(service, **more):
    found = []
    create_application(service, pages=lambda api: found.append(api) or [], **more)
    return found[0]


def test_a_defect_in_one_operation_of_a_transaction_is_that_operations_alone(service, monkeypatch):
    service.create("ads", ["a", "b"], 0)
    monkeypatch.setitem(HANDLERS, Decide, decide_with_a_defect)
    api, caller = api_of(service), Caller("main", None)

    async def ask():
        asked = [Decide("ads"), Decide("ads", unit="broken"), Decide("ads")]
        return await asyncio.gather(
            *(api.call(caller, each) for each in asked), return_exceptions=True
        )

    first, broken, last = asyncio.run(ask())
    assert {first.experiment, last.experiment} == {"ads"}
    assert isinstance(broken, RequestFailed)
    assert service.describe("ads").decisions == 2


def test_too_many_waiting_operations_are_refused_at_once(service, monkeypatch):
    service.create("ads", ["a", "b"], 0)
    monkeypatch.setattr("armrace.service.engine._MOST_WAITING", 0)
    application = create_application(service, declared_open=True)
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        answer = client.post("/v1/experiments/ads/decide", json={})
        assert (answer.status_code, answer.json()["code"]) == (503, "overloaded")
        assert answer.headers["Retry-After"] == "1"


def test_a_store_that_fails_in_a_page_stops_the_process_too(service):
    stopped = []
    api = api_of(service, when_failed=lambda: stopped.append(True))

    class Failing(MemoryStore):
        def transaction(self, *given, **more):
            raise StoreFailed("the disk is full.")

    service.engine.store = Failing()
    with pytest.raises(StoreFailed):
        asyncio.run(api.call(Caller("main", None), ListNames()))
    assert stopped == [True]


def test_pages_check_scopes_as_endpoints_do(service):
    api = api_of(service)
    reader = service.keyring.create(["read"], label="desk")[0]
    stranger = service.keyring.create(["admin"], tenant="shop")[0]
    for key, operation in ((reader, Decide("ads")), (stranger, BackUp())):
        with pytest.raises(Forbidden):
            asyncio.run(api.call(Caller(key.tenant, key), operation))
    assert asyncio.run(api.call(Caller("main", reader), ListNames())).experiments == []


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
