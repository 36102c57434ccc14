"""Checks whether a server answers at an address."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

SECONDS_TO_ANSWER = 5.0


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
