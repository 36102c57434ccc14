"""Lines of JSON about requests: what was asked and answered, without bodies, queries or keys."""

from __future__ import annotations

import secrets
import sys
import time
from itertools import count
from typing import Literal, TextIO

import msgspec

__all__ = ["LogLevel", "RequestLog", "request_id"]

LogLevel = Literal["all", "problems", "none"]
_LONGEST_ID = 64
_PROCESS, _numbers = f"{secrets.token_hex(6)}-", count(1)
"""New ids differ from those of other processes and from one another; they need not be secret."""


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    time: float
    request: str
    method: str
    endpoint: str
    """The pattern of the address, without the names in it."""
    status: int
    milliseconds: float
    code: str | None = None


class RequestLog:
    """Writes a line for each request.

    Args:
        level: whether to write about all requests, about those of status 500 and above, or none.
        file: where to write; by default standard error.
    """

    def __init__(self, level: LogLevel = "problems", file: TextIO | None = None) -> None:
        self._least = {"all": 0, "problems": 500, "none": 1000}[level]
        self._file = file
        self._encode = msgspec.json.Encoder().encode

    def write(
        self,
        request: str,
        method: str,
        endpoint: str,
        status: int,
        seconds: float,
        code: str | None,
    ) -> None:
        """Write about a request that was answered."""
        if status < self._least:
            return
        line = _Line(
            round(time.time(), 3), request, method, endpoint, status, round(1000 * seconds, 2), code
        )
        print(self._encode(line).decode(), file=self._file or sys.stderr, flush=True)


def request_id(given: bytes | None) -> str:
    """Return the id that a client gave its request, if it is plain and short, or a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.decode().isprintable():
        return given.decode()
    return f"{_PROCESS}{next(_numbers):x}"
