"""Ctrl-C where an interrupt between two instructions would do harm, and in child processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


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
