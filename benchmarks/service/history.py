"""Long logs and many of them: how they are written, replayed, ruled about and started from."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from armrace.service import Keyring, Service, open_store
from armrace.service.loading import LogReader, events_of
from armrace.service.model.events import ACTIONS, Decided, Event, Rewarded
from armrace.service.model.experiment import ExperimentState
from armrace_client.operations import Visit
from benchmarks.service.servers import free_port, is_ready, own

_START = 1_700_000_000_000
_BATCH = 100
_ARMS = ["a", "b", "c", "d"]


@contextmanager
def _timed(words: str) -> Iterator[None]:
    began, used = time.perf_counter(), time.process_time()
    yield
    seconds, used = time.perf_counter() - began, time.process_time() - used
    print(f"{words}: {seconds:.1f} s, {used:.1f} s of processor time", flush=True)


def _opened(path: Path, now: list[int] | None = None) -> Service:
    keyring = Keyring(path.with_name(path.name + "-keys"))
    clock = None if now is None else lambda: now[0]
    return Service(open_store(path, keyring), keyring, clock=clock)


# --- one long log ---------------------------------------------------------------------------


def measure(folder: Path, decisions: int, rounds: int) -> None:
    """Write decisions with rewards, replay them, void 1% of them, and start a server on the log."""
    path, now = folder / "long.db", [_START]
    service = _opened(path, now)
    service.create("ads", _ARMS, 0, seed=1, window=10, horizon=2_000_000)
    sizes = []
    with _timed(f"{decisions:,} decisions and rewards"):
        for part in range(10):
            _fill(service, now, decisions // 10, part)
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"largest memory by tenths of them: {', '.join(f'{size:.0f}' for size in sizes)} MB")
    now[0] += 100_000
    service.decide("ads")  # closes the windows of all others
    _replay(service)
    for verdict in ("retract", "void"):
        with _timed(f"{verdict} of 1% of the visits"):
            answer = getattr(service, verdict)("ads", sources=["bot"])
        print(f"{answer.changed:,} changed", flush=True)
    same = _live(service).generation.save() == _never_made(service).generation.save()
    print(f"equal to the replay of the log without these visits: {same}")
    service.close()
    for _ in range(rounds):
        _restart(path)


def _fill(service: Service, now: list[int], decisions: int, seed: int) -> None:
    dice = random.Random(seed)
    for _ in range(decisions // _BATCH):
        bot = dice.randrange(_BATCH)
        asked = [Visit(source="bot" if place == bot else "shop") for place in range(_BATCH)]
        made = service.decide_batch("ads", asked).made()
        service.reward_many(
            (each, 1.0 if place == bot or dice.random() < 0.3 else 0.0)
            for place, each in enumerate(made)
        )
        now[0] += _BATCH


def _reader(service: Service) -> LogReader:
    engine = service.engine
    (shard,) = engine.loaded
    return engine.reader(shard.log)


def _live(service: Service) -> ExperimentState:
    service.describe("ads")  # it is loaded
    (shard,) = service.engine.loaded
    return shard.experiment


def _replay(service: Service) -> None:
    """Replay the log from its beginning, and read and verify it alone."""
    reader = _reader(service)
    began, records = time.process_time(), 0
    for part in reader.parts():
        events_of(part)
        records += len(part)
    read = time.process_time() - began
    began, experiment = time.process_time(), None
    for part in reader.parts():
        experiment = ExperimentState.replay(events_of(part), experiment, {})
    replayed = time.process_time() - began
    print(
        f"replay: {1e6 * replayed / records:.1f} us an event; reading, verifying and decoding "
        f"alone: {1e6 * read / records:.1f} us; ratio {replayed / read:.2f}",
        flush=True,
    )


def _never_made(service: Service) -> ExperimentState:
    """Replay the log without the visits of bots, their rewards, and the rulings about them."""
    experiment: ExperimentState | None = None
    bots: set[int] = set()
    for part in _reader(service).parts():
        kept = []
        for record, event in events_of(part):
            if isinstance(event, Decided) and event.source == "bot":
                bots.add(record.sequence)
            elif not _is_about(event, bots) and (record.subject != ACTIONS or experiment is None):
                kept.append((record, event))
        if kept:
            experiment = ExperimentState.replay(kept, experiment, {})
    assert experiment is not None
    return experiment


def _is_about(event: Event, visits: set[int]) -> bool:
    return isinstance(event, Rewarded) and event.decision in visits


# --- decisions whose windows are open -------------------------------------------------------


def measure_open(folder: Path, decisions: int) -> None:
    """Write decisions whose windows stay open, and start servers after a kill and a stop.

    Half of them have a reward. The process that writes them is killed.
    """
    path = folder / "open.db"
    writer = [sys.executable, "-m", "benchmarks.service.history", str(path), str(decisions)]
    with subprocess.Popen(writer, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        print(process.stdout.readline().strip(), flush=True)
        process.kill()
    _restart(path, "after kill -9, ")
    _restart(path)
    service = _opened(path)
    with _timed("loaded in process"):
        print(f"{service.describe('ads').open:,} decisions open", flush=True)
    with _timed("void of 1% of the visits"):
        print(f"{service.void('ads', sources=['bot']).changed:,} voided")
    service.close()


def _write_open(path: Path, decisions: int) -> None:
    """Write decisions, say so, and wait for the end."""
    service = _opened(path)
    service.create("ads", _ARMS, 0, seed=1, window=86_400, horizon=2_000_000)
    began = time.perf_counter()
    asked = [Visit(source="bot"), *(Visit(source="shop") for _ in range(_BATCH - 1))]
    for _ in range(decisions // _BATCH):
        made = service.decide_batch("ads", asked).made()
        service.reward_many([(each, 1.0) for each in made[: _BATCH // 2]])
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{decisions:,} open decisions: {seconds:.1f} s, {memory:.0f} MB", flush=True)
    time.sleep(600)


# --- many logs ------------------------------------------------------------------------------


def measure_many(folder: Path, counts: tuple[int, int], rounds: int) -> None:
    """Start servers on stores with few and with many experiments, and compare time and memory."""
    found = []
    for count in counts:
        path = folder / f"{count}.db"
        service = _opened(path)
        with _timed(f"{count:,} experiments of 10 visits"):
            for number in range(count):
                service.create(f"ads {number}", _ARMS, 0, seed=number)
                made = service.decide_many(f"ads {number}", 10)
                service.reward_many([(each, 1.0) for each in made[::2]])
        service.close()
        found.append(min(_restart(path) for _ in range(rounds)))
    (few_seconds, few), (many_seconds, many) = found
    print(
        f"{counts[1]:,} experiments against {counts[0]:,}: {many_seconds / few_seconds:.2f} times "
        f"as long to /readyz, {many / few:.2f} times the memory"
    )


def _restart(path: Path, words: str = "") -> tuple[float, float]:
    """Return the seconds until a server is ready, and its memory in MB."""
    port = free_port()
    began = time.perf_counter()
    process = subprocess.Popen(
        own(port, "--store", str(path)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not is_ready(port):
            assert process.poll() is None, "the server has stopped"
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        memory = int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        print(
            f"{words}restart to /readyz: {seconds:.1f} s, {used:.1f} s of processor time, "
            f"{memory:.0f} MB",
            flush=True,
        )
        return seconds, memory
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    _write_open(Path(sys.argv[1]), int(sys.argv[2]))
