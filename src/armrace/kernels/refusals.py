"""Blocks of code in which the current thread may not compile.

A compilation takes seconds. Code that holds a lock for which others wait, such as that of a
database, must not start one. It is refused, and can be made up for when the lock is free.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class NotCompiled(Exception):
    """Something would have been compiled where that is refused."""

    def __init__(self, function: Any, argument_types: tuple[Any, ...]) -> None:
        super().__init__(f"{function.py_func.__name__} is not compiled.")
        self._function = function
        self._argument_types = argument_types

    def compile(self) -> None:
        """Compile it now."""
        self._function.compile(self._argument_types)


class _Refused(threading.local):
    depth = 0


_refused = _Refused()


@contextmanager
def compiling_refused() -> Iterator[None]:
    """Make every compilation in this thread raise :class:`NotCompiled` before it begins."""
    _refused.depth += 1
    try:
        yield
    finally:
        _refused.depth -= 1


class _Listener(event.Listener):  # type: ignore[misc]
    """Numba tells it about every compilation, in the thread that is about to compile."""

    def on_start(self, event: Any) -> None:
        if _refused.depth:
            raise NotCompiled(event.data["dispatcher"], event.data["args"])

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Listener())
