"""Durable events a second: in the process, over HTTP, on PostgreSQL, and by leases."""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from armrace.service import Service
from armrace_client.leases import Draws
from armrace_client.operations import LeasedVisit
from benchmarks.service.servers import (
    Load,
    Side,
    bare_and_served,
    create,
    free_port,
    own,
    pace,
    press,
    processor_seconds,
    server,
    transactions,
)

_BATCH, _REPORT = 100, 1000
_ARMS = ["a", "b", "c", "d"]


def in_process(batches: int) -> None:
    """Measure ``armrace.open`` in batches of 100, beside SQLite alone."""
    import armrace

    with tempfile.TemporaryDirectory() as folder, armrace.open(Path(folder) / "a.db") as service:
        service.create("ads", _ARMS, 0, seed=1)
        best, used = 0.0, 0.0
        for round_number in range(4):
            began, cpu = time.perf_counter(), time.process_time()
            _visits(service, batches)
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
            events = 2 * _BATCH * batches
            if round_number:  # the first one warms up
                best, used = max(best, events / seconds), 1e6 * cpu / events
        print(f"in process: {best:,.0f} durable events/s, {used:.1f} us of processor time each")
    bare = _bare_commits(2 * batches)
    print(f"bare SQLite, as many rows a commit: {bare:,.0f} rows/s; ratio {best / bare:.2f}")


def _visits(service: Service, batches: int) -> None:
    for _ in range(batches):
        decisions = service.decide_many("ads", _BATCH)
        service.reward_many([(decision, 1.0) for decision in decisions])


def _bare_commits(batches: int) -> float:
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


def by_leases(batches: int) -> None:
    """Measure draws under a lease beside Python's own, and reports beside decisions and rewards."""
    import armrace

    visits = _REPORT * max(1, _BATCH * batches // _REPORT)
    with tempfile.TemporaryDirectory() as folder, armrace.open(Path(folder) / "a.db") as service:
        service.create("ads", _ARMS, 0, seed=1)
        lease = service.lease("ads", visits, 3600.0)
        draws = Draws(bytes.fromhex(lease.seed), lease.stream, lease.weights)
        began = time.perf_counter()
        for number in range(visits):
            draws.arm(number)
        drawn = time.perf_counter() - began
        dice, places = random.Random(1), range(len(_ARMS))
        began = time.perf_counter()
        for _ in range(visits):
            dice.choices(places, lease.weights)
        chosen = time.perf_counter() - began
        print(
            f"draws under a lease: {1e6 * drawn / visits:.2f} us each; "
            f"random.choices {1e6 * chosen / visits:.2f} us; ratio {drawn / chosen:.2f}"
        )
        for value, words in ((None, "reports"), (1.0, "reports with rewards")):
            rate, used = max(_report(service, visits, value) for _ in range(3))
            print(f"{words}: {rate:,.0f} durable visits/s, {used:.1f} us of processor time each")
        began = time.perf_counter()
        _visits(service, batches)
        made = visits / (time.perf_counter() - began)
    print(
        f"decided and rewarded by {_BATCH}: {made:,.0f} durable visits/s; ratio {rate / made:.2f}"
    )


def _report(service: Service, visits: int, value: float | None) -> tuple[float, float]:
    """Report visits of a lease; return how many a second, and their processor time."""
    lease = service.lease("ads", visits, 3600.0)
    began, cpu = time.perf_counter(), time.process_time()
    for first in range(0, visits, _REPORT):
        reports = [LeasedVisit(number, value) for number in range(first, first + _REPORT)]
        answers = service.report("ads", lease.lease, reports)
        assert all(each.status == "accepted" for each in answers)
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return visits / seconds, 1e6 * cpu / visits


def over_http(seconds: int, rounds: int, connections: int) -> None:
    """Measure the embedded store over HTTP, in turn with a bare handler."""
    with bare_and_served() as (bare, served):
        press([served], 1, connections)
        for _ in range(rounds):
            yardstick = press([bare], seconds, connections)
            load = press([served], seconds, connections)
            print(f"bare handler: {yardstick}\nembedded: {load}")
            print(f"  ratio {load.rate / yardstick.rate:.2f}")


def at_a_rate(seconds: int, rounds: int, rate: int) -> None:
    """Load both at a rate that does not wait for answers; a slow machine delays both."""
    print(f"{rate:,} requests a second:")
    with bare_and_served() as (bare, served):
        pace(served, 1, rate)
        for _ in range(rounds):
            print(f"bare handler: {pace(bare, seconds, rate)}")
            print(f"embedded: {pace(served, seconds, rate)}")


def on_postgres(seconds: int, counts: list[int], connections: int) -> None:
    """Measure servers that share a database, each with an experiment of its own."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from databases import Postgres

    with tempfile.TemporaryDirectory(prefix="armrace-pg-") as folder:
        database = Postgres(Path(folder))
        database.start()
        try:
            alone: Load | None = None
            for count in counts:
                load, of_database, batch = _share(database, seconds, count, connections)
                alone = alone or load
                more = load.microseconds / alone.microseconds
                print(
                    f"PostgreSQL, {count} server{'s' * (count > 1)}: {load}, and {of_database:.0f} "
                    f"us of the database; {batch:.1f} answers a transaction; processor time "
                    f"{more:.2f} times that with {counts[0]}, rate {load.rate / alone.rate:.2f}"
                )
        finally:
            database.stop()


def _share(
    database: object, seconds: int, count: int, connections: int
) -> tuple[Load, float, float]:
    """Return what clients saw of some servers, the database's microseconds an answer, and batches.

    Processor times compare only where servers answer about as many requests in a transaction.
    """
    place, folder = database.place, database.folder  # type: ignore[attr-defined]
    more = ["--store", place, "--keys", f"{folder}/keys"]
    names = [f"ads{number}" for number in range(count)]
    with ExitStack() as stack:
        sides = []
        for _ in range(count):
            port = free_port()
            sides.append(Side(stack.enter_context(server(own(port, *more), port)), port))
        for side, name in zip(sides, names, strict=True):
            create(side.port, name)
        press(sides, 1, connections, names)
        main = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        before, begun = processor_seconds(_children(main)), sum(map(transactions, sides))
        load = press(sides, seconds, connections, names)
        used = processor_seconds(_children(main)) - before
        made = sum(map(transactions, sides)) - begun
    answers = load.rate * seconds
    return load, 1e6 * used / answers, answers / made


def _children(pid: int) -> list[int]:
    """Return a process with its children, as they are now."""
    found = [pid]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(") ", 1)[1].split()
        except OSError:  # it has ended
            continue
        if int(fields[1]) == pid:
            found.append(int(path.parent.name))
    return found
