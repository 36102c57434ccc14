"""A server that is told to stop ends well, with a snapshot from which the next one starts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

import armrace
from serving import snapshots_of
from torture.kills import free_port

ADS = {"name": "ads", "arms": ["a", "b"], "missing": 0, "policy": "ucb1", "horizon": 1000}


def post(address: str, body: object) -> dict:
    headers = {"Content-Type": "application/json"}
    ask = urllib.request.Request(address, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(ask, timeout=30) as answer:
        return json.load(answer)


def wait_until_ready(address: str, server: subprocess.Popen) -> None:
    for _ in range(1200):
        try:
            with urllib.request.urlopen(f"{address}/readyz", timeout=30):
                return
        except urllib.error.URLError:
            assert server.poll() is None
            time.sleep(0.05)
    pytest.fail("the server does not become ready")


def test_a_server_that_is_told_to_stop_saves_a_snapshot_and_ends_by_the_signal(tmp_path):
    store, port = tmp_path / "clicks.db", free_port()
    command = [sys.executable, "-m", "armrace", "serve", "--open", "--store", str(store)]
    server = subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL)
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(address, server)
        post(f"{address}/v1/experiments", ADS)
        batch = {"decisions": [{}] * 600}
        made = post(f"{address}/v1/experiments/ads/decide/batch", batch)["decisions"]
        server.send_signal(signal.SIGTERM)
        # After all was closed, it ends by the signal, which supervisors count as success.
        assert server.wait(timeout=60) == -signal.SIGTERM
    finally:
        server.kill()
        server.wait()
    with armrace.open(store) as service:
        assert list(snapshots_of(service)) == [1 + len(made)]
        assert service.reward(made[-1]["decision"], 1.0) == "accepted"
