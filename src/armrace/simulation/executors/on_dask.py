"""An executor that runs tasks on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import ExitStack, contextmanager
from typing import Any

from armrace.errors import InvalidParameter, WorkersLost
from armrace.extras import missing_package
from armrace.simulation.code_digest import check_same_code, package_code
from armrace.simulation.executors.futures import cannot_load, forwarded
from armrace.simulation.executors.reachability import SECONDS_TO_ANSWER, is_reachable, within
from armrace.simulation.interrupts import deaf_children

_SECONDS_FOR_A_WORKER = 10


@contextmanager
def dask_executor(address: str | None, workers: int) -> Iterator[Executor]:
    """Yield an executor of the scheduler at an address, or of a cluster started on this machine."""
    try:
        import distributed
    except ImportError as error:
        raise InvalidParameter(missing_package(error)) from error
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        if address is None:
            with deaf_children():
                cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    silence_logs=logging.CRITICAL,
                    # None would take port 8787, and warn if another cluster has it.
                    dashboard_address="127.0.0.1:0",
                    worker_dashboard_address=None,
                )
            client = distributed.Client(stack.enter_context(cluster))
        else:
            client = _connect(distributed, address)
        stack.enter_context(client)
        executor = DaskExecutor(client, address)
        executor.check_workers()
        yield executor


def _connect(distributed: Any, address: str) -> Any:
    unreachable = WorkersLost(
        f"no Dask scheduler answers at {address}; start one with dask scheduler, and give the "
        "address that it prints."
    )
    if not is_reachable(address):
        raise unreachable
    try:
        return within(
            2 * SECONDS_TO_ANSWER,
            lambda: distributed.Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False),
        )
    except (OSError, ValueError) as error:
        raise unreachable from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log messages about lost workers, which are reported as errors anyway."""
    # A scheduler that dies while results are fetched is reported by Tornado's loop.
    talkers = ("distributed", "tornado")
    names = [name for name in logging.root.manager.loggerDict if name.startswith(talkers)]
    usual = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for name, level in usual.items():
            logging.getLogger(name).setLevel(level)


class DaskExecutor(Executor):
    """Dask's own executor, with failures translated into one sentence.

    Dask gives the tasks of a worker that dies to another one. If the scheduler is gone or a task
    kills one worker after the other, tasks fail with :class:`WorkersLost`.
    """

    def __init__(self, client: Any, address: str | None) -> None:
        self._client = client
        self.on_this_machine = address is None
        self._place = address or "this machine"
        # A pure function would be run once for all tasks with equal arguments.
        self._executor = client.get_executor(pure=False)

    def check_workers(self) -> None:
        """Refuse a cluster without workers, or with another version of this package."""
        try:
            self._client.wait_for_workers(1, timeout=_SECONDS_FOR_A_WORKER)
        except TimeoutError as error:
            raise WorkersLost(
                f"the Dask scheduler at {self._place} has no worker; start some with dask worker."
            ) from error
        check_same_code(self.submit(package_code).result(), self._place)

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submit a task."""
        if self._client.status != "running":
            raise self._gone()
        inner = self._executor.submit(function, *arguments, **named)
        return forwarded(inner, self._translate, inner.cancel)

    def _gone(self) -> WorkersLost:
        return WorkersLost(f"the Dask scheduler at {self._place} is gone.")

    def _translate(self, error: BaseException) -> BaseException:
        if isinstance(error, CancelledError):
            return self._gone()
        if type(error).__name__ == "KilledWorker":
            return WorkersLost(
                f"a task killed one worker after the other at {self._place}; perhaps it needs more "
                "memory than they have."
            )
        if isinstance(error, ImportError):
            return cannot_load(self._place, error)
        return error
