"""Checks whether a server answers at an address, once or repeatedly during a context."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

__all__ = ["SECONDS_TO_ANSWER", "is_reachable", "monitor_address", "within"]

SECONDS_TO_ANSWER = 5.0

_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_OF_SILENCE = 10.0
"""Longer than a short network failure, shorter than the minute after which Ray ends the process."""


def is_reachable(address: str) -> bool:
    """Whether a server accepts connections at ``host:port``, which may have a scheme in front.

    To be called before a library connects, since libraries wait up to minutes for a server.

    >>> is_reachable("tcp://127.0.0.1:1"), is_reachable("nonsense")
    (False, False)
    """
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def within(seconds: float, connect: Callable[[], Any]) -> Any:
    """Return what ``connect`` returns, or raise TimeoutError after ``seconds``.

    It runs in another thread, since libraries wait forever for a server of another kind.

    >>> within(5.0, lambda: "connected")
    'connected'
    """
    client: Future[Any] = Future()

    def attempt() -> None:
        try:
            client.set_result(connect())
        except Exception as error:
            client.set_exception(error)

    threading.Thread(target=attempt, daemon=True).start()
    return client.result(seconds)


@contextmanager
def monitor_address(address: str, tell: Callable[[], None]) -> Iterator[None]:
    """Try an address every second in this context; call ``tell`` when it stops answering."""
    ended = threading.Event()

    def monitor() -> None:
        heard = time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_TRIES):
            if is_reachable(address):
                heard = time.monotonic()
            elif time.monotonic() - heard > _SECONDS_OF_SILENCE:
                tell()
                return

    threading.Thread(target=monitor, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
