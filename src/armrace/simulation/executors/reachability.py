"""Whether anybody listens at an address, found out within seconds, once or all the time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

__all__ = ["SECONDS_TO_ANSWER", "somebody_listens", "vigil", "within"]

SECONDS_TO_ANSWER = 5.0

_SECONDS_BETWEEN_KNOCKS = 1.0
_SECONDS_OF_SILENCE = 10.0
"""So long that a network may falter; Ray ends the whole process after a minute."""


def somebody_listens(address: str) -> bool:
    """Knock at ``host:port``, also with a scheme in front.

    Libraries wait up to minutes where nobody answers, in case somebody comes.

    >>> somebody_listens("tcp://127.0.0.1:1"), somebody_listens("nonsense")
    (False, False)
    """
    host, _, port = address.rpartition("//")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


def within(seconds: float, connect: Callable[[], Any]) -> Any:
    """Connect on a thread of its own: libraries wait for ever for a server of another kind.

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
def vigil(address: str, tell: Callable[[], None]) -> Iterator[None]:
    """Knock every second while the context lasts; call ``tell`` once nobody answers any more."""
    ended = threading.Event()

    def watch() -> None:
        heard = time.monotonic()
        while not ended.wait(_SECONDS_BETWEEN_KNOCKS):
            if somebody_listens(address):
                heard = time.monotonic()
            elif time.monotonic() - heard > _SECONDS_OF_SILENCE:
                tell()
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
