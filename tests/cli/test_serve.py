"""``armrace serve`` and ``armrace keys``, as processes."""

import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import httpx2
import pytest

import armrace
from armrace.cli.main import run
from armrace.service.http.server import ServerSettings
from armrace.service.service import without_password
from hosting import free_port
from processes import started
from serving import snapshots_of

POSTGRES = ["--store", "postgresql://nobody:secret@127.0.0.1:9/none?password=secret"]


def get(url: str, key: str = "") -> int:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except urllib.error.URLError:
        return 0


@contextmanager
def serving(store, *options):
    """Run a server as a process until it is ready, and give its address and the process."""
    port = str(free_port())
    command = [sys.executable, "-m", "armrace", "serve", "--store", str(store), "--port", port]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with started([*command, *options], **pipes) as server:
        address = f"http://127.0.0.1:{port}"
        until(lambda: get(f"{address}/readyz") == 200 or server.poll() is not None)
        assert server.poll() is None
        yield address, server


def until(reached):
    for _ in range(1200):
        if reached():
            return
        time.sleep(0.05)
    pytest.fail("what was awaited did not happen")


def test_an_open_server_takes_a_key_on_and_stops_gracefully(tmp_path, capsys):
    store = str(tmp_path / "clicks.db")
    with serving(store, "--open") as (address, server):
        assert get(f"{address}/v1/experiments") == 200
        assert run(["keys", "create", "--store", store, "--scopes", "read"]) == 0
        key = capsys.readouterr().out.strip()
        until(lambda: get(f"{address}/v1/experiments") == 401)
        assert get(f"{address}/v1/experiments", key) == 200
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=60)
    assert "Open: every program on this machine may do everything, without a key." in said
    assert "A proxy in front of this port opens it to the world." in said
    assert key not in said
    assert run(["serve", "--open", "--store", store, "--port", str(free_port())]) == 2
    assert "open must be left out: the store has keys." in capsys.readouterr().err


def test_a_server_that_is_told_to_stop_saves_a_snapshot_and_ends_by_the_signal(tmp_path):
    store = tmp_path / "clicks.db"
    with serving(store, "--open") as (address, server):
        with armrace.Client(address) as client:
            client.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000)
            made = client.decide_many("ads", 600)
        server.send_signal(signal.SIGTERM)
        # After all was closed, it ends by the signal, which supervisors count as success.
        server.communicate(timeout=60)
        assert server.returncode == -signal.SIGTERM
    with armrace.open(store) as service:
        assert list(snapshots_of(service)) == [1 + len(made)]
        assert service.reward(made[-1], 1.0) == "accepted"


def test_the_first_start_makes_a_key_with_which_programs_and_people_are_let_in(tmp_path):
    store, told = tmp_path / "clicks.db", []
    for _ in range(2):
        with serving(store) as (address, server):
            while "Listening" not in server.stderr.readline():
                pass
            if not told:
                told.append("".join(server.stdout.readline() for _ in range(3)))
            (key,) = re.findall(r"^  export ARMRACE_KEY=(\S+)$", told[0], re.MULTILINE)
            assert get(f"{address}/v1/experiments") == 401
            assert get(f"{address}/v1/experiments", key) == 200
            with httpx2.Client(base_url=address, follow_redirects=True) as browser:
                assert browser.get("/").url.path == "/sign-in"
                page = browser.post("/sign-in", data={"key": key, "to": "/"})
                assert (page.status_code, page.url.path) == (200, "/")
                assert "admin key" in page.text
            with armrace.Client(address, key=key) as client:
                if not client.names():
                    client.create("ads", ["a", "b"], 0, policy="ucb1")
            server.send_signal(signal.SIGTERM)
            last, _ = server.communicate(timeout=60)
    assert last == "", "a key is shown once"
    assert key not in (tmp_path / "clicks.db-keys").read_text()


@pytest.mark.parametrize("open_", [[], ["--open"]])
def test_a_log_without_its_file_of_keys_is_not_served(tmp_path, capsys, open_):
    """Otherwise whoever removes the file would open the service, or get an admin key."""
    store = tmp_path / "clicks.db"
    with armrace.open(store) as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1")
    file = tmp_path / "clicks.db-keys"
    file.unlink()
    assert run(["serve", *open_, "--store", str(store), "--port", str(free_port())]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"{file} does not exist, although the store has experiments; put the file back" in said
    assert not file.exists()


def test_ctrl_c_ends_a_server_with_open_streams_at_once_and_quietly(tmp_path):
    store = str(tmp_path / "clicks.db")
    with armrace.open(store) as service:
        service.create("ads", ["a", "b"], 0)
    with serving(store, "--open") as (address, server):
        port = int(address.rpartition(":")[2])
        streams = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(2)]
        for stream, path in zip(streams, ("/v1/experiments/ads/events", "/live"), strict=True):
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            assert stream.recv(65536).startswith(b"HTTP/1.1 200")
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=8)  # less than the ten seconds that requests have
        for stream in streams:
            stream.close()
    assert "Traceback" not in said
    assert "Cancel" not in said


def test_a_port_that_is_taken_is_refused_before_the_store_is_made(tmp_path, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert run(["serve", "--store", str(tmp_path / "clicks.db"), "--port", port]) == 2
    assert "port must be one that can be listened on; got" in (said := capsys.readouterr().err)
    assert "address already in use" in said
    assert "Listening" not in said
    assert not (tmp_path / "clicks.db").exists()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
def test_links_to_a_server_can_be_opened(host):
    assert ServerSettings(host=host.strip("[]"), port=80).address == f"http://{host}:80"


def test_keys_are_created_listed_and_revoked(tmp_path, capsys):
    place = ["--store", str(tmp_path / "clicks.db")]
    assert run(["keys", "create", *place, "--tenant", "shop"]) == 0
    assert capsys.readouterr().out.startswith("armrace_")
    assert run(["keys", "list", *place]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    identifier, tenant, scopes, _, state = line.split()
    assert (tenant, scopes, state) == ("shop", "decide,reward", "valid")
    assert run(["keys", "revoke", identifier, *place]) == 0
    assert run(["keys", "prepare", *place]) == 0
    assert run(["keys", "prepare", *place]) == 2
    assert "prepared already" in capsys.readouterr().err
    assert run(["keys", "rotate", *place]) == 0
    assert run(["keys", "list", *place]) == 0
    assert capsys.readouterr().out.split()[-1] == "revoked"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["serve", *POSTGRES], "keys must name a file if the store is a database"),
        (["keys", "create", *POSTGRES], "keys must name a file if the store is a database"),
        (["keys", "steal"], "action must be one of create, list, revoke, prepare, rotate"),
        (["keys", "revoke"], "revoke needs the id of a key"),
        (["keys", "revoke", "x"], "there are no keys: "),
        (["keys", "list"], "clicks.db-keys does not exist"),
        (["keys", "rotate", "--keys", "none"], "none does not exist"),
        (["keys", "create", "--store", ":memory:"], "keys must name a file if the store is :mem"),
        (["keys", "create", "--scopes", "all"], "scopes must be among"),
        (["serve", "--port", "0"], "port must be in"),
        (["serve", "--open", "--host", "0.0.0.0"], "host must be a loopback address with open"),
        (["serve", "--host", "nowhere"], "host must be an address or localhost"),
        (["serve", "--rate", "x"], "rate must be"),
        (["serve", "--rate", "0"], "rate must be at least 1"),
        (["serve", "--per-address", "0"], "per-address must be at least 1; got 0"),
        (["serve", "--log", "some"], "log must be one of all, problems, none"),
        (["serve", "--webhook-secret", "file"], "webhook must be given if webhook-secret is"),
        (["serve", "--config", "missing.toml"], "cannot read missing.toml"),
        (["restore", "none.db"], "file must be a file that exists"),
        (["restore", POSTGRES[1]], "restore a database with psql"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(tmp_path, capsys, arguments, sentence):
    is_placed = "--store" in arguments or arguments[0] == "restore"
    place = [] if is_placed else ["--store", str(tmp_path / "clicks.db")]
    assert run([*arguments, *place]) == 2
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["list"], ["revoke", "x"], ["prepare"], ["rotate"]])
def test_no_secrets_are_made_by_accident(tmp_path, capsys, arguments):
    assert run(["keys", *arguments, "--store", str(tmp_path / "typo.db")]) == 2
    assert "typo.db-keys does not exist" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_first_key_is_made_before_there_is_a_store_which_is_said(tmp_path, capsys):
    store = tmp_path / "clicks.db"
    for there in (False, True):
        assert run(["keys", "create", "--store", str(store)]) == 0
        told = capsys.readouterr()
        assert told.out.startswith("armrace_")
        assert (f"There is no store {store} yet" in told.err) is not there
        store.touch()
    assert run(["keys", "revoke", "x", "--store", str(store)]) == 2
    assert "there is no key 'x'" in capsys.readouterr().err


def test_a_store_is_exported_and_imported_into_with_its_own_secrets_alone(tmp_path, capsys):
    store = tmp_path / "clicks.db"
    with armrace.open(store, keys=tmp_path / "keys") as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1")
        decision, _ = service.decide_many("ads", 2)
    exported = str(tmp_path / "ads.ndjson")
    given = ["--keys", str(tmp_path / "keys")]
    assert run(["export", "ads", exported, "--from", str(store), *given]) == 0
    arguments = ["--into", str(store), "--name", "copy", "--policy", "ucb1"]
    assert run(["import", exported, *arguments, *given]) == 0
    capsys.readouterr()
    for command in (
        ["export", "ads", f"{exported}2.ndjson", "--from", str(store)],
        ["import", exported, *arguments],
    ):
        assert run(command) == 2
        assert "name it with keys: without it, their logs cannot be" in capsys.readouterr().err
    assert not (tmp_path / "clicks.db-keys").exists()
    with armrace.open(store, keys=tmp_path / "keys") as service:
        assert service.reward(decision, 1.0) == "accepted"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("clicks.db", "clicks.db"),
        ("postgresql://db/armrace", "postgresql://db/armrace"),
        ("postgresql://armrace:secret@db/armrace", "postgresql://db/armrace"),
        ("postgresql://armrace@db/armrace?password=secret", "postgresql://db/armrace"),
        ("postgres://db/armrace?user=me&password=sec@ret", "postgres://..."),
        ("postgresql://me:sec?ret@db/armrace", "postgresql://..."),
    ],
)
def test_what_is_shown_of_a_place_has_no_password(place, shown):
    assert without_password(place) == shown


def test_flags_precede_the_environment_which_precedes_the_file(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("armrace.service.http.server.serve", lambda *a: asked.append(a[0]))
    config = tmp_path / "serve.toml"
    config.write_text('store = "file.db"\nhost = "127.0.0.2"\nport = 1\nrate = 7\n')
    monkeypatch.setenv("ARMRACE_HOST", "127.0.0.3")
    monkeypatch.setenv("ARMRACE_PORT", "2")
    assert run(["serve", "--config", str(config), "--port", "3"]) == 0
    (settings,) = asked
    assert (settings.store, settings.host, settings.port, settings.rate, settings.log) == (
        "file.db",
        "127.0.0.3",
        3,
        7.0,
        "problems",
    )


def test_a_file_with_unknown_settings_is_refused(tmp_path, capsys):
    config = tmp_path / "serve.toml"
    config.write_text("prot = 1\n")
    assert run(["serve", "--config", str(config)]) == 2
    assert "has the unknown setting 'prot'" in capsys.readouterr().err
