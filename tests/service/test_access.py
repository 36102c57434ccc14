"""Who may reach the service: this machine without keys, keys with their scopes, and how often."""

import asyncio
import io
import json
import sys

import pytest
from starlette.testclient import TestClient

from armrace.errors import InvalidParameter
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.http import access as access_module
from armrace.service.http.access import Streams, TrustedProxies
from armrace.service.http.application import RequestLog, create_application
from armrace.service.http.server import ServerSettings
from armrace_client.errors import TooOften
from serving import JSON, LOCAL, events_over_http

ADS = {"name": "ads", "arms": ["a", "b"], "missing": 0, "policy": "ucb1"}
CREATE, NAMES = ("POST", "/v1/experiments"), ("GET", "/v1/experiments")
HERE = "http://127.0.0.1"


@pytest.fixture(autouse=True)
def _always_fresh(monkeypatch):
    monkeypatch.setattr(access_module, "_REFRESH_SECONDS", -1.0)


def client_of(service, address=LOCAL, **more):
    application = create_application(service, **more, declared_open=True)
    return TestClient(application, base_url=HERE, client=address)


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def test_a_service_whose_last_key_is_revoked_stays_closed(service, tmp_path):
    service = Service(MemoryStore(), Keyring(tmp_path / "keys"))
    with client_of(service) as client:
        assert client.get("/v1/experiments").status_code == 200
        operator = Keyring(tmp_path / "keys")
        key, text = operator.create(["admin"])
        assert client.get("/v1/experiments").status_code == 401
        assert client.get("/v1/experiments", headers=bearer(text)).status_code == 200
        operator.revoke(key.id)
        assert client.get("/v1/experiments", headers=bearer(text)).status_code == 401
        assert client.get("/v1/experiments").status_code == 401
        assert client.get("/metrics").status_code == 401


@pytest.mark.parametrize(
    "address", [("192.168.1.7", 50000), ("2001:db8::1", 50000), ("nonsense", 1)]
)
def test_without_keys_other_machines_are_refused_whatever_they_call_this_one(service, address):
    with client_of(service, address) as client:
        answer = client.get("/v1/experiments")
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert client.get("/metrics").status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-For": "10.0.0.1"},
        {"X-Forwarded-Host": "shop.example"},
        {"Forwarded": "for=10.0.0.1"},
        {"X-Real-IP": "10.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    ],
)
@pytest.mark.parametrize("address", [CREATE, NAMES])
def test_without_keys_proxies_and_pages_of_other_sites_are_refused(service, headers, address):
    with client_of(service) as client:
        answer = client.request(*address, headers={**JSON, **headers}, content=json.dumps(ADS))
        assert answer.status_code == 403
        assert service.names() == []


def test_without_keys_programs_pages_of_its_own_and_links_pass(service):
    with client_of(service) as client:
        own = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
        assert client.post("/v1/experiments", json=ADS, headers=own).status_code == 201
        link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        assert client.get("/v1/experiments", headers=link).status_code == 200
        assert client.post("/v1/experiments", json=ADS, headers=link).status_code == 403


def test_with_keys_proxies_and_other_addresses_pass(service):
    text = service.keyring.create(["admin"])[1]
    with client_of(service, ("203.0.113.7", 1)) as client:
        headers = {**bearer(text), "X-Forwarded-For": "10.0.0.1", "Host": "shop.example"}
        assert client.get("/v1/experiments", headers=headers).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
def test_a_body_that_a_page_may_send_unasked_is_refused(service, kind):
    service.create("ads", ["a", "b"], 0)
    headers = {} if kind is None else {"Content-Type": kind}
    with client_of(service) as client:
        address = "/v1/experiments/ads/decide"
        answer = client.post(address, content=b"{}", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")
        assert client.post(address).status_code == 200  # without a body
        kind = {"Content-Type": "Application/JSON; charset=utf-8"}
        assert client.post(address, content=b"{}", headers=kind).status_code == 200


@pytest.mark.parametrize(
    "policy",
    [
        "antigravity:x",
        {"name": "antigravity:x"},
        {"name": "guarded", "base": "antigravity:x"},
        {"name": "guarded", "base": {"name": "antigravity:x"}},
        {"name": "guarded", "base": {"name": "guarded", "base": "antigravity:x"}},
        {"name": "guarded", "base": ["antigravity:x"]},
    ],
)
def test_no_module_is_imported_over_http(service, policy):
    with client_of(service) as client:
        answer = client.post("/v1/experiments", json={**ADS, "policy": policy})
        assert answer.status_code == 422
        assert "must be a name of the catalogue; got 'antigravity:x'" in answer.json()["message"]
    assert "antigravity" not in sys.modules


def test_a_batch_counts_by_its_members_and_the_answer_says_when_to_come_back(service):
    service.create("ads", ["a", "b"], 0)
    text = service.keyring.create(["decide", "reward"])[1]
    with client_of(service, rate=10) as client:
        client.headers.update(bearer(text))

        def decide(count):
            body = {"decisions": [{}] * count}
            return client.post("/v1/experiments/ads/decide/batch", json=body)

        assert decide(15).status_code == 200
        refused = decide(15)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "1"
        assert "may send 10 events a second" in refused.json()["message"]
        assert decide(2).status_code == 200  # of the five that are left
        assert service.describe("ads").decisions == 17


def test_requests_that_cost_more_count_more(service, monkeypatch):
    charged = []
    monkeypatch.setattr(
        access_module.Access, "charge", lambda access, key, events=1: charged.append(events)
    )
    service.create("ads", [f"arm {place}" for place in range(300)], 0)
    names, ads = {"eligible": [f"arm {place}" for place in range(290)]}, "/v1/experiments/ads"
    headers = bearer(service.keyring.create(["admin"])[1])
    with client_of(service) as client:
        for method, path, body in (
            ("POST", f"{ads}/decide", {}),
            ("POST", f"{ads}/decide", names),
            ("POST", f"{ads}/decide/batch", {"decisions": [names, {}]}),
            ("GET", "/v1/experiments", None),
            ("GET", ads, None),
            ("GET", f"{ads}/audit", None),
            ("GET", f"{ads}/history", None),
            ("GET", f"{ads}/export", None),
            ("POST", f"{ads}/retract", {"sources": ["bots"], "preview": True}),
        ):
            answer = client.request(method, path, json=body, headers=headers)
            assert answer.status_code == 200, answer.text
    assert charged == [1, 3, 4, 1, 5, 20, 20, 200, 200]


def test_a_batch_larger_than_the_limit_passes_and_is_paid_for_later(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(access_module.time, "monotonic", lambda: now[0])
    bucket = access_module._Bucket(rate=10, burst=2.0)
    assert bucket.take(100) == 0
    assert bucket.take(1) == pytest.approx(8.1)
    now[0] = 8.2
    assert bucket.take(1) == 0


def test_what_concerns_all_tenants_is_the_operators(service):
    service.keyring.create(["admin"])
    own = service.keyring.create(["admin"], tenant="main")[1]
    stranger = service.keyring.create(["admin"], tenant="shop")[1]
    with client_of(service) as client:
        for method, path in (("POST", "/v1/backup"), ("GET", "/metrics")):
            refused = client.request(method, path, headers=bearer(stranger))
            assert refused.status_code == 403
            assert "all tenants" in refused.json()["message"]
            assert client.request(method, path, headers=bearer(own)).status_code != 403


def test_a_key_file_that_is_damaged_is_told_once_and_the_keys_stay_valid(tmp_path):
    service = Service(MemoryStore(), Keyring(tmp_path / "keys"))
    text, file = service.keyring.create(["admin"])[1], io.StringIO()
    with client_of(service, log=RequestLog("problems", file)) as client:
        (tmp_path / "keys").write_text("{")
        for _ in range(3):
            assert client.get("/v1/experiments", headers=bearer(text)).status_code == 200
        assert "armrace_keys_readable 0" in client.get("/metrics", headers=bearer(text)).text
    told, stop = map(json.loads, file.getvalue().splitlines())
    assert (told["event"], stop["event"]) == ("keys", "stop")
    assert "cannot be read" in told["message"]


def test_a_stream_ends_with_its_key_and_with_the_server(service, monkeypatch):
    monkeypatch.setattr("armrace.service.http.application._EVENT_SECONDS", 0.01)
    service.create("ads", ["a", "b"], 0)
    key, text = service.keyring.create(["read"])
    other = service.keyring.create(["read"])[1]

    async def follow():
        application = create_application(service, declared_open=True)
        first, sent = events_over_http(application, [(b"authorization", f"Bearer {text}".encode())])
        second, _ = events_over_http(application, [(b"authorization", f"Bearer {other}".encode())])
        assert (await sent.get())["status"] == 200
        assert (await sent.get())["body"].startswith(b"event: state")
        service.keyring.revoke(key.id)
        await asyncio.wait_for(first, 10)
        assert not second.done()
        monkeypatch.setattr("armrace.service.http.application._EVENT_SECONDS", 1000)
        application.streams.close()
        await asyncio.wait_for(second, 10)
        return [sent.get_nowait().get("body", b"") for _ in range(sent.qsize())]

    messages = asyncio.run(follow())
    assert any(b'event: problem\ndata: {"code":"unauthorised"}' in each for each in messages)


def test_a_key_has_a_limited_number_of_streams():
    streams = Streams(most=2)
    with streams.opened("a"), streams.opened("a"):
        with pytest.raises(TooOften, match="at most 2"):
            streams.check("a")
        streams.check("b")
    streams.check("a")


def who(client, headers):
    """Whom the log names for a change that is made with these headers."""
    client.post("/v1/experiments/ads/pause", headers=headers).raise_for_status()
    client.post("/v1/experiments/ads/resume", headers=headers).raise_for_status()
    latest = client.get("/v1/experiments/ads/actions?most=1", headers=headers).json()[0]
    return latest["key"], latest["label"], latest["person"]


def test_changes_name_the_key_its_label_and_the_person(service):
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    key, text = service.keyring.create(["admin"], label="fraud desk")
    plain, other = service.keyring.create(["admin"])
    proxies = TrustedProxies("X-User", "10.0.0.0/8, ::1")
    asked = {**bearer(text), "X-User": "ann@shop.example"}
    for address, person in (
        ("10.1.2.3", "ann@shop.example"),
        ("::ffff:10.1.2.3", "ann@shop.example"),
        ("::1", "ann@shop.example"),
        ("192.168.1.7", None),
        ("nonsense", None),
    ):
        application = create_application(service, proxies=proxies)
        # Without its lifespan, at whose end the service would be closed.
        client = TestClient(application, base_url=HERE, client=(address, 50000))
        assert who(client, asked) == (key.id, "fraud desk", person)
        assert who(client, bearer(other)) == (plain.id, None, None)
    unset = TestClient(create_application(service), base_url=HERE, client=("10.1.2.3", 1))
    assert who(unset, asked) == (key.id, "fraud desk", None)


@pytest.mark.parametrize(
    ("headers", "person"),
    [
        ([(b"x-user", b"ann")], "ann"),
        ([(b"x-user", " Zoë ".encode())], "Zoë"),
        ([(b"x-user", b"ann"), (b"x-user", b"bob")], None),
        ([(b"x-user", b"")], None),
        ([(b"x-user", b"ann\x00")], None),
        ([(b"x-user", b"a" * 300)], "a" * 200),
        ([], None),
    ],
)
def test_a_person_is_named_once_and_in_print(headers, person):
    proxies = TrustedProxies("X-User", "127.0.0.1")
    assert proxies.person({"client": LOCAL, "headers": headers}) == person
    assert proxies.person({"client": None, "headers": headers}) is None


def test_proxies_are_trusted_with_header_and_addresses_alone():
    assert ServerSettings().proxies is None
    for settings in (
        ServerSettings(trust_user_header="X-User"),
        ServerSettings(trusted_proxies="10.0.0.5"),
    ):
        with pytest.raises(InvalidParameter, match="must be given together"):
            assert settings.proxies
    with pytest.raises(InvalidParameter, match="trusted_proxies must be addresses or networks"):
        TrustedProxies("X-User", "10.0.0.5, somewhere")
