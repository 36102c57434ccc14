"""Parallel replications on threads or on any executor, with progress and handling of Ctrl-C.

The compiled loop runs without the interpreter lock, so threads use all cores and nothing is
pickled. The outcome of a replication depends on its number alone, so the results are the same to
the last bit for any executor and number of workers, and if a worker dies and is replaced.
"""

from __future__ import annotations

import heapq
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter, WorkersLost
from armrace.kernels.engine import PLAYED, STOP
from armrace.simulation.code_digest import check_same_code, package_code
from armrace.simulation.executors import cannot_load, check_workers, postponed_interrupts
from armrace.simulation.experiment import Experiment
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

_Timed = tuple[float, list[Any]]

_SECONDS_A_ROUND = 1e-5
"""The cost of slow policies, assumed for every experiment until its own is measured."""

_LEAST_SECONDS = 1e-7
"""Costs below this cannot be measured."""


class Batch(NamedTuple):
    """Some replications of the experiment at a position."""

    position: int
    replications: Sequence[int]


class Batches:
    """The replications that are left to do, in order, for each experiment."""

    def __init__(
        self, experiments: Sequence[Experiment], missing: Sequence[Sequence[int]], seconds: float
    ) -> None:
        self._missing = missing
        self._taken = [0] * len(missing)
        self._costs = [max(_LEAST_SECONDS, e.horizon * _SECONDS_A_ROUND) for e in experiments]
        self._seconds = seconds
        self._returned: list[Batch] = []
        # Ordered by the first replication that is missing, then by position.
        self._behind = [(numbers[0], at) for at, numbers in enumerate(missing) if numbers]
        heapq.heapify(self._behind)

    def take(self) -> Batch | None:
        """Return a batch of the experiment that is furthest behind; None when all are taken.

        In this order the first replications of all experiments are finished first, and an
        interruption leaves replications that are complete for all experiments.
        """
        if self._returned:
            return self._returned.pop()
        if not self._behind:
            return None
        _, position = heapq.heappop(self._behind)
        numbers, first = self._missing[position], self._taken[position]
        last = first + max(1, int(self._seconds / self._costs[position]))
        self._taken[position] = last
        if last < len(numbers):
            heapq.heappush(self._behind, (numbers[last], position))
        return Batch(position, numbers[first:last])

    def give_back(self, batch: Batch) -> None:
        """Return a batch that was lost, to be taken again."""
        self._returned.append(batch)

    def learn(self, batch: Batch, seconds: float) -> None:
        """Record how long a batch took.

        The smallest cost counts: the first batch of a process compiles, and a busy machine is slow.
        """
        cost = max(_LEAST_SECONDS, seconds / len(batch.replications))
        self._costs[batch.position] = min(self._costs[batch.position], cost)


Receive = Callable[[Batch, Sequence[Any]], None]
"""Called with each finished batch and one outcome per replication."""


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
    run = _Run(experiments, missing, progress, receive, task)
    return run.on_threads(workers or os.cpu_count() or 1) if executor is None else run.on(executor)


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


class _Run(NamedTuple):
    """Replications to run, and who hears of the outcomes."""

    experiments: Sequence[Experiment]
    missing: Sequence[Sequence[int]]
    progress: Progress
    receive: Receive
    task: Task

    def on_threads(self, workers: int) -> bool:
        """Run on threads of this process; return whether Ctrl-C came."""
        # Compiled loops release the interpreter lock and cannot be interrupted from Python. They
        # read a stop flag and write their progress in these arrays, which this thread reads and
        # writes.
        controls = [
            np.zeros((max(numbers, default=-1) + 1, 2), dtype=np.int64) for numbers in self.missing
        ]

        def run(batch: Batch) -> _Timed:
            own = controls[batch.position]
            started = time.perf_counter()
            outcomes = [
                self.task(self.experiments[batch.position], number, own[number])
                for number in batch.replications
                if not own[number, STOP]
            ]
            return time.perf_counter() - started, outcomes

        def stop() -> None:
            for own in controls:
                own[:, STOP] = 1

        def played() -> float:
            return float(sum(own[:, PLAYED].sum() for own in controls))

        # Several batches wait for each thread, so that none is idle until this thread looks again.
        room = (4 * workers, 4 * workers)
        with ThreadPoolExecutor(workers) as pool:
            return self._gather(
                lambda batch: pool.submit(run, batch), _SECONDS_A_THREAD, room, played, stop
            )

    def on(self, executor: Executor) -> bool:
        """Run on an executor; return whether Ctrl-C came."""
        code = package_code()
        done = 0

        def submit(batch: Batch) -> Future[_Timed]:
            experiment = self.experiments[batch.position]
            return executor.submit(run_batch, code, self.task, experiment, batch.replications)

        def count(batch: Batch, outcomes: Sequence[Any]) -> None:
            nonlocal done
            self.receive(batch, outcomes)
            done += len(outcomes) * self.experiments[batch.position].horizon

        room = (_FIRST_TASKS, _TASKS_AT_ONCE)
        counting = self._replace(receive=count)
        return counting._gather(submit, _SECONDS_A_TASK, room, lambda: done, lambda: None)

    def _gather(
        self,
        submit: Callable[[Batch], Future[_Timed]],
        seconds: float,
        room: tuple[int, int],
        played: Callable[[], float],
        stop: Callable[[], None],
    ) -> bool:
        """Submit batches and receive outcomes until all are done or Ctrl-C comes.

        A batch takes about ``seconds``. The number of batches submitted at once grows from the
        first number of ``room`` to the second: each one takes time to manage, and later batches
        are better sized.
        """
        batches = Batches(self.experiments, self.missing, seconds)
        horizons = (experiment.horizon for experiment in self.experiments)
        rounds = sum(h * len(n) for h, n in zip(horizons, self.missing, strict=True))
        at_once, most = room
        losses = 0
        waiting: dict[Future[_Timed], Batch] = {}
        try:
            # An interrupt in ``wait`` can leave the lock of a future taken; a thread of the
            # executor that needs it would then wait forever, and this process for the thread.
            with postponed_interrupts() as deliver_interrupt, _cancelled(waiting, stop):
                while True:
                    deliver_interrupt()
                    while len(waiting) < at_once and (batch := batches.take()) is not None:
                        waiting[_submit(submit, batch)] = batch
                    if not waiting:
                        return False
                    done, _ = wait(waiting, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
                    lost = [waiting.pop(future) for future in done if _is_lost(future)]
                    for batch in lost:
                        batches.give_back(batch)
                    for future in done.intersection(waiting):
                        batch = waiting.pop(future)
                        taken, outcomes = future.result()
                        batches.learn(batch, taken)
                        self.receive(batch, outcomes)
                        at_once = min(most, at_once + 1)
                    # Only looks that found losses and no outcome count: a worker that dies now
                    # and then is replaced, but a task that kills every worker must end the run.
                    if done:
                        losses = losses + 1 if len(lost) == len(done) else 0
                    if losses > _LOSSES_IN_A_ROW:
                        raise WorkersLost(_LOST)
                    self.progress(played() / max(1, rounds))
        except KeyboardInterrupt:
            return True


@contextmanager
def _cancelled(waiting: dict[Future[_Timed], Batch], stop: Callable[[], None]) -> Iterator[None]:
    """Cancel in the end what is still ``waiting``, after an error or Ctrl-C."""
    try:
        yield
    finally:
        if waiting:
            stop()  # threads would play their rounds to the end
            for future in waiting:
                future.cancel()


def _submit(submit: Callable[[Batch], Future[_Timed]], batch: Batch) -> Future[_Timed]:
    try:
        return submit(batch)
    except BrokenExecutor as error:
        raise WorkersLost(_LOST) from error


def _is_lost(future: Future[_Timed]) -> bool:
    """Whether a task was lost with its worker and should be tried again."""
    if future.cancelled():
        raise WorkersLost(
            "the executor dropped tasks that it had accepted; it was shut down, or its scheduler "
            "is gone."
        )
    error = future.exception()
    if type(error).__name__ == "KilledWorker":  # Dask's word for a task that kills each worker
        raise WorkersLost(_LOST) from error
    if isinstance(error, ImportError):
        raise InvalidParameter(cannot_load(error)) from error
    return isinstance(error, BrokenExecutor)
