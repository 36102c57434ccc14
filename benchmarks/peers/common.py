"""What the scripts of all peers share; runs in the peer's interpreter, with nothing of ours."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from typing import Any, NamedTuple

MEANS = [0.5] + [0.4] * 9
GAP = 0.1

Play = Callable[[int, int], int]
"""Plays so many rounds with a seed, and says how often the best arm, the first, was played."""


def stopwatch() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def elapsed(started: tuple[float, float]) -> float:
    """The smaller of wall and processor time: other programs and own threads count for nobody."""
    return min(now - then for now, then in zip(stopwatch(), started, strict=True))


def report(
    package: str,
    play: Play,
    core_seconds: list[float] | None = None,
    live: dict[int, float] | None = None,
) -> None:
    """Time ``play`` as often as the command line says, after a short run to warm up.

    ``core_seconds`` is what ``play`` notes of the time in compiled code; ``live`` the
    microseconds for one decision and its reward, by number of arms.
    """
    rounds, repeats = int(sys.argv[1]), int(sys.argv[2])
    seconds, regrets = [], []
    with redirect_stdout(sys.stderr):
        play(200, 0)
        if core_seconds is not None:
            core_seconds.clear()
        for seed in range(1, repeats + 1):
            started = stopwatch()
            best_pulls = play(rounds, seed)
            seconds.append(elapsed(started))
            regrets.append(GAP * (rounds - best_pulls))
    result = {"version": version(package), "seconds": seconds, "regrets": regrets}
    if core_seconds is not None:
        result["core_seconds"] = core_seconds
    if live is not None:
        result["live"] = live
    print(json.dumps(result))


class Problem(NamedTuple):
    """What :func:`report_pulls` plays."""

    means: list[float]
    horizon: int
    replications: int
    seed: int

    @property
    def arms(self) -> int:
        return len(self.means)


def report_pulls(package: str, players: dict[str, Callable[[Problem], list[list[int]]]]) -> None:
    """Play what the command line names: a player, and a problem as JSON."""
    with redirect_stdout(sys.stderr):
        pulls = players[sys.argv[1]](Problem(**json.loads(sys.argv[2])))
    print(json.dumps({"version": version(package), "pulls": pulls}))


def loop(start: Callable[[Any], tuple[Any, Any]], problem: Problem) -> list[list[int]]:
    """Decide and learn, round after round; ``start`` makes the two functions of a fresh policy."""
    import numpy as np

    pulls = []
    for replication in range(problem.replications):
        generator = np.random.default_rng([problem.seed, replication])
        decide, learn = start(generator)
        rewards = (generator.random((problem.horizon, problem.arms)) < problem.means).astype(float)
        counts = [0] * problem.arms
        for row in rewards.tolist():
            arm = int(decide())
            learn(arm, row[arm])
            counts[arm] += 1
        pulls.append(counts)
    return pulls
