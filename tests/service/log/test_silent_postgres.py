"""A database that falls silent: connections stay open, and nothing comes."""

import select
import socket
import threading
import time

import psycopg
import pytest

from armrace.errors import StoreFailed
from armrace.service.log import postgres as postgres_module
from armrace.service.log.postgres import PostgresStore
from log_filling import append, create, payloads


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
    store = PostgresStore(proxy.place, "silent")
    (log,) = create(store, "a")
    proxy.silent.set()
    began = time.monotonic()
    with pytest.raises(StoreFailed, match=r"said nothing for 0\.3 seconds"):
        payloads(store, log)
    assert time.monotonic() - began < 20
    proxy.silent.clear()
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"again")
    assert payloads(store, log) == [b"again"]
    store.close()


def test_connections_have_limits_that_the_place_may_change(postgres):
    store = PostgresStore(postgres.place + "&application_name=mine&connect_timeout=9", "limits")
    (log,) = create(store, "a")
    with store.transaction({log: 0}) as transaction:
        connection = transaction._connection
        for name, value in (
            ("lock_timeout", "30s"),
            ("statement_timeout", "45s"),
            ("idle_in_transaction_session_timeout", "5s"),
            ("synchronous_commit", "off"),  # within a transaction; its end waits for the disk
            ("application_name", "mine"),
        ):
            assert connection.execute(f"SHOW {name}").fetchone() == (value,)
        used = connection.info.get_parameters()
    assert connection.execute("SHOW synchronous_commit").fetchone() == ("on",)
    assert used["connect_timeout"] == "9"
    assert used["tcp_user_timeout"] == "20000"
    with store.transaction() as transaction:  # it holds no lock
        limit = "SHOW idle_in_transaction_session_timeout"
        assert transaction._connection.execute(limit).fetchone() == ("0",)
    store.close()


def test_a_lock_that_is_never_given_up_does_not_hold_a_server_for_ever(postgres, monkeypatch):
    limits = postgres_module._LIMITS.replace("'30s'", "'200ms'")
    monkeypatch.setattr(postgres_module, "_LIMITS", limits)
    store = PostgresStore(postgres.place, "locks")
    (log,) = create(store, "a")
    with psycopg.connect(postgres.place) as stopped:
        stopped.execute(postgres_module._TAKE_LOCK, (store._lock_class, log))
        with pytest.raises(StoreFailed, match="lock timeout"), store.transaction({log: 0}):
            pass
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"free")
    store.close()
