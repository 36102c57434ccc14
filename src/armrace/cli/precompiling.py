"""Compiling many policies at once, the first time, in as many processes as there are cores.

The compiler takes a lock of its own in each process, so threads would not help. What a process
has compiled is on disk, where all others find it. Policies are handed over as plain data, so
only those of the catalogue can be.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, cast

import msgspec

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.simulation import Experiment

__all__ = ["compile_listed", "precompile"]

_WORTH_A_PROCESS = 4
"""Fewer policies than this are compiled in the time that processes take to start."""


def precompile(experiments: Sequence[Experiment], executor: Executor | None = None) -> None:
    """Fill the cache on disk with what these experiments need and it lacks.

    A cluster on other machines would not find it, and compiles for itself.
    """
    from armrace.simulation.parallel import shares_this_disk
    from armrace.simulation.progress import progress_bar
    from armrace.simulation.replication import is_on_disk

    if not shares_this_disk(executor):
        return
    missing = {e.policy.tag(): e for e in experiments if not is_on_disk(e)}
    cores = os.cpu_count() or 1
    if len(missing) < _WORTH_A_PROCESS or cores < 2:
        return
    waiting = list(missing.values())
    workers = [_start(waiting[first::cores]) for first in range(cores)]
    try:
        with progress_bar("compiling", None) as report:
            done = 0
            for worker in workers:
                with cast("IO[bytes]", worker.stdout) as lines:
                    for _ in lines:
                        done += 1
                        report(done / len(waiting))
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()


def _start(experiments: Sequence[Experiment]) -> subprocess.Popen[bytes]:
    """A process that compiles for these experiments, and writes a line for each."""
    command = [sys.executable, "-c", f"from {__name__} import compile_listed; compile_listed()"]
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with cast("IO[bytes]", worker.stdin) as pipe:
        pipe.write(msgspec.json.encode([e.to_builtins() for e in experiments]))
    return worker


def compile_listed() -> None:
    """What such a process does: read experiments, compile for each."""
    from armrace.simulation import make_experiment
    from armrace.simulation.replication import prepare

    for data in msgspec.json.decode(sys.stdin.buffer.read()):
        prepare(make_experiment(**data))
        print(flush=True)
