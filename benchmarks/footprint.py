"""Memory and start-up, each measured in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.problem import HARD

__all__ = ["import_milliseconds", "memory", "peak_megabytes", "start_up"]

_MEGABYTES = 400.0
_SECONDS = 1.0
_GUARDED = 15.0
_COLD_COMMANDS = {"armrace compare": 90.0, "armrace simulate multi-layer-race": 10.0}

_MEASURE_MEMORY = """
import json, pathlib, resource, armrace
armrace.simulate("{policy}", {means}, horizon={horizon}, replications=1, progress=False)
status = pathlib.Path("/proc/self/status")
if status.exists():  # the peak of this program alone, not of what started it
    peak = int(status.read_text().split("VmHWM:")[1].split()[0])
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps(peak / 1024))
"""

_MEASURE_COMPILING = """
import json, time, armrace.simulation as simulation
def simulate():
    started = time.process_time()
    simulation.simulate("{policy}", {means}, horizon=1, replications=1, progress=False)
    return time.process_time() - started
first, second = simulate(), simulate()
print(json.dumps(first - second))
"""

_MEASURE_IMPORT = """
import json, time
started = time.process_time()
import {module}
print(json.dumps(time.process_time() - started))
"""


def memory() -> Iterator[Figure]:
    """Peak memory of a long run, and how much of it a short run needs as well."""
    first, second, long = (  # should the cache be empty, the first run fills it
        peak_megabytes("multi-layer-race", horizon) for horizon in (10, 10, 10**7)
    )
    short = min(first, second)
    yield Figure(
        "peak memory, T = 10^7",
        long,
        "MB",
        against=f"T = 10: {short:.0f} MB",
        target=_MEGABYTES,
        note=f"{long - short:+.1f} MB for a million times the rounds",
    )


def start_up(repeats: int, cold: bool) -> Iterator[Figure]:
    """Compile time with the cache filled (by what ran before) and empty, and import time."""
    code = _MEASURE_COMPILING.format(policy="multi-layer-race", means=HARD.means)
    warm = min(_measure(code) for _ in range(repeats))
    yield Figure("compile, cache filled", warm, "s", target=_SECONDS)
    if cold:
        with _empty_cache() as settings:
            seconds = _measure(code, settings)
        yield Figure("compile, cache empty", seconds, "s", note="once after installing")
        yield from _cold()
    for module in ("armrace", "armrace.simulation"):
        yield Figure(f"import {module}", import_milliseconds(module, repeats), "ms")


def _cold() -> Iterator[Figure]:
    """What a user waits for at first, in processor time, with nothing compiled."""
    code = _MEASURE_COMPILING.format(policy="guarded", means=HARD.means)
    with _empty_cache() as settings:
        yield Figure("compile guarded, cache empty", _measure(code, settings), "s", target=_GUARDED)
    for words, target in _COLD_COMMANDS.items():
        with _empty_cache() as settings:
            seconds = processor_seconds(words.split(), settings)
        yield Figure(f"{words}, cache empty", seconds, "s", target=target)


@contextmanager
def _empty_cache() -> Iterator[dict[str, str]]:
    """Yield settings of a process that finds no compiled code."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"NUMBA_CACHE_DIR": folder}


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that keeps bytecode, as an installed package has it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **settings}


def processor_seconds(words: list[str], settings: Mapping[str, str]) -> float:
    """The processor time of a command of armrace, and of all processes that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:  # where its report goes
        subprocess.run(
            [sys.executable, "-m", "armrace", *words[1:]],
            check=True,
            capture_output=True,
            cwd=folder,
            env=_environment(settings),
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def peak_megabytes(policy: str, horizon: int) -> float:
    """The largest memory of a process that runs one replication."""
    return _measure(_MEASURE_MEMORY.format(policy=policy, means=HARD.means, horizon=horizon))


def import_milliseconds(module: str, repeats: int, python: str | Path = sys.executable) -> float:
    """The least time that an interpreter takes to import a module."""
    code = _MEASURE_IMPORT.format(module=module)
    return min(_measure(code, python=python) for _ in range(repeats)) * 1000


def _measure(
    code: str,
    settings: Mapping[str, str] | None = None,
    python: str | Path = sys.executable,
) -> float:
    """Run ``code`` in a fresh interpreter and return the number it prints."""
    finished = subprocess.run(
        [python, "-c", code],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(settings or {}),
    )
    return float(json.loads(finished.stdout.splitlines()[-1]))
