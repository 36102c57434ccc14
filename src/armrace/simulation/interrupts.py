"""Ctrl-C during compilation and in child processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["deaf_children", "postponed_interrupts", "shielded_children"]


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], None]]:
    """Postpone Ctrl-C to the end of the context; the compiler would lose it or break.

    Yields a function that raises the interrupt if one came; the end of the context does so too.
    Only the main thread is ever interrupted, so in other threads nothing is postponed.
    """
    came: list[int] = []

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    usual = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, usual)
    check()


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
