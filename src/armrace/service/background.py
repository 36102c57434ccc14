"""Work beside the engine, on copies: audits and views in one thread, long work in others.

What ends soon has threads of its own, so that it does not wait for the exports of another tenant.
Work must not wait for other work of its kind.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


def _make_threads() -> None:
    global _short, _soon, _long  # noqa: PLW0603
    # One thread for short work: several would take the interpreter from those who serve.
    _short = ThreadPoolExecutor(1, "audits")
    _soon = ThreadPoolExecutor(4, "directory")
    _long = ThreadPoolExecutor(2, "background")


_short: ThreadPoolExecutor
_soon: ThreadPoolExecutor
_long: ThreadPoolExecutor
_make_threads()
# Threads do not survive a fork.
os.register_at_fork(after_in_child=_make_threads)


@contextmanager
def uncollected() -> Iterator[None]:
    """Turn the collection of cyclic garbage off: records and events have no cycles.

    It would take a third of the time in which they are read and applied.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def run_in_background(work: Callable[[], T]) -> Future[T]:
    """Do short work after all that was asked for before: an audit, a view."""
    # The collector would look at every new object several times, and nobody else could go on.
    return _short.submit(uncollected()(work))


def run_soon(work: Callable[[], T]) -> Future[T]:
    """Do work that waits for the engine now and then, and ends soon: listing, creating."""
    return _soon.submit(work)


def run_long(work: Callable[[], T]) -> Future[T]:
    """Do work that may take minutes: a replay, an export."""
    return _long.submit(work)
