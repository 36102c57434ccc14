"""The exact and the relaxed mode on one database, in turns, with and without a slow network."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from armrace.service import Keyring, Service
from armrace.service.modes import Mode
from armrace.service.stores.base import Turn
from benchmarks.service.__main__ import create, free_port, own, press, server

_HERE = Path(__file__).parent
MODES = ("exact", "relaxed")
_BATCH = 16


def measure(seconds: int, rounds: int, delays: list[float]) -> None:
    """Print what two servers of each mode do over HTTP, and what their turns cost."""
    sys.path.insert(0, str(_HERE.parents[1] / "tests"))
    from databases import Postgres

    with tempfile.TemporaryDirectory(prefix="armrace-pg-") as folder:
        database = Postgres(Path(folder))
        database.start()
        try:
            for mode in MODES:
                subprocess.run(
                    [database.bin / "createdb", "-h", folder, "-U", "armrace", mode], check=True
                )
            for delay in delays:
                with _delayed(folder, delay) as address:
                    print(f"Each way between a server and the database takes {1000 * delay:g} ms.")
                    _measure_turns(address, seconds, rounds)
                    _measure_http(address, seconds, rounds, folder)
        finally:
            database.stop()


# --- turns in two processes, without HTTP -------------------------------------------------


def _measure_turns(address: str, seconds: int, rounds: int) -> None:
    """Batches of decisions and rewards in two processes, and the time under the lock."""
    for _ in range(rounds):
        for mode in MODES:
            place = address.format(mode)
            command = [sys.executable, "-m", "benchmarks.service.modes", "work"]
            workers = [
                subprocess.Popen(
                    [*command, place, mode, str(seconds)],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                for _ in range(2)
            ]
            found = [json.loads(each.communicate()[0]) for each in workers]
            events = sum(each["events"] for each in found)
            per_event = {
                key: sum(each[key] for each in found) / events for key in ("cpu", "held", "busy")
            }
            rate = sum(each["events"] / each["seconds"] for each in found)
            print(
                f"  {mode:7} two processes, batches of {_BATCH}: {rate:,.0f} events/s, each "
                f"{per_event['cpu']:.1f} us of processor time, of it {per_event['busy']:.1f} us "
                f"under the lock; {per_event['held']:.1f} us from the lock to the commit"
            )


def work(place: str, mode: Mode, seconds: float) -> None:
    """Decide and reward in batches, as one of several processes, and print the figures."""
    from armrace.service.stores.postgres import PostgresStore

    class Timed(PostgresStore):
        """A store that measures how long its turns hold the lock, as seen from here."""

        held = busy = 0.0

        @contextmanager
        def turn(self) -> Iterator[Turn]:
            with super().turn() as turn:
                began, cpu = time.perf_counter(), time.thread_time()
                yield turn
                self.held += time.perf_counter() - began
                self.busy += time.thread_time() - cpu

    store = Timed(place)
    service = Service(store, Keyring(), mode=mode)
    service.create("ads", ["a", "b", "c", "d"], 0, seed=1)
    _work_for(service, 1.0)
    store.held = store.busy = 0.0
    began, cpu = time.perf_counter(), time.process_time()
    events = _work_for(service, seconds)
    print(
        json.dumps(
            {
                "events": events,
                "seconds": time.perf_counter() - began,
                "cpu": 1e6 * (time.process_time() - cpu),
                "held": 1e6 * store.held,
                "busy": 1e6 * store.busy,
            }
        )
    )
    service.ledger.store.close()


def _work_for(service: Service, seconds: float) -> int:
    events, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        decisions = service.decide_many("ads", _BATCH)
        service.reward_many([(each, 1.0) for each in decisions])
        events += 2 * _BATCH
    return events


# --- servers over HTTP --------------------------------------------------------------------


def _measure_http(address: str, seconds: int, rounds: int, folder: str) -> None:
    """Two servers of each mode; those of one mode are loaded while the others rest."""
    with ExitStack() as stack:
        servers = {}
        for mode in MODES:
            ports = [free_port(), free_port()]
            place = address.format(mode)
            more = ["--store", place, "--keys", f"{folder}/keys", "--mode", mode]
            running = [stack.enter_context(server(own(port, *more), port)) for port in ports]
            create(ports[0])
            servers[mode] = running, ports
            press(running, ports, 2, 16)
        for _ in range(rounds):
            for mode, (running, ports) in servers.items():
                print(f"  {mode:7} two servers: {press(running, ports, seconds, 32)}")


# --- a slow network -----------------------------------------------------------------------


@contextmanager
def _delayed(folder: str, delay: float) -> Iterator[str]:
    """Yield the address of a database with a mode's name to fill in, behind a delay if any."""
    if not delay:
        yield f"postgresql://armrace@/{{}}?host={folder}"
        return
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.service.modes", "delay", folder]
    process = subprocess.Popen([*command, str(port), str(delay)])
    time.sleep(2)
    try:
        yield f"postgresql://armrace@127.0.0.1:{port}/{{}}?sslmode=disable&gssencmode=disable"
    finally:
        process.terminate()
        process.wait()


async def _forward(folder: str, port: int, delay: float) -> None:
    """Pass bytes between a port and the database's socket on, each after a delay."""
    loop = asyncio.get_running_loop()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(2**16):
            loop.call_later(delay, writer.write, data)
        loop.call_later(delay, writer.close)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner, outer = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        await asyncio.gather(pump(reader, outer), pump(inner, writer))

    listening = await asyncio.start_server(accept, "127.0.0.1", port)
    await listening.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(sys.argv[2], "relaxed" if sys.argv[3] == "relaxed" else "exact", float(sys.argv[4]))
    else:
        asyncio.run(_forward(sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
