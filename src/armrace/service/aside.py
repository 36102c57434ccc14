"""Work beside the turns that serve: audits, histories and long descriptions.

It is done on copies, by one thread: several would take the interpreter from those who serve.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Later", "run_aside"]

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


def run_aside(work: Callable[[], T]) -> Future[T]:
    """Do work after all that was asked for before.

    Args:
        work: what to do; it must not wait for other work of this kind.
    """
    return _thread.submit(work)
