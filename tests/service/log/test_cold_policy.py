"""Two servers on one database, of which one has never compiled a policy that the other uses."""

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import armrace
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


def ask(address, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        return json.loads(response.read())


def test_a_server_compiles_while_it_serves_others(place, tmp_path, monkeypatch):
    (tmp_path / "cold.py").write_text(POLICY)
    monkeypatch.syspath_prepend(tmp_path)
    keys = tmp_path / "keys"
    port = free_port()
    command = [sys.executable, "-m", "armrace", "serve", "--store", place, "--keys", str(keys)]
    with armrace.open(place, keys=keys) as first:
        first.create("warm", ["a", "b"], 0, policy="ucb1", horizon=10_000)
        # Into a file: a pipe that nobody reads would fill up and stop the server.
        with (tmp_path / "log").open("w") as log:
            second = subprocess.Popen(
                [*command, "--open", "--port", str(port)], cwd=tmp_path, stderr=log
            )
        try:
            _check(first, second, f"http://127.0.0.1:{port}")
            second.send_signal(signal.SIGTERM)
            second.wait(60)
        finally:
            second.kill()
            second.wait()
    assert second.returncode == -signal.SIGTERM  # after it has stopped, uvicorn lets the signal act
    assert "Traceback" not in (tmp_path / "log").read_text()


def _check(first, second, address):
    for _ in range(2400):
        if _is_ready(address):
            break
        assert second.poll() is None
        time.sleep(0.05)
    ask(address, "/v1/experiments/warm/decide", {})
    first.create("cold", ["a", "b", "c"], 0, policy="cold:Cold", horizon=10_000)
    made = first.decide("cold")
    ended = []

    def decide_and_reward():
        ask(address, "/v1/experiments/cold/decide", {})
        ended.append(time.monotonic())
        reward = {"decision": made.decision, "value": 1}
        ended.append(ask(address, "/v1/rewards", reward)["status"])

    visitor, began = threading.Thread(target=decide_and_reward), time.monotonic()
    visitor.start()
    # While the second server compiles, it serves other experiments, and the first one serves this.
    waited, served = [], 0
    while not ended:
        asked = time.monotonic()
        first.decide("cold")
        ask(address, "/v1/experiments/warm/decide", {})
        waited.append(time.monotonic() - asked)
        served += not ended
        time.sleep(0.05)
    visitor.join(60)
    compiling, status = ended[0] - began, ended[1]
    assert served >= 3
    assert sorted(waited)[len(waited) // 2] < compiling / 4
    assert status == "accepted"
    shown = ask(address, "/v1/experiments/cold")
    assert shown["decisions"] == first.describe("cold").decisions == len(waited) + 2


def _is_ready(address):
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=10) as response:
            return response.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False
