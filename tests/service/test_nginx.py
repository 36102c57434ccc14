"""The service behind a real nginx, with the configuration of the repository and of the guide."""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx2
import psycopg
import pytest

import armrace
from armrace.errors import ForeignTicket, InvalidParameter
from armrace.service.keyring import Keyring
from databases import Postgres
from hosting import free_port
from processes import started

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "serving.md"
pytestmark = pytest.mark.skipif(
    NGINX is None, reason="nginx is not installed; make setup installs it on Debian as root"
)

AROUND = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    access_log {folder}/access.log;
    client_body_temp_path {folder}/bodies;
    proxy_temp_path {folder}/answers;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


def configuration() -> str:
    """The configuration of nginx for one server."""
    return (ROOT / "deploy" / "nginx.conf").read_text()


def several(ports: list[int]) -> str:
    """The configuration of the guide for several servers."""
    one, (upstream, location) = configuration(), blocks("map $uri", "    location ~")
    _, _, rest = one.partition("}\n")
    text = upstream + rest.replace("    location / {", f"{location}    location / {{")
    for host, port in zip(("10.0.0.1", "10.0.0.2"), ports, strict=True):
        text = replaced(text, behind=(f"{host}:8380", f"127.0.0.1:{port}"))
    return text


def several_databases(ports: list[int]) -> str:
    """The configuration of the guide for several databases."""
    _, _, rest = configuration().partition("}\n")
    text = blocks("map $host")[0] + rest.replace("http://armrace", "http://$servers")
    for host, port in zip(("10.0.0.1", "10.0.0.2"), ports, strict=True):
        text = replaced(text, behind=(f"{host}:8380", f"127.0.0.1:{port}"))
    return text


def blocks(*begins: str) -> list[str]:
    """The blocks of the guide that begin so."""
    text = GUIDE.read_text()
    return [begin + text.partition(f"```text\n{begin}")[2].partition("```")[0] for begin in begins]


def replaced(text: str, **pairs: str) -> str:
    for old, new in pairs.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class Proxy:
    """An nginx in a folder, with the configuration of a site."""

    def __init__(self, folder: Path, site: str) -> None:
        self.port = free_port()
        self.address = f"https://127.0.0.1:{self.port}"
        self.folder = folder
        certificate, key = folder / "server.crt", folder / "server.key"
        request = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=bandits.example"
        names = "subjectAltName=DNS:bandits.example,IP:127.0.0.1"
        files = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run(
            [*request.split(), "-addext", names, *files], check=True, capture_output=True
        )
        site = replaced(
            site,
            listen=("listen 443 ssl", f"listen 127.0.0.1:{self.port} ssl"),
            certificate=("/etc/ssl/bandits.crt", str(certificate)),
            key=("/etc/ssl/bandits.key", str(key)),
        )
        (folder / "site.conf").write_text(site)
        # Workers of a root's nginx would be nobody, who cannot write into the test's folder.
        user = "user root;" if os.getuid() == 0 else ""
        self.file = folder / "nginx.conf"
        self.file.write_text(AROUND.format(folder=folder, user=user))
        self.trust = ssl.create_default_context(cafile=str(certificate))

    def command(self, *more: str) -> list[str]:
        log = str(self.folder / "error.log")
        return [str(NGINX), "-p", str(self.folder), "-c", str(self.file), "-e", log, *more]

    def client(self, **options) -> httpx2.Client:
        return httpx2.Client(base_url=self.address, verify=self.trust, timeout=60, **options)


@contextmanager
def process(command: list[str], ended_by: signal.Signals):
    """A process until the block ends, which must end well when it is asked to."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as started:
        try:
            yield started
            started.send_signal(ended_by)
            _, said = started.communicate(timeout=60)
            # After it has stopped, uvicorn lets the signal act.
            assert started.returncode == (0 if ended_by == signal.SIGQUIT else -ended_by), said
            assert "Traceback" not in said
        finally:
            started.kill()


def wait_until_ready(client: httpx2.Client, status: int = 200) -> None:
    for _ in range(1200):
        try:
            if client.get("/readyz").status_code == status:
                return
        except httpx2.TransportError:
            pass
        time.sleep(0.05)
    raise AssertionError(f"/readyz did not answer {status} within a minute")


@pytest.fixture
def place(tmp_path):
    """Where the service listens, and how it is started."""
    port, store = free_port(), tmp_path / "clicks.db"
    serve = [sys.executable, "-m", "armrace", "serve", "--open", "--store", str(store)]
    return port, store, [*serve, "--port", str(port)]


@pytest.fixture
def proxy(place, tmp_path):
    folder = tmp_path / "nginx"
    folder.mkdir()
    behind = ("127.0.0.1:8380", f"127.0.0.1:{place[0]}")
    with running(Proxy(folder, replaced(configuration(), behind=behind))) as proxy:
        yield proxy


@contextmanager
def running(proxy):
    subprocess.run(proxy.command("-t"), check=True, capture_output=True)
    with process(proxy.command(), signal.SIGQUIT):
        yield proxy


def read_events(client, headers, found, stop):
    with client.stream("GET", "/v1/experiments/ads/events", headers=headers) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                found.append((time.monotonic(), json.loads(line[5:])))
    stop.set()


def test_everything_works_behind_nginx(proxy, place):
    _, store, serve = place
    keyring = Keyring(store.with_name("clicks.db-keys"))
    with proxy.client() as client:
        with process(serve, signal.SIGTERM):
            wait_until_ready(client)
            check_refusal_without_keys(client)
            _, key = keyring.create(["admin"])
            headers = {"Authorization": f"Bearer {key}"}
            wait_until_refused(client)
            check_requests(client, proxy, key)
            check_limits(client, headers)
            check_stream(proxy, client, headers)
            check_sign_in(proxy, key)
            found: list = []
            ended = threading.Event()
            follower = threading.Thread(
                target=read_events, args=(client, headers, found, ended), daemon=True
            )
            follower.start()
            while not found:
                time.sleep(0.01)
        # The service has stopped with an open stream, which has ended for its reader too.
        assert ended.wait(30)
        follower.join()
        assert client.get("/readyz").status_code == 502
        serve.remove("--open")  # there are keys by now
        check_clients_outlast_a_restart(proxy, key, serve)


def check_refusal_without_keys(client):
    answer = client.get("/v1/experiments")
    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"
    assert client.get("/").status_code == 403
    assert client.post("/v1/experiments", json={"name": "ads"}).status_code == 403


def wait_until_refused(client):
    for _ in range(200):  # a new key is noticed within a second
        if client.get("/v1/experiments").status_code == 401:
            return
        time.sleep(0.05)
    raise AssertionError("the key was not noticed")


def check_requests(client, proxy, key):
    transport = httpx2.HTTPTransport(verify=proxy.trust)
    with armrace.Client(proxy.address, key=key, transport=transport) as remote:
        remote.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        decision = remote.decide("ads", unit="visitor 1")
        assert remote.reward(decision, 1.0, source="web") == "accepted"
        assert remote.reward(decision, 1.0, source="web") == "duplicate"
        with pytest.raises(InvalidParameter):
            remote.reward(remote.decide("ads"), 2.0)
        made = remote.decide_many("ads", 1000)
        answers = remote.reward_many([(each, 1.0) for each in made])
        assert [each.status for each in answers] == ["accepted"] * 1000
        assert remote.describe("ads").decisions == 1002
    answer = client.get("/v1/experiments", headers={"Authorization": f"Bearer {key}"})
    assert len(answer.headers["X-Request-Id"]) == 32  # nginx's own


def check_limits(client, headers):
    """Bodies up to the limit of the service pass, and the service itself refuses larger ones."""
    headers = {**headers, "Content-Type": "application/json"}
    body = json.dumps({"rewards": [{"decision": "none", "value": 1}]}).encode()
    for size, status in ((2**20, 200), (2**20 + 1, 413)):
        answer = client.post("/v1/rewards/batch", content=body.ljust(size), headers=headers)
        assert answer.status_code == status
        if status == 413:
            assert answer.json()["code"] == "too-large"


def check_stream(proxy, client, headers):
    """What changes is seen while the stream is open, and soon."""
    following = proxy.client()
    path = "/v1/experiments/ads/events"
    with following, following.stream("GET", path, headers=headers) as answer:
        lines = answer.iter_lines()

        def state():
            for line in lines:
                if line.startswith("data:"):
                    return json.loads(line[5:])["decisions"]
            raise AssertionError("the stream has ended")

        before = state()
        for number in range(1, 3):
            made = client.post("/v1/experiments/ads/decide", json={}, headers=headers)
            assert made.status_code == 200
            began = time.monotonic()
            assert state() == before + number
            assert time.monotonic() - began < 20  # a second on a machine with nothing to do


def check_sign_in(proxy, key):
    other, own = {"Origin": "https://evil.example"}, {"Origin": proxy.address}
    form = {"key": key, "to": "/experiment?name=ads"}
    with proxy.client() as browser:
        assert browser.get("/").headers["location"] == "/sign-in?to=%2F"
        assert browser.post("/sign-in", data=form, headers=other).status_code == 403
        plain = {"Origin": proxy.address.replace("https", "http")}
        assert browser.post("/sign-in", data=form, headers=plain).status_code == 403
        answer = browser.post("/sign-in", data=form, headers=own)
        assert answer.status_code == 303
        assert answer.headers["location"] == "/experiment?name=ads"
        cookie = answer.headers["set-cookie"]
        assert "Secure" in cookie
        assert "HttpOnly" in cookie
        assert "samesite=strict" in cookie.lower()
        page = browser.get(answer.headers["location"])
        assert page.status_code == 200
        token = page.text.partition('name="token" value="')[2].partition('"')[0]
        out = {"token": token}
        assert browser.post("/sign-out", data=out, headers=other).status_code == 403
        assert browser.post("/sign-out", data=out, headers=own).status_code == 303


def check_clients_outlast_a_restart(proxy, key, serve):
    transport = httpx2.HTTPTransport(verify=proxy.trust)
    with armrace.Client(proxy.address, key=key, transport=transport, retries=60) as remote:
        answers: list = []
        asking = threading.Thread(target=lambda: answers.append(remote.decide("ads").arm))
        asking.start()
        with process(serve, signal.SIGTERM):
            asking.join(120)
            (arm,) = answers
            assert arm in "ab"


NAMES = [f"experiment {number}" for number in range(8)]


@contextmanager
def two_servers(postgres, folder):
    """Two servers on one database, and how each is started."""
    keys = folder / "keys"
    key = Keyring(keys).create(["admin"], label="operator")[1]
    serve = [sys.executable, "-m", "armrace", "serve", "--store", postgres.place]
    ports = [free_port(), free_port()]
    commands = [[*serve, "--keys", str(keys), "--port", str(port)] for port in ports]
    with started(commands[0]) as one, started(commands[1]) as two:
        for port in ports:
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
                wait_until_ready(client)
        yield key, ports, commands, [one, two]


def decided(port, key):
    """How many decisions a server has made."""
    headers = {"Authorization": f"Bearer {key}"}
    text = httpx2.get(f"http://127.0.0.1:{port}/metrics", headers=headers).text
    path = "/v1/experiments/{name}/decide"
    line = f'armrace_requests_total{{endpoint="{path}",status="200"}} '
    return sum(float(each.removeprefix(line)) for each in text.splitlines() if line in each)


def visit_all(remote):
    """Decide and reward in every experiment; return how long the slowest one took."""
    slowest = 0.0
    for name in NAMES:
        began = time.monotonic()
        decision = remote.decide(name)
        assert remote.reward(decision, 1.0) in ("accepted", "duplicate")
        slowest = max(slowest, time.monotonic() - began)
    return slowest


def test_several_servers_share_a_database_and_outlast_each_other(tmp_path, capsys):
    with TemporaryDirectory(prefix="armrace-pg-", ignore_cleanup_errors=True) as folder:
        postgres = Postgres(Path(folder))
        postgres.start()
        try:
            check_two_servers(postgres, tmp_path, capsys)
            check_two_databases(postgres, tmp_path)
        finally:
            postgres.stop()


def check_two_servers(postgres, folder, capsys):
    (folder / "nginx").mkdir()
    with (
        two_servers(postgres, folder) as (key, ports, commands, servers),
        running(Proxy(folder / "nginx", several(ports))) as proxy,
    ):
        transport = httpx2.HTTPTransport(verify=proxy.trust)
        # An answer of a server that was stopped is not waited for by nginx, but by the client.
        named = {"key": key, "timeout": 60, "retries": 60, "transport": transport}
        with armrace.Client(proxy.address, **named) as remote:
            for name in NAMES:
                remote.create(name, ["a", "b"], 0, policy="ucb1", horizon=10_000)
            quiet = [visit_all(remote) for _ in range(5)][-1]
            assert all(decided(port, key) >= 5 for port in ports)
            assert sum(decided(port, key) for port in ports) == 5 * len(NAMES)
            servers[0].kill()
            killed = visit_all(remote)
            with started(commands[0]) as again:
                with httpx2.Client(base_url=f"http://127.0.0.1:{ports[0]}") as client:
                    wait_until_ready(client)
                visit_all(remote)
                os.kill(servers[1].pid, signal.SIGSTOP)
                stopped = visit_all(remote)
                os.kill(servers[1].pid, signal.SIGCONT)
                visit_all(remote)
                again.kill()
                visit_all(remote)  # by the one that was stopped, which reads what it has missed
            rows = [remote.export(name).decode().splitlines() for name in NAMES]
    with capsys.disabled():
        words = f"{quiet:.2f} s quiet, {killed:.2f} s after a kill, {stopped:.2f} s after a stop"
        print(f"\nslowest visit of two servers: {words}")
    assert [len(each) for each in rows] == [10] * len(NAMES)
    assert {json.loads(row)["reward"] for each in rows for row in each} == {1.0}
    assert stopped < 30  # 5 seconds where nothing else runs


class Named(httpx2.HTTPTransport):
    """Asks for a site by its name, wherever it is."""

    def __init__(self, name, **options):
        super().__init__(**options)
        self.name = name

    def handle_request(self, request):
        request.headers["Host"] = self.name
        return super().handle_request(request)


def check_two_databases(postgres, folder):
    """One proxy in front of two databases, each with its own server and keys."""
    (folder / "sites").mkdir()
    sites, ports, tokens = ["shop", "mail"], [free_port(), free_port()], []
    with ExitStack() as stack:
        proxy = stack.enter_context(running(Proxy(folder / "sites", several_databases(ports))))
        for site, port in zip(sites, ports, strict=True):
            with psycopg.connect(postgres.place, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {site}")
            keys = folder / f"keys of {site}"
            key = Keyring(keys).create(["admin"])[1]
            store = postgres.place.replace("/postgres?", f"/{site}?")
            serve = [sys.executable, "-m", "armrace", "serve", "--store", store]
            stack.enter_context(started([*serve, "--keys", str(keys), "--port", str(port)]))
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}") as client:
                wait_until_ready(client)
            transport = Named(f"{site}.bandits.example", verify=proxy.trust)
            remote = armrace.Client(proxy.address, key=key, transport=transport)
            stack.enter_context(remote)
            remote.create(f"of {site}", ["a", "b"], 0, policy="ucb1", horizon=10_000)
            made = remote.decide_many(f"of {site}", 3)
            assert remote.reward(made[0], 1.0) == "accepted"
            assert remote.names() == [f"of {site}"]
            for foreign in tokens:
                with pytest.raises(ForeignTicket):
                    remote.reward(foreign, 1.0)
            tokens += [each.decision for each in made]
