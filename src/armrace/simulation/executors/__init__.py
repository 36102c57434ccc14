"""Executors by name: threads, processes, or a cluster of Dask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from armrace.errors import InvalidParameter, UnknownName
from armrace.limits import Limits, check_number

__all__ = [
    "EXECUTORS",
    "check_executor",
    "check_workers",
    "chosen_executor",
    "running_executor",
]

EXECUTORS = ("threads", "processes", "dask")

_WORKERS = Limits("threads or processes", 1)


def check_executor(name: str, address: str | None, workers: int | None) -> None:
    """Refuse an unknown executor, and an address or workers that do not fit it."""
    if name not in EXECUTORS:
        raise UnknownName.among("executor", name, EXECUTORS)
    if address is not None and name != "dask":
        raise InvalidParameter(f"an address is that of a cluster of dask; {name} have none.")
    if address is not None and workers is not None:
        raise InvalidParameter(
            f"the cluster at {address} has its own workers; leave the number of workers out."
        )
    check_workers(workers)


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers below 1."""
    if workers is not None:
        check_number("workers", workers, _WORKERS, whole=True)


@contextmanager
def chosen_executor(
    name: str = "threads", address: str | None = None, workers: int | None = None
) -> Iterator[Executor | None]:
    """Yield an executor by name; None stands for threads.

    With an ``address``, tasks go to the cluster of Dask that runs there, which is left
    running. Without one, a cluster is started on this machine, by default with one worker per
    core, and stopped in the end. The choice changes no figure.
    """
    check_executor(name, address, workers)
    count = workers or os.cpu_count() or 1
    if name == "processes":
        from armrace.simulation.executors.processes import ProcessPool

        with ProcessPool(count) as pool:
            yield pool
    elif name == "dask":
        from armrace.simulation.executors.on_dask import dask_executor

        with dask_executor(address, count) as executor:
            yield executor
    else:
        yield None


@contextmanager
def running_executor(
    given: Executor | str | None, workers: int | None = None
) -> Iterator[Executor | None]:
    """Yield the executor that a caller in Python has given; None stands for threads."""
    if given is None or isinstance(given, str):
        with chosen_executor(given or "threads", None, workers) as started:
            yield started
        return
    # A class has ``submit`` too, and would fail only when the first task is submitted.
    if isinstance(given, type) or not callable(getattr(given, "submit", None)):
        raise InvalidParameter(
            f"executor must be one of {', '.join(EXECUTORS)}, or have submit as those of "
            f"concurrent.futures do; got {given!r}."
        )
    yield given
