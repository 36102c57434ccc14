"""Executors by name: threads, processes or a cluster of Dask; and postponed interrupts."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from armrace.errors import InvalidParameter, UnknownName, WorkersLost, missing_package
from armrace.limits import Limits, check_number
from armrace.simulation.code_digest import check_same_code, package_code


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], None]]:
    """Postpone Ctrl-C to the end of the context, or to the next call of what the context yields.

    Python raises an interrupt between any two instructions. The compiler would lose it or break,
    and a lock that was just taken would be held forever. Whatever handles interrupts outside the
    context also handles the postponed one; if they are ignored there, nothing is postponed. Only
    the main thread is ever interrupted, so in other threads nothing is postponed either.
    """
    came: list[int] = []
    usual = signal.getsignal(signal.SIGINT)

    def deliver() -> None:
        if came and callable(usual):
            usual(came.pop(), None)

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or usual in {signal.SIG_IGN, None}:  # None: code that is not Python's
        yield deliver
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield deliver
    finally:
        signal.signal(signal.SIGINT, usual)
    if came:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def deaf_children() -> Iterator[None]:
    """Make processes that any thread starts in this context ignore Ctrl-C.

    A terminal sends Ctrl-C to all processes of a command; this process then ends its children. An
    interrupt that comes within this context is lost. It has no effect outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


@contextmanager
def shielded_children() -> Iterator[None]:
    """Block Ctrl-C in the processes that this thread starts in this context.

    They inherit the blocked signal from their first instruction on. This process receives a
    postponed interrupt when the context ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


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
        context, ignored = multiprocessing.get_context("spawn"), (signal.SIGINT, signal.SIG_IGN)
        with ProcessPoolExecutor(count, context, signal.signal, ignored) as pool:
            yield pool
    elif name == "dask":
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


_SECONDS_TO_ANSWER = 10.0


@contextmanager
def dask_executor(address: str | None, workers: int) -> Iterator[Executor]:
    """Yield Dask's executor of the scheduler at an address, or of a cluster on this machine."""
    try:
        import distributed
    except ImportError as error:
        raise InvalidParameter(missing_package(error)) from error
    place = address or "this machine"
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
        try:
            client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
        except TimeoutError as error:
            raise WorkersLost(
                f"the Dask scheduler at {place} has no worker; start some with dask worker."
            ) from error
        # A pure function would be run once for all tasks with equal arguments.
        executor = client.get_executor(pure=False)
        executor.on_this_machine = address is None
        try:
            check_same_code(executor.submit(package_code).result(), place)
        except ImportError as error:
            raise InvalidParameter(cannot_load(error)) from error
        yield executor


def cannot_load(error: BaseException) -> str:
    """Say that workers do not have what they are to run."""
    return (
        f"the workers cannot load what they are to run ({error}); install the same version of "
        "armrace, and your own modules, there."
    )


def _connect(distributed: Any, address: str) -> Any:
    """Return a client of the scheduler at ``host:port``, which may have a scheme in front."""
    host, _, port = address.rpartition("//")[2].rpartition(":")
    connected: Future[Any] = Future()

    def attempt() -> None:
        try:
            connected.set_result(distributed.Client(address, set_as_default=False))
        except Exception as error:
            connected.set_exception(error)

    try:
        # Dask waits long for a server that is not there, and forever for one of another kind.
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS_TO_ANSWER).close()
        threading.Thread(target=attempt, daemon=True).start()
        return connected.result(_SECONDS_TO_ANSWER)
    except (OSError, ValueError, OverflowError) as error:
        raise WorkersLost(
            f"no Dask scheduler answers at {address}; start one with dask scheduler, and give the "
            "address that it prints."
        ) from error


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
