"""Servers to be measured, and the loads that they are measured under."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

_HERE = Path(__file__).parent
_PACED = 64
"""Connections of the load at a fixed rate, of which few are in use unless answers are late."""
_BARE = "import uvicorn; uvicorn.run('benchmarks.service.bare:application', port={port}, "
_QUIET = "log_level='warning', access_log=False)"


class Load(NamedTuple):
    """What load generators saw, and the processor time of the servers."""

    rate: float
    median: float
    p99: float
    wrong: int
    microseconds: float

    def __str__(self) -> str:
        return (
            f"{self.rate:,.0f} answers/s, median {self.median:.1f} ms, p99 {self.p99:.1f} ms, "
            f"{self.microseconds:.0f} us of processor time each, {self.wrong} wrong"
        )


class Side(NamedTuple):
    """A server, and where it listens."""

    process: subprocess.Popen[bytes]
    port: int


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def server(command: list[str], port: int) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until the block ends."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert process.poll() is None, "the server has stopped"
            time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


def own(port: int, *more: str) -> list[str]:
    """Return the command that serves."""
    return [sys.executable, "-m", "armrace", "serve", "--open", "--port", str(port), *more]


def is_ready(port: int) -> bool:
    """Whether a server says that it can serve."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def create(port: int, name: str = "ads") -> None:
    """Create an experiment."""
    asked: dict[str, Any] = {"name": name, "arms": ["a", "b", "c", "d"], "missing": 0, "seed": 1}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/experiments",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(request).read()


def transactions(side: Side) -> int:
    """Return how many transactions a server has made."""
    with urllib.request.urlopen(f"http://127.0.0.1:{side.port}/metrics") as answer:
        text = answer.read().decode()
    return int(float(text.partition("\narmrace_transactions_total ")[2].split()[0]))


def processor_seconds(pids: list[int]) -> float:
    """Return the processor time that processes have used, with that of their ended children."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
        total += sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return total


def press(
    sides: list[Side], seconds: int, connections: int, names: list[str] | None = None
) -> Load:
    """Load servers with decisions and rewards as fast as they answer."""
    script = str(_HERE / "visits.lua")
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script]
    named = names or ["ads"] * len(sides)
    commands = [
        [*wrk, f"http://127.0.0.1:{side.port}", "--", name]
        for side, name in zip(sides, named, strict=True)
    ]
    return _load(sides, commands)


def pace(side: Side, seconds: int, rate: int) -> Load:
    """Load a server with this many requests a second, however long its answers take."""
    pacer = [sys.executable, "-m", "benchmarks.service.paced"]
    return _load([side], [[*pacer, str(side.port), str(rate), str(seconds), str(_PACED)]])


def _load(sides: list[Side], commands: list[list[str]]) -> Load:
    """Run load generators, and return what they saw."""
    pids = [side.process.pid for side in sides]
    before = processor_seconds(pids)
    runs = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    found = []
    for run in runs:
        text = run.communicate()[0]
        line = next(line for line in text.splitlines() if line.startswith("RESULT"))
        found.append([float(word) for word in line.split()[1:]])
    used = processor_seconds(pids) - before
    requests = sum(row[0] for row in found)
    return Load(
        sum(row[0] / row[1] * 1e6 for row in found),
        max(row[2] for row in found),
        max(row[3] for row in found),
        int(sum(row[4] for row in found)),
        1e6 * used / requests,
    )


@contextmanager
def bare_and_served() -> Iterator[tuple[Side, Side]]:
    """Start a bare handler, and the service on an embedded store."""
    bare_port, port = free_port(), free_port()
    bare_command = [sys.executable, "-c", _BARE.format(port=bare_port) + _QUIET]
    with (
        tempfile.TemporaryDirectory() as folder,
        server(bare_command, bare_port) as bare,
        server(own(port, "--store", f"{folder}/a.db"), port) as served,
    ):
        create(port)
        yield Side(bare, bare_port), Side(served, port)
