"""What the scripts of all peers share; runs in the peer's interpreter, with nothing of ours."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from importlib.metadata import version
from pathlib import Path
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


Start = Callable[[int], tuple[Callable[[], int], Callable[[int, float], object]]]
"""Makes a fresh policy for so many arms: how it decides, and how it learns."""

_BLOCK, _BLOCKS = 1_000, 12


def report(
    package: str,
    players: dict[str, Play],
    live: dict[str, Start],
    core_seconds: list[float] | None = None,
    live_arms: tuple[int, ...] = (len(MEANS),),
) -> None:
    """Time the algorithm that the command line names, as often as it says, after a warm-up.

    Algorithms have armrace's names. ``core_seconds`` is what a player notes of the time in
    compiled code. One that the library lacks is reported as such.
    """
    name, rounds, repeats = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    result: dict[str, Any] = {"version": version(package), "has": name in players}
    if name in players:
        with redirect_stdout(sys.stderr):
            result |= _timed(players[name], rounds, repeats, core_seconds)
            result["live"] = {arms: _live(live[name], arms) for arms in live_arms}
    result["megabytes"] = _peak_megabytes()
    print(json.dumps(result))


def _timed(
    play: Play, rounds: int, repeats: int, core_seconds: list[float] | None
) -> dict[str, Any]:
    seconds, regrets = [], []
    play(200, 0)
    if core_seconds is not None:
        core_seconds.clear()
    for seed in range(1, repeats + 1):
        started = stopwatch()
        best_pulls = play(rounds, seed)
        seconds.append(elapsed(started))
        regrets.append(GAP * (rounds - best_pulls))
    found: dict[str, Any] = {"seconds": seconds, "regrets": regrets}
    return found | ({"core_seconds": core_seconds} if core_seconds else {})


def _live(start: Start, arms: int) -> float:
    """Microseconds for one decision and its reward, in the best of some blocks.

    Arms that were never played are often chosen without any computation, so that all are
    played, and more than once, before the clock starts.
    """
    import random

    generator = random.Random(1)
    decide, learn = start(arms)
    for _ in range(max(2 * arms, _BLOCK)):
        learn(decide(), float(generator.random() < 0.5))
    best = float("inf")
    for _ in range(_BLOCKS):
        rewards = [float(generator.random() < 0.5) for _ in range(_BLOCK)]
        started = stopwatch()
        for reward in rewards:
            learn(decide(), reward)
        best = min(best, elapsed(started))
    return best / _BLOCK * 1e6


def _peak_megabytes() -> float:
    """The largest memory that this program had."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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
