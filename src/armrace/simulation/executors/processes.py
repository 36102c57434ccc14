"""A pool of processes on this machine that replaces processes that die."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

from armrace.simulation.interrupts import postponed_interrupts, shielded_children

_UNGUARDED = (
    "armrace: a script that starts processes must do so below `if __name__ == '__main__':`, "
    "because each process imports the script."
)


class ProcessPool(Executor):
    """A pool that replaces processes that die.

    When a process dies, Python's own pool is broken for good: all tasks that it held fail with
    :class:`BrokenExecutor`. Here a task that is submitted again starts a new pool. On an error or
    Ctrl-C, and when this process is killed, the processes end at once, even in the middle of a
    run: each reads from a pipe of this process and exits when the pipe closes.
    """

    on_this_machine = True

    def __init__(self, workers: int) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            # This is a worker that imports a script which starts workers. Python would refuse
            # the next process by a traceback of its own, in every worker.
            raise SystemExit(_UNGUARDED)
        self._workers = workers
        self._pool, self._line = self._start()

    def _start(self) -> tuple[ProcessPoolExecutor, Connection]:
        context = multiprocessing.get_context("spawn")
        end, line = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            self._workers, mp_context=context, initializer=_follow_the_parent, initargs=(end,)
        )
        return pool, line

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        """Submit a task; after a process has died, to a new pool."""
        # Processes start with the first tasks. A blocked signal may still reach another thread, and
        # would then interrupt this one before it has told a new process what to do.
        with postponed_interrupts(), shielded_children():
            try:
                return self._pool.submit(function, *arguments, **named)
            except BrokenExecutor:
                self.shutdown()
                self._pool, self._line = self._start()
                return self._pool.submit(function, *arguments, **named)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = True) -> None:
        """End the processes at once; what they have not finished is lost."""
        self._line.close()
        self._pool.shutdown(wait, cancel_futures=cancel_futures)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()


def _follow_the_parent(end: Connection) -> None:
    """Ignore Ctrl-C, which a terminal sends to children too, and exit when the parent does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_the_parent, args=(end,), daemon=True).start()


def _exit_with_the_parent(end: Connection) -> None:
    try:
        end.recv()
    except (EOFError, OSError):
        os._exit(0)
