"""Ctrl-C where the compiler is at work, and where there are other processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["deaf_children", "postponed_interrupts"]


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], None]]:
    """Keep Ctrl-C from the compiler, which loses it or breaks; the function raises it after all.

    Only the main thread is ever interrupted; elsewhere there is nothing to postpone.
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
    """Processes that are started in this context never see Ctrl-C.

    A terminal sends it to all processes of a command. It is the first one that ends the others,
    and they have nothing to say about it. Only the main thread can arrange that.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)
