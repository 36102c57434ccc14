"""How long the decisions of one experiment take beside neighbours that ask for too much.

``python -m benchmarks.service.isolation PORT KIND`` is such a neighbour.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import armrace
from benchmarks.service.servers import free_port, own, server

_BATCH = 1000
_HEADERS = {"Content-Type": "application/json"}
_LARGE = "/v1/experiments/large"
_LONG = "/v1/experiments/long"
_NAMES = [str(arm) for arm in range(1000)]
KINDS: dict[str, list[tuple[str, str, object]]] = {
    "audits": [("GET", f"{_LARGE}/audit", None), ("GET", f"{_LONG}/audit", None)],
    "listings": [("GET", _LARGE, None), ("GET", f"{_LARGE}/history", None)],
    "batches": [
        ("POST", f"{_LARGE}/decide/batch", {"decisions": [{}] * _BATCH}),
        ("POST", f"{_LARGE}/decide/batch", {"decisions": [{"eligible": _NAMES}] * 37}),
    ],
    "rulings": [("POST", f"{_LONG}/void", {"sources": ["bot"], "preview": True})],
    "exports": [("GET", f"{_LONG}/export?format=parquet", None)],
}
"""What each kind of neighbour asks for, without a pause."""


def measure(arms: int, decisions: int, seconds: float, rounds: int) -> None:
    """Measure decisions alone and beside each kind of neighbour, by turns."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "a.db"
        _fill(place, arms, decisions)
        port = free_port()
        with server(own(port, "--store", str(place)), port):
            _decide(port, 0.2)
            for kind in KINDS:
                alone: list[float] = []
                beside: list[float] = []
                with _neighbour(port, kind):
                    _decide(port, 2)  # what is needed for it has been started
                for _ in range(rounds):
                    alone += _decide(port, seconds)
                    with _neighbour(port, kind):
                        beside += _decide(port, seconds)
                print(f"beside {kind}: {_figures(beside)}; alone: {_figures(alone)}", flush=True)


def _figures(times: list[float]) -> str:
    at = [sorted(times)[int(share * len(times))] for share in (0.5, 0.9, 0.99)]
    return "half within {:.1f} ms, 90% {:.1f}, 99% {:.1f}".format(*at)


def _fill(place: Path, arms: int, decisions: int) -> None:
    with armrace.open(place) as service:
        service.create("small", ["a", "b", "c"], 0, seed=1)
        service.create("large", [str(arm) for arm in range(arms)], 0, window=0.5, seed=1)
        service.create("long", ["a", "b", "c"], 0, window=0.5, seed=1)
        for name, count in (("large", min(decisions, 5000)), ("long", decisions)):
            for _ in range(-(-count // _BATCH)):
                made = service.decide_many(name, _BATCH)
                service.reward_many([(each, 1.0) for each in made[::3]], source="shop")
                service.reward_many([(each, 1.0) for each in made[1::30]], source="bot")


def _decide(port: int, seconds: float) -> list[float]:
    """Return how many milliseconds each decision took."""
    found: list[float] = []
    end = time.perf_counter() + seconds
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        while time.perf_counter() < end or not found:
            began = time.perf_counter()
            connection.request("POST", "/v1/experiments/small/decide", b"{}", _HEADERS)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            answer.read()
            found.append(1000 * (time.perf_counter() - began))
            time.sleep(0.001)
    return found


@contextmanager
def _neighbour(port: int, kind: str) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.service.isolation", str(port), kind]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == kind
        yield
        assert process.poll() is None, "the neighbour has stopped"
    finally:
        process.kill()
        process.wait()


def _ask(port: int, kind: str) -> None:
    """Ask until the process is ended."""
    os.nice(19)  # as if it was on another machine
    requests = [
        (method, path, b"" if body is None else json.dumps(body).encode())
        for method, path, body in KINDS[kind]
    ]
    connection = http.client.HTTPConnection("127.0.0.1", port)
    print(kind, flush=True)
    while True:
        for method, path, body in requests:
            connection.request(method, path, body or None, _HEADERS)
            answer = connection.getresponse()
            content = answer.read()
            if answer.status != 200:
                sys.exit(content.decode())


if __name__ == "__main__":
    _ask(int(sys.argv[1]), sys.argv[2])
