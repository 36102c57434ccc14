"""Replay of a log: rows a second, beside Polars merely reading the same columns."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from armrace.offline import Log, open_log, replay
from benchmarks.figures import Figure

__all__ = ["replay_figures"]

_ARMS = 10
_ROWS_A_SECOND = 2e6


def replay_figures(rows: int, turns: int) -> Iterator[Figure]:
    """Rejection replay of the race: alone, and with all that reading a log from CSV takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = _write_log(Path(folder) / "log.csv", rows)
        reading = _least_time(lambda: pl.read_csv(path, columns=["arm", "reward"]), turns)
        kept = open_log(path, arm="arm", reward="reward")
        alone = _least_time(lambda: _replay(kept), turns)
        whole = _least_time(lambda: _replay(open_log(path, arm="arm", reward="reward")), turns)
    yield Figure(
        "rejection replay, race, K = 10",
        rows / alone / 1e6,
        "million rows/s",
        target=_ROWS_A_SECOND / 1e6,
        at_least=True,
        note=f"{rows:,} rows in memory, one core, best of {turns}",
    )
    yield Figure(
        "the same from CSV, beside reading it",
        whole / reading,
        "times",
        note=f"processor time, survey included; Polars alone {reading:.2g} s",
    )


def _write_log(path: Path, rows: int) -> Path:
    generator = np.random.default_rng(1)
    arms = generator.integers(0, _ARMS, rows)
    means = np.linspace(0.02, 0.06, _ARMS)
    rewards = (generator.random(rows) < means[arms]).astype(np.int64)
    pl.DataFrame({"arm": arms, "reward": rewards}).write_csv(path)
    return path


def _replay(log: Log | Path) -> None:
    replay(log, ["multi-layer-race"], replications=1, estimators="replay", workers=1)


def _least_time(work: Callable[[], object], turns: int) -> float:
    """The least processor time of some turns, after one that compiles."""
    work()
    times = []
    for _ in range(turns):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)
