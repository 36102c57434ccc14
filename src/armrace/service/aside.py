"""Work beside the turns that serve: audits, histories and long descriptions.

It is done on copies, by one thread: several would take the interpreter from those who serve.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Later", "run_aside", "uncollected"]

T = TypeVar("T")


class Later(NamedTuple, Generic[T]):
    """An answer whose rest is worked out after the turn."""

    finish: Callable[[], T]
    """Returns the answer, from copies alone."""


def _make_thread() -> None:
    global _thread  # noqa: PLW0603
    _thread = ThreadPoolExecutor(1, "aside")


_thread: ThreadPoolExecutor
_make_thread()
# Threads do not survive a fork.
os.register_at_fork(after_in_child=_make_thread)


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


def run_aside(work: Callable[[], T]) -> Future[T]:
    """Do work after all that was asked for before.

    Args:
        work: what to do; it must not wait for other work of this kind.
    """
    return _thread.submit(_uncollected, work)


def _uncollected(work: Callable[[], T]) -> T:
    # The collector would look at every new object several times, and nobody else could go on.
    with uncollected():
        return work()
