"""Run the benchmarks of the service and print their figures."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
_BATCH = 100
_PACED = 64
"""Connections of the load at a fixed rate, of which few are in use unless answers are late."""
_PARTS = ["process", "http", "rate", "postgres", "history", "open"]
_BY_WRK = {"http", "postgres"}
_BARE = "import uvicorn; uvicorn.run('benchmarks.service.bare:application', port={port}, "
_QUIET = "log_level='warning', access_log=False)"


class Load(NamedTuple):
    """What a load generator saw, and the processor time of the servers."""

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


class _Side(NamedTuple):
    process: subprocess.Popen[bytes]
    port: int


def in_process(batches: int) -> None:
    """Durable events a second of ``armrace.open``, in batches of 100."""
    import armrace

    with tempfile.TemporaryDirectory() as folder, armrace.open(Path(folder) / "a.db") as service:
        service.create("ads", ["a", "b", "c", "d"], 0, seed=1)
        best, used = 0.0, 0.0
        for round_number in range(4):
            began, cpu = time.perf_counter(), time.process_time()
            for _ in range(batches):
                decisions = service.decide_many("ads", _BATCH)
                service.reward_many([(decision, 1.0) for decision in decisions])
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            events = 2 * _BATCH * batches
            if round_number:  # the first one warms up
                best, used = max(best, events / seconds), 1e6 * cpu / events
        print(f"in process: {best:,.0f} durable events/s, {used:.1f} us of processor time each")
    bare = bare_commits(2 * batches)
    print(f"bare SQLite, as many rows a commit: {bare:,.0f} rows/s; ratio {best / bare:.2f}")


def bare_commits(batches: int) -> float:
    """Rows a second that SQLite alone makes durable, in batches of 100 of an event's size."""
    import apsw

    with tempfile.TemporaryDirectory() as folder:
        connection = apsw.Connection(f"{folder}/a.db")
        for name, value in (("locking_mode", "exclusive"), ("journal_mode", "wal")):
            connection.pragma(name, value)
        connection.pragma("synchronous", "full")
        connection.execute("CREATE TABLE t (number INTEGER PRIMARY KEY, data BLOB, digest BLOB)")
        began = time.perf_counter()
        for _ in range(batches):
            with connection:
                rows = [(os.urandom(90), os.urandom(16)) for _ in range(_BATCH)]
                connection.executemany("INSERT INTO t (data, digest) VALUES (?, ?)", rows)
        rate = batches * _BATCH / (time.perf_counter() - began)
        connection.close()
        return rate


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
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


def create(port: int) -> None:
    """Create the experiment."""
    body = b'{"name": "ads", "arms": ["a", "b", "c", "d"], "missing": 0, "seed": 1}'
    ask = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/experiments", body, {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(ask).read()


def processor_seconds(processes: list[subprocess.Popen[bytes]]) -> float:
    """Return the processor time that processes have used."""
    total = 0.0
    for process in processes:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return total


def press(
    processes: list[subprocess.Popen[bytes]], ports: list[int], seconds: int, connections: int
) -> Load:
    """Load servers with decisions and rewards as fast as they answer."""
    script = str(_HERE / "visits.lua")
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script]
    return _load(processes, [[*wrk, f"http://127.0.0.1:{port}"] for port in ports])


def pace(process: subprocess.Popen[bytes], port: int, seconds: int, rate: int) -> Load:
    """Load a server with so many requests a second, however long its answers take."""
    pacer = [sys.executable, "-m", "benchmarks.service.paced"]
    return _load([process], [[*pacer, str(port), str(rate), str(seconds), str(_PACED)]])


def _load(processes: list[subprocess.Popen[bytes]], commands: list[list[str]]) -> Load:
    """Run load generators, and return what they saw."""
    before = processor_seconds(processes)
    runs = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    found = []
    for run in runs:
        text = run.communicate()[0]
        line = next(line for line in text.splitlines() if line.startswith("RESULT"))
        found.append([float(word) for word in line.split()[1:]])
    used = processor_seconds(processes) - before
    requests = sum(row[0] for row in found)
    return Load(
        sum(row[0] / row[1] * 1e6 for row in found),
        max(row[2] for row in found),
        max(row[3] for row in found),
        int(sum(row[4] for row in found)),
        1e6 * used / requests,
    )


@contextmanager
def _bare_and_served() -> Iterator[tuple[_Side, _Side]]:
    """Start a bare handler, and the service on an embedded store."""
    bare_port, port = free_port(), free_port()
    bare_command = [sys.executable, "-c", _BARE.format(port=bare_port) + _QUIET]
    with (
        tempfile.TemporaryDirectory() as folder,
        server(bare_command, bare_port) as bare,
        server(own(port, "--store", f"{folder}/a.db"), port) as served,
    ):
        create(port)
        yield _Side(bare, bare_port), _Side(served, port)


def over_http(seconds: int, rounds: int, connections: int) -> None:
    """The embedded store over HTTP, in turn with a bare handler."""
    with _bare_and_served() as (bare, served):
        press([served.process], [served.port], 2, connections)
        for _ in range(rounds):
            yardstick = press([bare.process], [bare.port], seconds, connections)
            load = press([served.process], [served.port], seconds, connections)
            print(f"bare handler: {yardstick}\nembedded: {load}")
            print(f"  ratio {load.rate / yardstick.rate:.2f}")


def at_a_rate(seconds: int, rounds: int, rate: int) -> None:
    """Both at a rate that does not wait for answers: a slow machine delays the bare handler too."""
    print(f"{rate:,} requests a second:")
    with _bare_and_served() as (bare, served):
        pace(served.process, served.port, 2, rate)
        for _ in range(rounds):
            print(f"bare handler: {pace(bare.process, bare.port, seconds, rate)}")
            print(f"embedded: {pace(served.process, served.port, seconds, rate)}")


def on_postgres(seconds: int) -> None:
    """Two servers on one database."""
    sys.path.insert(0, str(_HERE.parents[1] / "tests"))
    from databases import Postgres

    with tempfile.TemporaryDirectory(prefix="armrace-pg-") as folder:
        database = Postgres(Path(folder))
        database.start()
        ports = [free_port(), free_port()]
        more = ["--store", database.place, "--keys", f"{folder}/keys"]
        try:
            with server(own(ports[0], *more), ports[0]) as one:
                create(ports[0])
                with server(own(ports[1], *more), ports[1]) as two:
                    press([one, two], ports, 2, 16)
                    load = press([one, two], ports, seconds, 32)
                    print(f"PostgreSQL, two servers: {load}, {load.rate / 2:,.0f} pairs/s")
        finally:
            database.stop()


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service", description=__doc__)
    parser.add_argument("parts", nargs="*", default=_PARTS, help=", ".join(_PARTS))
    parser.add_argument("--seconds", type=int, default=5, help="of each load")
    parser.add_argument("--rounds", type=int, default=3, help="of bare handler and service")
    parser.add_argument("--connections", type=int, default=32, help="at once, over HTTP")
    parser.add_argument("--rate", type=int, default=3000, help="of the load at a fixed rate")
    parser.add_argument("--decisions", type=int, default=1_000_000, help="of the long log")
    parser.add_argument("--open", type=int, default=100_000, help="decisions that are open")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(_PARTS):
        parser.error(f"there is no part {min(unknown)!r}; choose from {', '.join(_PARTS)}.")
    if shutil.which("wrk") is None and _BY_WRK.intersection(asked.parts):
        parser.error(f"{', '.join(sorted(_BY_WRK))} need the program wrk (apt-get install wrk).")
    if "process" in asked.parts:
        in_process(100)
    if "http" in asked.parts:
        over_http(asked.seconds, asked.rounds, asked.connections)
    if "rate" in asked.parts:
        at_a_rate(asked.seconds, asked.rounds, asked.rate)
    if "postgres" in asked.parts:
        on_postgres(asked.seconds)
    if "history" in asked.parts:
        from benchmarks.service.history import measure

        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), asked.decisions, free_port())
    if "open" in asked.parts:
        from benchmarks.service.history import measure_open

        with tempfile.TemporaryDirectory() as folder:
            measure_open(Path(folder), asked.open, free_port())


if __name__ == "__main__":
    main()
