"""Ctrl-C while the compiler works, and where there are other processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["deaf_children", "postponed_interrupts", "shielded_children"]


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], None]]:
    """Keep Ctrl-C from the compiler, which loses it or breaks.

    Yields a function that raises the interrupt if one came; so does the end of the context. Only
    the main thread is ever interrupted; elsewhere there is nothing to postpone.
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
    """Let processes that any thread starts in this context ignore Ctrl-C.

    A terminal sends it to all processes of a command; the first one ends the others. An
    interrupt that comes within this context is lost. Only the main thread can arrange that.
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
    """Let processes that this thread starts in this context never see Ctrl-C.

    They inherit that the signal is blocked, from their first instruction on. This process gets
    an interrupt that comes meanwhile when the context ends.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
