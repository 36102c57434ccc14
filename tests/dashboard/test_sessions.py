"""Sessions, forms and headers, without a browser."""

from __future__ import annotations

import hashlib
from importlib.resources import files

import pytest
from starlette.testclient import TestClient

from armrace.dashboard import sessions as sessions_module
from armrace.dashboard.pages import Dashboard
from armrace.dashboard.sessions import COOKIE, Sessions
from armrace.service import Keyring, MemoryStore, Service
from armrace.service.http.application import create_application
from serving import LOCAL

VENDORED = {
    "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "uplot-license.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""Of uPlot 1.6.32 as npm gives it: uPlot.iife.min.js, uPlot.min.css and LICENSE."""


@pytest.mark.parametrize(("name", "digest"), VENDORED.items())
def test_what_is_vendored_is_unchanged(name, digest):
    content = files("armrace.dashboard").joinpath("static", name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == digest


def test_sessions_are_signed_and_end_with_their_key():
    keyring = Keyring()
    key, _ = keyring.create(["read"])
    sessions = Sessions(keyring)
    session = sessions.begin(key)
    assert sessions.key_of(session) == key
    for place in range(0, len(session), 7):
        forged = session[:place] + ("0" if session[place] != "0" else "1") + session[place + 1 :]
        assert sessions.key_of(forged) is None
    for text in ("", ".", "a.b.c", "é.1.2.3", session + "x", sessions.invite(key)):
        assert sessions.key_of(text) is None
    keyring.rotate()
    assert sessions.key_of(session) == key  # as decisions of the secret before
    keyring.rotate()
    assert sessions.key_of(session) is None
    session = sessions.begin(key)
    keyring.revoke(key.id)
    assert sessions.key_of(session) is None


def test_sessions_end_after_some_time(monkeypatch):
    keyring = Keyring()
    sessions = Sessions(keyring)
    monkeypatch.setattr(sessions_module, "LIFETIME", -1)
    assert sessions.key_of(sessions.begin(keyring.create(["read"])[0])) is None


def test_an_invitation_is_accepted_once():
    keyring = Keyring()
    key, _ = keyring.create(["admin"])
    sessions = Sessions(keyring)
    invitation = sessions.invite(key)
    assert sessions.accept(sessions.begin(key)) is None
    assert sessions.accept(invitation) == key
    assert sessions.accept(invitation) is None


@pytest.fixture
def keyring():
    return Keyring()


@pytest.fixture
def client(keyring):
    service = Service(MemoryStore(), keyring)
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
    service.reward(service.decide("ads"), 1.0, source="web")
    application = create_application(service, pages=lambda inside: Dashboard(inside).routes())
    with TestClient(
        application, base_url="http://127.0.0.1", client=LOCAL, follow_redirects=False
    ) as client:
        yield client


def sign_in(client, keyring, *scopes):
    _, text = keyring.create(scopes)
    answer = client.post("/sign-in", data={"key": text, "to": "/sources?name=ads"})
    assert answer.headers["location"] == "/sources?name=ads"


def token_in(page):
    return page.partition('name="token" value="')[2].partition('"')[0]


def test_without_keys_the_page_can_be_read_and_changes_nothing(client):
    page = client.get("/")
    assert "open for reading to this machine alone" in page.text
    assert "programs on this machine may do everything" in page.text
    assert client.get("/sources?name=ads").status_code == 200
    assert client.get("/preview?name=ads&source=web").status_code == 403
    assert client.post("/retract", data={"name": "ads", "source": "web"}).status_code == 403
    assert client.get("/sign-in").headers["location"] == "/"
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403


def test_every_answer_forbids_what_pages_do_not_need(client):
    for path in ("/", "/experiment?name=ads", "/experiment?name=no", "/static/dashboard.js"):
        headers = client.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/static/..%2fpages.py").status_code == 404


def test_pages_hold_no_inline_script_or_style(client):
    for path in ("/", "/experiment?name=ads", "/sources?name=ads"):
        text = client.get(path).text
        assert "style=" not in text
        assert "<style" not in text
        assert "onclick" not in text
        assert text.count("<script") == text.count("<script src=") == 2


def test_a_form_of_another_site_changes_nothing(client, keyring):
    sign_in(client, keyring, "admin")
    page = client.get("/preview?name=ads&source=web").text
    body = {"name": "ads", "source": "web", "reason": "forged"}
    assert client.post("/retract", data=body).status_code == 403
    assert client.post("/retract", data={**body, "token": "0" * 64}).status_code == 403
    other = Sessions(keyring).begin(keyring.create(["admin"])[0])
    stolen = Sessions(keyring).form_token(other)
    assert client.post("/retract", data={**body, "token": stolen}).status_code == 403
    done = client.post("/retract", data={**body, "token": token_in(page)})
    assert done.headers["location"] == "/experiment?name=ads&done=retract&rewards=1"
    assert "1 rewards retracted: forged" in client.get(done.headers["location"]).text


def test_a_read_key_cannot_retract(client, keyring):
    sign_in(client, keyring, "read")
    token = token_in(client.get("/").text)
    body = {"name": "ads", "source": "web", "token": token}
    answer = client.post("/retract", data=body)
    assert answer.status_code == 403
    assert "scope admin" in answer.text


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_signing_in_leads_to_this_server(client, keyring, target):
    _, text = keyring.create(["read"])
    answer = client.post("/sign-in", data={"key": text, "to": target})
    assert answer.headers["location"] == "/"


def test_large_forms_are_refused(client, keyring):
    keyring.create(["read"])
    assert client.post("/sign-in", data={"key": "x" * 10_000}).status_code == 413


def test_a_cookie_is_secure_behind_tls(client, keyring):
    _, text = keyring.create(["read"])
    headers = {"x-forwarded-proto": "https"}
    plain = client.post("/sign-in", data={"key": text}).headers["set-cookie"]
    answer = client.post("/sign-in", data={"key": text}, headers=headers)
    assert COOKIE in plain
    assert "Secure" not in plain
    assert "Secure" in answer.headers["set-cookie"]
