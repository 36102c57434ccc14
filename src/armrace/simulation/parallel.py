"""Parallel replications on threads or on any executor, with progress and handling of Ctrl-C.

The compiled loop runs without the interpreter lock, so threads use all cores and nothing is
pickled. The outcome of a replication depends on its number alone, so the results are the same to
the last bit for any executor and number of workers, and if a worker dies and is replaced.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from armrace.errors import WorkersLost
from armrace.kernels.engine import PLAYED, STOP
from armrace.simulation.batches import Batch, Batches
from armrace.simulation.code_digest import check_same_code, package_code
from armrace.simulation.executors import check_workers
from armrace.simulation.experiment import Experiment
from armrace.simulation.interrupts import postponed_interrupts
from armrace.simulation.replication import run_replication

_POLL_SECONDS = 0.1
_SECONDS_A_TASK = 1.0
"""Aim of a task on an executor: long enough that the executor's overhead does not show."""

_SECONDS_A_THREAD = 0.01
"""Aim of a task on a thread: long enough that short replications share its cost."""

_FIRST_TASKS, _TASKS_AT_ONCE = 16, 1000
"""Two tasks are submitted for each one that finishes, since the number of workers is unknown."""

_LOSSES_IN_A_ROW = 5
_LOST = "the workers died; perhaps they ran out of memory, and fewer of them would not."

Progress = Callable[[float], None]
Row = list[Any]
"""What the task returns for one replication: one entry per experiment."""

Receive = Callable[[Batch, Sequence[Any]], None]
"""Called with each finished batch and one outcome per replication."""

_Timed = tuple[float, list[Any]]


class Task(Protocol):
    """What is done with each replication of each experiment.

    It must be a function of a module, so that other processes can import it. It passes
    ``control`` to the compiled loop, through which other threads watch and stop it.
    """

    def __call__(
        self, experiment: Experiment, replication: int, control: npt.NDArray[np.int64] | None = None
    ) -> Any: ...


class Finished(NamedTuple):
    """Finished replications: their numbers, and for each one outcome per experiment."""

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
    found: list[dict[int, Any]] = [{} for _ in experiments]

    def receive(batch: Batch, outcomes: Sequence[Any]) -> None:
        found[batch.position].update(zip(batch.replications, outcomes, strict=True))

    missing = [range(experiment.replications) for experiment in experiments]
    interrupted = run_missing(experiments, missing, executor, workers, progress, receive, task)
    # Comparisons are pair by pair, so that a replication counts only if all experiments have it.
    complete = sorted(set(found[0]).intersection(*found[1:]))
    return Finished(complete, [[each[n] for each in found] for n in complete], interrupted)


def run_missing(
    experiments: Sequence[Experiment],
    missing: Sequence[Sequence[int]],
    executor: Executor | None,
    workers: int | None,
    progress: Progress,
    receive: Receive,
    task: Task = run_replication,
) -> bool:
    """Run the missing replications of each experiment; return whether Ctrl-C came.

    ``receive`` is called with batches as they finish, in no particular order.
    """
    check_workers(workers)
    if executor is not None:
        return _run_on_executor(experiments, missing, executor, progress, receive, task)
    threads = workers or os.cpu_count() or 1
    return _run_on_threads(experiments, missing, threads, progress, receive, task)


def shares_this_disk(executor: Executor | None) -> bool:
    """Whether the workers find on disk what is compiled here."""
    if isinstance(executor, (ThreadPoolExecutor, ProcessPoolExecutor)):
        return True
    return executor is None or bool(getattr(executor, "on_this_machine", False))


def run_batch(code: str, task: Task, experiment: Experiment, replications: Sequence[int]) -> _Timed:
    """Run a batch in a worker of an executor, after a check that it has the same code."""
    check_same_code(code)
    started = time.perf_counter()
    outcomes = [task(experiment, number) for number in replications]
    return time.perf_counter() - started, outcomes


def _run_on_threads(
    experiments: Sequence[Experiment],
    missing: Sequence[Sequence[int]],
    workers: int,
    progress: Progress,
    receive: Receive,
    task: Task,
) -> bool:
    # Compiled loops release the interpreter lock and cannot be interrupted from Python. They read
    # a stop flag and write their progress in these arrays, which this thread reads and writes.
    controls = [np.zeros((max(numbers, default=-1) + 1, 2), dtype=np.int64) for numbers in missing]
    rounds = _rounds(experiments, missing)

    def run(batch: Batch) -> _Timed:
        experiment, own = experiments[batch.position], controls[batch.position]
        started = time.perf_counter()
        outcomes = [
            task(experiment, number, own[number])
            for number in batch.replications
            if not own[number, STOP]
        ]
        return time.perf_counter() - started, outcomes

    def stop() -> None:
        for own in controls:
            own[:, STOP] = 1

    def report() -> None:
        progress(float(sum(own[:, PLAYED].sum() for own in controls)) / rounds)

    with ThreadPoolExecutor(workers) as pool:
        return _gather(
            lambda batch: pool.submit(run, batch),
            Batches(experiments, missing, _SECONDS_A_THREAD),
            # Several batches wait for each thread, so that none is idle until this thread looks
            # again.
            (4 * workers, 4 * workers),
            receive,
            report,
            stop,
        )


def _run_on_executor(
    experiments: Sequence[Experiment],
    missing: Sequence[Sequence[int]],
    executor: Executor,
    progress: Progress,
    receive: Receive,
    task: Task,
) -> bool:
    code = package_code()
    rounds = _rounds(experiments, missing)
    done = 0

    def submit(batch: Batch) -> Future[_Timed]:
        experiment = experiments[batch.position]
        return executor.submit(run_batch, code, task, experiment, batch.replications)

    def count(batch: Batch, outcomes: Sequence[Any]) -> None:
        nonlocal done
        receive(batch, outcomes)
        done += len(outcomes) * experiments[batch.position].horizon

    return _gather(
        submit,
        Batches(experiments, missing, _SECONDS_A_TASK),
        (_FIRST_TASKS, _TASKS_AT_ONCE),
        count,
        report=lambda: progress(done / rounds),
        stop=lambda: None,
    )


def _rounds(experiments: Sequence[Experiment], missing: Sequence[Sequence[int]]) -> int:
    return max(1, sum(e.horizon * len(n) for e, n in zip(experiments, missing, strict=True)))


def _gather(
    submit: Callable[[Batch], Future[_Timed]],
    batches: Batches,
    room: tuple[int, int],
    receive: Receive,
    report: Callable[[], None],
    stop: Callable[[], None],
) -> bool:
    """Submit batches and receive outcomes until all are done or Ctrl-C comes.

    The number of batches submitted at once grows from the first number of ``room`` to the second:
    each one takes time to manage, and later batches are better sized.
    """
    waiting: dict[Future[_Timed], Batch] = {}
    try:
        # An interrupt in ``wait`` can leave the lock of a future taken; a thread of the executor
        # that needs it would then wait forever, and this process for the thread.
        with postponed_interrupts() as deliver_interrupt:
            try:
                _gather_all(submit, batches, room, receive, report, waiting, deliver_interrupt)
            finally:
                if waiting:  # an error or Ctrl-C: threads would play their rounds to the end
                    stop()
                    for future in waiting:
                        future.cancel()
    except KeyboardInterrupt:
        return True
    return False


def _gather_all(
    submit: Callable[[Batch], Future[_Timed]],
    batches: Batches,
    room: tuple[int, int],
    receive: Receive,
    report: Callable[[], None],
    waiting: dict[Future[_Timed], Batch],
    deliver_interrupt: Callable[[], None],
) -> None:
    """Do the work of :func:`_gather`; what was submitted and not received stays in ``waiting``."""
    at_once, most = room
    losses = 0
    while True:
        deliver_interrupt()
        while len(waiting) < at_once and (batch := batches.take()) is not None:
            waiting[_submit(submit, batch)] = batch
        if not waiting:
            return
        done, _ = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        lost = [waiting.pop(future) for future in done if _is_lost(future)]
        for batch in lost:
            batches.give_back(batch)
        for future in done.intersection(waiting):
            batch = waiting.pop(future)
            seconds, outcomes = future.result()
            batches.learn(batch, seconds)
            receive(batch, outcomes)
            at_once = min(most, at_once + 1)
        # Only looks that found losses and no outcome count: a worker that dies now and then is
        # replaced, but a task that kills every worker must end the run.
        if done:
            losses = losses + 1 if len(lost) == len(done) else 0
        if losses > _LOSSES_IN_A_ROW:
            raise WorkersLost(_LOST)
        report()


def _submit(submit: Callable[[Batch], Future[_Timed]], batch: Batch) -> Future[_Timed]:
    try:
        return submit(batch)
    except BrokenExecutor as error:
        raise WorkersLost(_LOST) from error


def _is_lost(future: Future[_Timed]) -> bool:
    """Whether a task was lost with its worker and should be tried again."""
    if future.cancelled():
        raise WorkersLost("the executor dropped tasks that it had accepted; it was shut down.")
    return isinstance(future.exception(), BrokenExecutor)
