"""A database that falls silent: connections stay open, and nothing comes."""

from __future__ import annotations

import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import psycopg
import pytest

from armrace.errors import StoreFailed
from armrace.service import Keyring, Service
from armrace.service.stores import postgres as postgres_module
from armrace.service.stores.postgres import PostgresStore
from hosting import free_port
from serving import folded_bytes, live_bytes


class Proxy:
    """Passes connections on to a database until it is told to pass nothing any more."""

    def __init__(self, postgres) -> None:
        self.silent = threading.Event()
        self._target = str(postgres.folder / ".s.PGSQL.5432")
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.place = f"postgresql://armrace@127.0.0.1:{port}/postgres?sslmode=disable"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._target)
            self._open += [near, far]
            threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        while True:
            try:
                for one in select.select([near, far], [], [], 0.05)[0]:
                    data = one.recv(65536)
                    while self.silent.is_set():
                        time.sleep(0.02)
                    if not data:
                        return
                    other[one].sendall(data)
            except (OSError, ValueError):
                return

    def close(self) -> None:
        self._listener.close()
        for each in self._open:
            each.close()


@pytest.fixture
def proxy(postgres):
    made = Proxy(postgres)
    yield made
    made.silent.clear()
    made.close()


def test_a_silent_database_is_given_up_and_used_again_when_it_speaks(proxy, monkeypatch):
    monkeypatch.setattr(postgres_module, "_SILENCE_SECONDS", 0.3)
    service = Service(PostgresStore(proxy.place, "silent"))
    service.create("ads", ["a", "b"], 0, policy="ucb1")
    decision = service.decide("ads", request="r")
    proxy.silent.set()
    began = time.monotonic()
    with pytest.raises(StoreFailed, match=r"said nothing for 0\.3 seconds"):
        service.reward(decision, 1.0)
    assert time.monotonic() - began < 20
    proxy.silent.clear()
    assert service.reward(decision, 1.0) == "accepted"
    assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)
    service.close()


def test_connections_have_limits_that_the_place_may_change(postgres):
    store = PostgresStore(postgres.place + "&application_name=mine&connect_timeout=9", "limits")
    with store.turn() as turn:
        connection = turn._connection
        for name, value in (
            ("lock_timeout", "30s"),
            ("statement_timeout", "45s"),
            ("idle_in_transaction_session_timeout", "5s"),
            ("synchronous_commit", "off"),  # within a turn; its end waits for the disk
            ("application_name", "mine"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone() == (value,)
        used = connection.info.get_parameters()
    assert used["connect_timeout"] == "9"
    assert used["tcp_user_timeout"] == "20000"
    store.close()


def test_a_lock_that_is_never_given_up_does_not_hold_a_server_for_ever(postgres, monkeypatch):
    monkeypatch.setattr(
        postgres_module, "_LIMITS", postgres_module._LIMITS.replace("'30s'", "'200ms'")
    )
    service = Service(PostgresStore(postgres.place, "locks"))
    with psycopg.connect(postgres.place) as stopped:
        stopped.execute(f"SELECT pg_advisory_xact_lock({postgres_module._LOCK})")
        with pytest.raises(StoreFailed, match="lock timeout"):
            service.names()
    assert service.names() == []
    service.close()


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def test_a_server_on_a_silent_database_is_not_ready_and_can_be_stopped(proxy, tmp_path):
    keys, port = str(tmp_path / "keys"), free_port()
    Keyring(tmp_path / "keys")
    command = [sys.executable, "-m", "armrace", "serve", "--store", proxy.place, "--keys", keys]
    server = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(1200):
            if status(f"{address}/readyz") == 200:
                break
            assert server.poll() is None
            time.sleep(0.05)
        proxy.silent.set()
        assert status(f"{address}/readyz") == 503
        assert status(f"{address}/healthz") == 200
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=40)
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in said
    assert "has not answered" in said
