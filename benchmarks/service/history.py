"""A long log: how it is written, retracted from, and read again after a restart."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from armrace.service import Service, open_store
from armrace.service.events import Created, Retracted, Rewarded, decode
from armrace.service.experiment import Experiment
from armrace.service.keyring import Keyring

__all__ = ["measure", "measure_open"]

_START = 1_700_000_000_000
_BATCH = 100


@contextmanager
def _timed(words: str) -> Iterator[None]:
    began, used = time.perf_counter(), time.process_time()
    yield
    seconds, used = time.perf_counter() - began, time.process_time() - used
    print(f"{words}: {seconds:.1f} s, {used:.1f} s of processor time", flush=True)


def measure(folder: Path, decisions: int, port: int) -> None:
    """Write so many decisions with rewards, retract 1% of them, and start a server on the log."""
    path, now = folder / "long.db", [_START]
    keyring = Keyring(folder / "long.db-keys")
    service = Service(open_store(path), keyring, clock=lambda: now[0])
    service.create("ads", ["a", "b", "c", "d"], 0, seed=1, window=10, horizon=2_000_000)
    sizes = []
    with _timed(f"{decisions:,} decisions and rewards"):
        for part in range(10):
            _fill(service, now, decisions // 10, part)
            sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    print(f"largest memory by tenths of them: {', '.join(f'{size:.0f}' for size in sizes)} MB")
    now[0] += 100_000
    with _timed("retraction of 1% of the rewards"):
        answer = service.retract("ads", source="bot")
    state = service.ledger._state
    assert state is not None
    live = state.find("main", "ads")
    same = live.generation.save() == _never_seen(service).generation.save()
    print(f"{answer.rewards:,} retracted; equal to a run that never saw them: {same}")
    service.close()
    for _ in range(3):
        _restart(path, port)


def measure_open(folder: Path, decisions: int, port: int) -> None:
    """Write so many decisions whose windows stay open, and start servers after a kill and a stop.

    Half of them have a reward. The process that writes them is killed.
    """
    path = folder / "open.db"
    writer = [sys.executable, "-m", "benchmarks.service.history", str(path), str(decisions)]
    with subprocess.Popen(writer, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        print(process.stdout.readline().strip(), flush=True)
        process.kill()
    _restart(path, port, "after kill -9, ")
    _restart(path, port)
    with _timed("opened in process"):
        service = Service(open_store(path), Keyring(folder / "open.db-keys"))
    with service.ledger.store.turn() as turn:
        size = len(turn.load_snapshot(turn.snapshots()[-1]))
    print(f"{service.describe('ads').open:,} decisions open, a snapshot of {size / 2**20:.1f} MB")
    with _timed("retraction of 1% of the rewards"):
        print(f"{service.retract('ads', source='bot').rewards:,} retracted")
    service.close()


def _write_open(path: Path, decisions: int) -> None:
    """Write decisions, say so, and wait for the end."""
    service = Service(open_store(path), Keyring(path.with_name(path.name + "-keys")))
    service.create("ads", ["a", "b", "c", "d"], 0, seed=1, window=86_400, horizon=2_000_000)
    began = time.perf_counter()
    for _ in range(decisions // _BATCH):
        made = service.decide_many("ads", _BATCH)
        service.reward_many([(each, 1.0) for each in made[1 : _BATCH // 2]], source="shop")
        service.reward_many([(made[0], 1.0)], source="bot")
    seconds = time.perf_counter() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{decisions:,} open decisions: {seconds:.1f} s, {memory:.0f} MB", flush=True)
    time.sleep(600)


def _fill(service: Service, now: list[int], decisions: int, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(decisions // _BATCH):
        made = service.decide_many("ads", _BATCH)
        bot = made.pop(rng.randrange(_BATCH))
        rewards = [(each, 1.0 if rng.random() < 0.3 else 0.0) for each in made]
        service.reward_many(rewards, source="shop")
        service.reward_many([(bot, 1.0)], source="bot")
        now[0] += _BATCH


def _never_seen(service: Service) -> Experiment:
    """Fold the log event by event, without what was retracted and the retraction."""
    experiment: Experiment | None = None
    with service.ledger.store.turn() as turn:
        for record in turn.read():
            event = decode(record.payload)
            if isinstance(event, Created):
                experiment = Experiment(event)
            elif isinstance(event, Rewarded) and event.source == "bot":
                continue
            elif experiment is not None and not isinstance(event, Retracted):
                experiment.apply(record.sequence, event)
    assert experiment is not None
    return experiment


def _restart(path: Path, port: int, words: str = "") -> None:
    began = time.perf_counter()
    command = [sys.executable, "-m", "armrace", "serve", "--port", str(port), "--store", str(path)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not _is_ready(port):
            assert process.poll() is None, "the server has stopped"
            time.sleep(0.02)
        seconds = time.perf_counter() - began
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        used = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        print(
            f"{words}restart to /readyz: {seconds:.1f} s, {used:.1f} s of processor time",
            flush=True,
        )
    finally:
        process.terminate()
        process.wait()


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    _write_open(Path(sys.argv[1]), int(sys.argv[2]))
