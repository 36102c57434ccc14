"""Many replications at once, on threads or on any executor, watched and interruptible.

The compiled loop runs without the interpreter lock, so threads use all cores and nothing is
pickled. What a replication yields depends on its number alone, so neither the executor nor
the number of workers changes a bit of the results.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from armrace.kernels.engine import PLAYED, STOP
from armrace.simulation.experiment import Experiment
from armrace.simulation.replication import run_replication
from armrace.specification import Limits, check_number

__all__ = ["Finished", "Task", "run_all"]

_POLL_SECONDS = 0.1
_ROUNDS_A_TASK = 10_000_000
"""About a second of work, so that a foreign executor's overhead does not show."""

_ROUNDS_A_THREAD = 100_000
"""Some milliseconds, so that short replications share the cost of a task."""

_TASKS_AT_ONCE = 1000
_WORKERS = Limits("threads", 1)

Progress = Callable[[float], None]
Row = list[Any]
"""What the task yields for one replication, an entry an experiment."""


class Task(Protocol):
    """What is done with each replication of each experiment.

    It must be a function of a module, so that other processes find it; ``control`` is to be
    handed on to the compiled loop, which other threads thereby watch and stop.
    """

    def __call__(
        self, experiment: Experiment, replication: int, control: npt.NDArray[np.int64] | None = None
    ) -> Any: ...


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
    task: Task = run_replication,
) -> Finished:
    """Run all replications of experiments that differ at most in policy, attack and budget.

    Ctrl-C ends the run within a second and keeps the replications that are finished.
    """
    if workers is not None:
        check_number("workers", workers, _WORKERS, whole=True)
    if executor is not None:
        return _run_on_executor(experiments, executor, progress, task)
    return _run_on_threads(experiments, workers or os.cpu_count() or 1, progress, task)


def run_batch(
    task: Task, experiments: Sequence[Experiment], replications: Iterable[int]
) -> list[Row]:
    """What a worker of a foreign executor does."""
    return [[task(e, number) for e in experiments] for number in replications]


def _run_on_threads(
    experiments: Sequence[Experiment], workers: int, progress: Progress, task: Task
) -> Finished:
    total = experiments[0].replications
    controls = np.zeros((total, len(experiments), 2), dtype=np.int64)
    each = sum(experiment.horizon for experiment in experiments)

    def some_rows(numbers: range) -> list[Row]:
        return [
            [task(e, number, c) for e, c in zip(experiments, controls[number], strict=True)]
            for number in numbers
            if not controls[number, 0, STOP]
        ]

    with ThreadPoolExecutor(workers) as pool:
        return _gather(
            lambda batch: pool.submit(some_rows, batch),
            _batches(total, each, _ROUNDS_A_THREAD),
            at_once=4 * workers,
            report=lambda _: progress(float(controls[:, :, PLAYED].sum()) / (each * total)),
            stop=lambda: _raise_flags(controls),
        )


def _raise_flags(controls: npt.NDArray[np.int64]) -> None:
    controls[:, :, STOP] = 1


def _run_on_executor(
    experiments: Sequence[Experiment], executor: Executor, progress: Progress, task: Task
) -> Finished:
    total = experiments[0].replications
    return _gather(
        lambda batch: executor.submit(run_batch, task, experiments, batch),
        _batches(total, sum(e.horizon for e in experiments), _ROUNDS_A_TASK),
        at_once=_TASKS_AT_ONCE,
        report=lambda done: progress(done / total),
        stop=lambda: None,
    )


def _batches(total: int, rounds_each: int, rounds_a_batch: int) -> Iterator[range]:
    size = max(1, rounds_a_batch // rounds_each)
    for first in range(0, total, size):
        yield range(first, min(first + size, total))


def _gather(
    submit: Callable[[range], Future[list[Row]]],
    batches: Iterator[range],
    at_once: int,
    report: Callable[[int], None],
    stop: Callable[[], None],
) -> Finished:
    """Collect what finishes, in order of replication, until all is done or Ctrl-C comes.

    Only so many batches wait at once, since looking after each takes time.
    """
    rows: dict[int, Row] = {}
    waiting: dict[Future[list[Row]], range] = {}
    interrupted = False
    try:
        for batch in islice(batches, at_once):
            waiting[submit(batch)] = batch
        while waiting:
            done, _ = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                rows.update(zip(waiting.pop(future), future.result(), strict=True))
                for batch in islice(batches, 1):
                    waiting[submit(batch)] = batch
            report(len(rows))
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if waiting:
            stop()
            for future in waiting:
                future.cancel()
    numbers = sorted(rows)
    return Finished(numbers, [rows[number] for number in numbers], interrupted)
