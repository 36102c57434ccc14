"""Many replications at once, on threads or on any executor, watched and interruptible.

The compiled loop runs without the interpreter lock, so threads use all cores and nothing is
pickled. What a replication yields depends on its number alone, so neither the executor nor
the number of workers changes a bit of the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.engine import PLAYED, STOP
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import Outcome, run_replication

__all__ = ["Finished", "run_all"]

_POLL_SECONDS = 0.1
_ROUNDS_A_TASK = 10_000_000
"""About a second of work, so that a foreign executor's overhead does not show."""

Progress = Callable[[float], None]
Row = list[Outcome]
Result = TypeVar("Result")


class Finished(NamedTuple):
    """Replications that came to their end: their numbers, and an outcome an experiment."""

    replications: list[int]
    outcomes: list[Row]
    interrupted: bool


def run_all(
    experiments: Sequence[Experiment],
    executor: Executor | None,
    workers: int | None,
    progress: Progress,
) -> Finished:
    """Run all replications of experiments that differ at most in policy, attack and budget.

    Ctrl-C ends the run within a second and keeps the replications that are finished.
    """
    if workers is not None and workers < 1:
        raise InvalidParameter(f"workers must be at least 1; got {workers}.")
    if executor is not None:
        return _run_on_executor(experiments, executor, progress)
    return _run_on_threads(experiments, workers or os.cpu_count() or 1, progress)


def run_batch(experiments: Sequence[Experiment], replications: Iterable[int]) -> list[Row]:
    """What a worker of a foreign executor does."""
    return [[run_replication(e, number) for e in experiments] for number in replications]


def _run_on_threads(
    experiments: Sequence[Experiment], workers: int, progress: Progress
) -> Finished:
    total = experiments[0].replications
    controls = np.zeros((total, len(experiments), 2), dtype=np.int64)
    rounds = sum(experiment.horizon for experiment in experiments) * total

    def one_row(number: int) -> Row:
        return [
            run_replication(experiment, number, control)
            for experiment, control in zip(experiments, controls[number], strict=True)
        ]

    with ThreadPoolExecutor(workers) as pool:
        return _gather(
            {pool.submit(one_row, number): [number] for number in range(total)},
            unpack=lambda row: [row],
            report=lambda _: progress(float(controls[:, :, PLAYED].sum()) / rounds),
            stop=lambda: _raise_flags(controls),
        )


def _raise_flags(controls: npt.NDArray[np.int64]) -> None:
    controls[:, :, STOP] = 1


def _run_on_executor(
    experiments: Sequence[Experiment], executor: Executor, progress: Progress
) -> Finished:
    total = experiments[0].replications
    futures = {
        executor.submit(run_batch, experiments, batch): list(batch)
        for batch in _batches(total, sum(e.horizon for e in experiments))
    }
    return _gather(
        futures,
        unpack=lambda rows: rows,
        report=lambda done: progress(done / total),
        stop=lambda: None,
    )


def _batches(total: int, rounds_each: int) -> Iterator[range]:
    size = max(1, _ROUNDS_A_TASK // rounds_each)
    for first in range(0, total, size):
        yield range(first, min(first + size, total))


def _gather(
    futures: dict[Future[Result], list[int]],
    unpack: Callable[[Result], list[Row]],
    report: Callable[[int], None],
    stop: Callable[[], None],
) -> Finished:
    """Collect what finishes, in order of replication, until all is done or Ctrl-C comes."""
    rows: dict[int, Row] = {}
    pending = set(futures)
    interrupted = False
    try:
        while pending:
            done, pending = wait(pending, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                rows.update(zip(futures[future], unpack(future.result()), strict=True))
            report(len(rows))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if pending:
            stop()
            for future in pending:
                future.cancel()
    numbers = sorted(rows)
    return Finished(numbers, [rows[number] for number in numbers], interrupted)
