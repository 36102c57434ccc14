"""Whether anybody listens at an address, found out within seconds."""

from __future__ import annotations

import socket

__all__ = ["SECONDS_TO_ANSWER", "somebody_listens"]

SECONDS_TO_ANSWER = 5.0


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
