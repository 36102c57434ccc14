"""Webhooks: alarms are told once each, signed, whatever their receiver does."""

import base64
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from armrace.cli.main import run
from armrace.dashboard.pages import Dashboard
from armrace.errors import InvalidParameter
from armrace.service import Keyring, Service
from armrace.service.http import webhooks
from armrace.service.http.application import create_application
from armrace.service.http.webhooks import WebhookQueue, WebhookSettings, _Told
from armrace.service.log.sqlite import SqliteStore
from hosting import free_port
from serving import LOCAL, attacked

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "serving.md"
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(webhooks, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(webhooks, "_FIRST_WAIT", 0.05)


class Receiver(ThreadingHTTPServer):
    """Notes what comes, and answers with the next of some behaviours, at last always the last."""

    daemon_threads = True

    def __init__(self, *behaviours):
        self.behaviours, self.got, self.may_end = [*behaviours], [], threading.Event()
        super().__init__(("127.0.0.1", 0), Answering)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/secret-path"

    def handle_error(self, request, client_address):
        """A client that has gone is no error here."""

    def bodies(self):
        return [json.loads(body) for _, body in self.got]


class Answering(BaseHTTPRequestHandler):
    def do_POST(self):
        server = self.server
        body = self.rfile.read(int(self.headers["content-length"]))
        server.got.append((dict(self.headers), body))
        behaviour = server.behaviours[0]
        if len(server.behaviours) > 1:
            server.behaviours.pop(0)
        if behaviour == "hang":
            server.may_end.wait(500)
        elif behaviour == "drip":
            for byte in b"HTTP/1.1 200 OK\r\nX-Endless: " + b"x" * 10_000:
                self.wfile.write(bytes([byte]))
                if server.may_end.wait(0.01):
                    return
        else:
            self.send_response(behaviour)
            if behaviour == 302:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_GET(self):
        self.server.got.append(({}, b"{}"))  # a redirect was followed

    def log_message(self, *given):
        pass


@contextmanager
def receiving(*behaviours):
    with Receiver(*behaviours) as receiver:
        thread = threading.Thread(target=receiver.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield receiver
        finally:
            receiver.may_end.set()
            receiver.shutdown()
            thread.join()


def until(reached):
    for _ in range(3000):
        if reached():
            return
        time.sleep(0.01)
    pytest.fail("what was awaited did not happen")


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "webhook.secret"
    path.write_text(f"{SECRET}\n")
    return path


@contextmanager
def told(service, url, secret):
    """A service over HTTP that tells its alarms, with its application."""
    application = create_application(
        service,
        pages=lambda api: Dashboard(api).routes(),
        declared_open=True,
        webhook=WebhookSettings(url, secret, "http://localhost"),
    )
    with TestClient(application, base_url="http://localhost", client=LOCAL) as client:
        yield client, application._webhooks.outbox


def verified(headers, body):
    """Whether the function of the guide takes a message for genuine."""
    code = GUIDE.read_text().partition("# verify.py\n")[2].partition("```")[0]
    exec(code.partition("forged = ")[0], found := {})
    return found["is_genuine"](SECRET, headers, body)


def test_an_alarm_is_told_once_signed_with_words_and_a_link(service, clock, secret):
    with receiving(200) as receiver, told(service, receiver.url, secret) as (client, outbox):
        attacked(service, clock, "help <answers>")
        until(lambda: receiver.got and not outbox.state.waiting)
        for _ in range(5):  # more of the same
            service.decide_many("help <answers>", 200)
            clock.move(10)
        service.audit("help <answers>")
        time.sleep(0.2)
        ((headers, body),) = receiver.got
        assert verified(headers, body)
        assert not verified(headers, body.replace(b"help", b"hulp"))
        assert not verified({**headers, "webhook-timestamp": "1700000000"}, body)
        message = json.loads(body)
        assert message["id"] == headers["webhook-id"]
        assert headers["Content-Type"] == "application/json"
        assert (message["type"], message["tenant"]) == ("alarm", "main")
        assert message["experiment"] == "help <answers>"
        alarm = message["alarms"][0]
        assert (alarm["kind"], alarm["arm"]) == ("change", "a")
        began = clock.now - 95_000 + 30_000
        assert abs(message["since"] - began) <= 10_000
        assert message["text"].startswith(
            "Rewards of help <answers> look forged, or something else has changed since 2023-11-14 "
        )
        assert " UTC: a paid " in message["text"]
        assert message["text"].endswith("Chance alone does this with a probability below 1e-12.")
        page = client.get(message["link"])
        assert page.status_code == 200
        assert "help &lt;answers&gt;" in page.text
        metrics = client.get("/metrics").text
        assert 'armrace_webhook_attempts_total{outcome="delivered"} 1.0' in metrics
        assert "armrace_webhook_waiting 0.0" in metrics


def test_what_was_not_taken_is_sent_again_as_the_same_message(service, clock, secret):
    with (
        receiving(500, 302, 404, 200) as receiver,
        told(service, receiver.url, secret) as (
            client,
            outbox,
        ),
    ):
        attacked(service, clock)
        until(lambda: len(receiver.got) == 4 and not outbox.state.waiting)
        time.sleep(0.2)
        assert len({headers["webhook-id"] for headers, _ in receiver.got}) == 1
        assert len(receiver.got) == 4, "a redirect is not followed"
        assert all(verified(*each) for each in receiver.got)
        metrics = client.get("/metrics").text
        assert 'armrace_webhook_attempts_total{outcome="failed"} 3.0' in metrics


@pytest.mark.parametrize("behaviour", ["hang", "drip", "refuse", "no such host", "reset"])
def test_a_receiver_that_fails_holds_nothing(service, clock, secret, behaviour, monkeypatch):
    monkeypatch.setattr(webhooks, "_SECONDS", 0.3)
    urls = {
        "refuse": f"http://127.0.0.1:{free_port()}/",
        "no such host": "http://nowhere.invalid/",
    }
    with receiving(behaviour if behaviour in ("hang", "drip") else 200) as receiver:
        url = urls.get(behaviour, receiver.url)
        with socket.create_server(("127.0.0.1", 0)) as mute:
            if behaviour == "reset":  # connections are taken by nobody
                url = f"http://127.0.0.1:{mute.getsockname()[1]}/"
            with told(service, url, secret) as (client, outbox):
                attacked(service, clock)
                until(lambda: outbox.state.waiting and outbox.state.waiting[0].attempts > 1)
                assert client.post("/v1/experiments/ads/decide", json={}).status_code == 200
                attacked(service, clock, "other")
                until(lambda: len(outbox.state.waiting) == 2)
                began = time.monotonic()
    # Neither the receiver nor what waits for it keeps the service from ending.
    assert time.monotonic() - began < 120


def opened(folder, clock):
    return Service(
        SqliteStore(folder / "clicks.db", secrets=(b"",)), Keyring(folder / "keys"), clock=clock
    )


def test_a_restart_neither_loses_nor_repeats_an_alarm(tmp_path, clock, secret):
    with receiving(500) as receiver, told(opened(tmp_path, clock), receiver.url, secret) as found:
        attacked(found[0].app._service, clock)
        until(lambda: receiver.got)
        name = receiver.bodies()[0]["id"]
    with receiving(200) as receiver:
        # The experiment is not even loaded.
        with told(opened(tmp_path, clock), receiver.url, secret) as (_, outbox):
            until(lambda: receiver.got and not outbox.state.waiting)
        for _ in range(2):
            with told(opened(tmp_path, clock), receiver.url, secret) as (client, outbox):
                assert client.get("/v1/experiments/ads").status_code == 200
                time.sleep(0.2)
        assert [each["id"] for each in receiver.bodies()] == [name]


def test_an_alarm_of_the_last_second_is_told_after_a_restart(tmp_path, clock, secret, monkeypatch):
    with receiving(200) as receiver:
        monkeypatch.setattr(webhooks, "_LOOK_SECONDS", 3600)
        with told(opened(tmp_path, clock), receiver.url, secret) as (client, _):
            attacked(client.app._service, clock)
            assert receiver.got == []
        monkeypatch.setattr(webhooks, "_LOOK_SECONDS", 0.02)
        with told(opened(tmp_path, clock), receiver.url, secret):
            until(lambda: receiver.got)


def test_bots_that_come_back_after_a_void_are_told_again(service, clock, secret):
    with receiving(200) as receiver, told(service, receiver.url, secret) as (_, outbox):
        attacked(service, clock)
        until(lambda: len(receiver.got) == 1 and not outbox.state.waiting)
        service.void("ads", since=clock.now - 15_000)
        assert service.history("ads").alarms[-1] == 0
        for second in range(90):
            made = service.decide_many("ads", 20)
            service.reward_many([(each, float(second < 60 and each.arm == "a")) for each in made])
            clock.move(1)
        until(lambda: len(receiver.got) == 2)


# --- what was told ----------------------------------------------------------------------------


@pytest.fixture
def moment(monkeypatch):
    found = [1000.0]
    monkeypatch.setattr(webhooks.time, "time", lambda: found[0])
    return found


def tell(outbox, *alarms, log=1, generation=0, ruled=0):
    now = _Told(generation, ruled, dict.fromkeys(alarms, 0.0))
    return outbox.tell(log, now, "ads", lambda new: {"new": sorted(new)})


def news(outbox):
    return [json.loads(each.body)["new"] for each in outbox.state.waiting]


def test_an_alarm_that_comes_and_goes_is_told_once_an_hour_at_most(tmp_path, moment):
    outbox = WebhookQueue(tmp_path / "webhook")
    tell(outbox, "a")
    tell(outbox, "a", "b")
    moment[0] += 100
    tell(outbox)  # both are gone
    moment[0] += 3000
    tell(outbox, "a")
    assert news(outbox) == [["a"], ["b"]]
    moment[0] += 3000
    tell(outbox, "a", "b")  # b had gone for longer
    assert news(outbox) == [["a"], ["b"], ["b"]]
    tell(outbox, "a", generation=1)  # what is learned began afresh
    assert news(outbox)[3:] == [["a"]]
    tell(outbox, generation=1, ruled=5)  # gone by a ruling
    assert 1 not in outbox.state.told
    tell(outbox, "a", generation=1, ruled=5)
    assert news(outbox)[4:] == [["a"]]
    tell(outbox, "a", generation=1, ruled=6)  # a ruling that was about something else
    assert len(outbox.state.waiting) == 5


def test_servers_that_share_a_folder_tell_an_alarm_once_and_send_it_in_turn(tmp_path, moment):
    one, other = WebhookQueue(tmp_path / "webhook"), WebhookQueue(tmp_path / "webhook")
    tell(one, "a")
    tell(other, "a")
    assert len(other.state.waiting) == 1
    assert one.claim().attempts == 1
    assert other.claim() is None
    moment[0] += webhooks._FIRST_WAIT + 0.01  # the first was killed while it sent
    again = WebhookQueue(tmp_path / "webhook").claim()
    assert (again.attempts, again.id) == (2, one.state.waiting[0].id)
    other.settle(again)
    moment[0] += 1000
    assert one.claim() is None
    assert one.state.waiting == []


def test_waits_grow_to_an_hour_and_a_clock_that_is_set_back_does_not_stop_them(tmp_path, moment):
    outbox = WebhookQueue(tmp_path / "webhook")
    tell(outbox, "a")
    waits = []
    for _ in range(30):
        message = outbox.claim()
        waits.append(message.due - moment[0])
        moment[0] = message.due
    assert waits[:4] == pytest.approx([0.05, 0.1, 0.2, 0.4])
    assert waits[-1] == 3600.0
    moment[0] -= 86_400 * 365
    assert outbox.claim() is not None


def test_a_queue_that_is_full_takes_no_more_and_forgets_none(tmp_path, moment, monkeypatch):
    monkeypatch.setattr(webhooks, "_MOST_WAITING", 2)
    outbox = WebhookQueue(tmp_path / "webhook")
    assert [tell(outbox, "a", log=log) for log in (1, 2, 3)] == [True, True, False]
    assert 3 not in outbox.state.told
    outbox.settle(outbox.state.waiting[0])
    assert tell(outbox, "a", log=3)


@pytest.mark.parametrize("content", [b"", b"{", b'{"waiting": 3}', b"\xff"])
def test_a_damaged_file_is_replaced(tmp_path, content):
    (tmp_path / "webhook").write_bytes(content)
    outbox = WebhookQueue(tmp_path / "webhook")
    assert tell(outbox, "a")
    assert len(WebhookQueue(tmp_path / "webhook").state.waiting) == 1
    assert (tmp_path / "webhook").stat().st_mode & 0o77 == 0


def test_a_message_that_nobody_takes_for_a_week_is_given_up(service, clock, secret, monkeypatch):
    monkeypatch.setattr(webhooks, "_KEPT_SECONDS", 0.0)
    with receiving(500) as receiver, told(service, receiver.url, secret) as (_, outbox):
        attacked(service, clock)
        until(lambda: receiver.got and not outbox.state.waiting)


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--webhook", "https://x.example/"], "webhook_secret must be given with webhook"),
        (["--webhook", "ftp://x.example/"], "webhook must be an http or https address"),
        (["--webhook", "nonsense"], "webhook must be an http or https address"),
        (["--webhook", "http://me:word@x.example/"], "address without a password; got http."),
        (["--webhook", "https://x.example/", "--url", "here"], "url must be an http or https"),
        (["--webhook", "https://x.example/", "--webhook-secret", "none"], "cannot be read"),
    ],
)
def test_what_cannot_be_told_is_refused_at_the_start(tmp_path, secret, capsys, options, sentence):
    place = ["--store", str(tmp_path / "clicks.db"), "--port", str(free_port())]
    if sentence.startswith(("webhook must", "address", "url")):
        options = [*options, "--webhook-secret", str(secret)]
    assert run(["serve", *place, *options]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert "word" not in said.replace("password", "")
    assert not (tmp_path / "clicks.db").exists()


@pytest.mark.parametrize("text", ["", "secret", "whsec_", "whsec_c2hvcnQ=", "whsec_!!", "whsec_é"])
def test_a_secret_that_is_none_is_refused_without_showing_it(tmp_path, text):
    path = tmp_path / "secret"
    path.write_text(text)
    with pytest.raises(
        InvalidParameter, match="webhook_secret must be a file with whsec_"
    ) as found:
        webhooks.read_secret(path)
    assert "c2hvcnQ" not in str(found.value)


def test_a_secret_can_be_replaced_while_the_service_runs(service, clock, secret):
    with receiving(500) as receiver, told(service, receiver.url, secret):
        attacked(service, clock)
        until(lambda: receiver.got)
        new = base64.b64encode(bytes(32)).decode()
        secret.write_text(f"whsec_{new}")
        time.sleep(0.1)
        count = len(receiver.got)
        until(lambda: len(receiver.got) > count + 1)
        headers, body = receiver.got[-1]
    assert not verified(headers, body)
    assert headers["webhook-signature"] == webhooks.signature(
        bytes(32), headers["webhook-id"], headers["webhook-timestamp"], body
    )
