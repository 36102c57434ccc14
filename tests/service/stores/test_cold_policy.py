"""Two servers on one database, of which one has never compiled a policy that the other uses."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import psycopg
import pytest

import armrace
from armrace.service.stores import postgres as postgres_module
from hosting import free_port

POLICY = '''
from typing import NamedTuple

import numpy as np

from armrace.extending import Counts, CountingPolicy, assign, choose, count_play, distribution
from armrace.extending import implement, learn, make_argmax, make_counts, make_ticket, record


class ColdState(NamedTuple):
    counts: Counts
    means: np.ndarray


class Cold(CountingPolicy, frozen=True, tag="cold"):
    """Plays arms in turn."""

    def start(self, arms, horizon):
        return ColdState(make_counts(arms), np.zeros(arms))


@implement(distribution, ColdState)
def cold_distribution(state, out):
    out.fill(0.0)
    out[state.counts.rounds[0] % out.size] = 1.0


@implement(choose, ColdState)
def cold_choose(state, stream):
    return make_ticket(state.counts.rounds[0] % state.means.size, 0, 1.0, 0.0)


@implement(assign, ColdState)
def cold_assign(state, ticket):
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, ColdState)
def cold_learn(state, ticket, reward):
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)


# Counts as part of a script, so that every process compiles it and nothing is kept on disk.
cold_choose.__module__ = "__main__"
'''


@pytest.fixture
def place(postgres):
    """A database of its own."""
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("CREATE DATABASE cold")
    yield postgres.place.replace("/postgres?", "/cold?")
    with psycopg.connect(postgres.place, autocommit=True) as connection:
        connection.execute("DROP DATABASE cold WITH (FORCE)")


def ask(address, path, body):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read()), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read()), error.headers
    except urllib.error.URLError:
        return 0, None, None


def test_a_server_compiles_beside_its_turns(place, tmp_path, monkeypatch):
    (tmp_path / "cold.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    keys = tmp_path / "keys"
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "armrace", "serve", "--store", place, "--keys", str(keys)]
    with armrace.open(place, keys=keys) as first:
        first.create("warm", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        # Into a file: a pipe that nobody reads would fill up and stop the server.
        with (tmp_path / "log").open("w") as log:
            second = subprocess.Popen(
                [*command, "--open", "--port", str(port)], cwd=tmp_path, stderr=log
            )
        try:
            _check(first, second, address, place)
            second.send_signal(signal.SIGTERM)
            second.wait(60)
        finally:
            second.kill()
            second.wait()
    assert second.returncode == -signal.SIGTERM  # after it has stopped, uvicorn lets the signal act
    assert "Traceback" not in (tmp_path / "log").read_text()


def _check(first, second, address, place):
    for _ in range(2400):
        if _status(address, "/readyz") == 200:
            break
        assert second.poll() is None
        time.sleep(0.05)
    first.create("cold", ["a", "b", "c"], 0, policy="cold:Cold", horizon=10_000)
    made = first.decide("cold")
    reward = {"decision": made.decision, "value": 1}
    refused, unrewarded, free, slowest = 0, 0, 0, 0.0
    began = time.monotonic()
    with psycopg.connect(place, autocommit=True) as connection:
        while True:
            status, content, headers = ask(address, "/v1/experiments/cold/decide", {})
            if status == 200:
                break
            assert (status, content["code"], headers["Retry-After"]) == (503, "not-ready", "1")
            refused += 1
            if ask(address, "/v1/rewards", reward)[0] != 503:  # it has just become ready
                continue
            unrewarded += 1
            # The lock is there for others: this connection, the first server, other experiments.
            (taken,) = connection.execute(
                "SELECT pg_try_advisory_xact_lock(%s)", (postgres_module._LOCK,)
            ).fetchone()
            free += taken
            asked = time.monotonic()
            first.decide("cold")
            slowest = max(slowest, time.monotonic() - asked)
            assert ask(address, "/v1/experiments/warm/decide", {})[0] == 200
            time.sleep(0.05)
            assert time.monotonic() - began < 120
    compiling = time.monotonic() - began
    assert refused >= unrewarded >= 3
    assert free > unrewarded / 2  # short turns of the second server aside
    assert slowest < compiling / 2
    assert ask(address, "/v1/rewards", reward)[1]["status"] in ("accepted", "duplicate")
    shown = ask(address, "/v1/experiments/cold", None)[1]
    assert shown["decisions"] == first.describe("cold").decisions == unrewarded + 2


def _status(address, path):
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=10) as response:
            return response.status
    except (urllib.error.URLError, ConnectionError):
        return 0
