"""Lines of JSON about requests: what was asked and answered, without bodies, queries or keys."""

from __future__ import annotations

import logging
import secrets
import sys
import time
import traceback
from itertools import count
from typing import Any, Literal, TextIO

import msgspec

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
    error: str | None = None
    """The traceback of a defect."""


class _Note(msgspec.Struct, frozen=True, omit_defaults=True):
    time: float
    message: str
    error: str | None = None


class RequestLog:
    """Writes a line for each request."""

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
        error: BaseException | None = None,
    ) -> None:
        """Write about a request that was answered, with the traceback of a defect."""
        if status < self._least:
            return
        now, taken = round(time.time(), 3), round(1000 * seconds, 2)
        line = _Line(now, request, method, endpoint, status, taken, code, _trace(error))
        self._print(self._encode(line))

    def note(self, message: str, error: BaseException | None = None) -> None:
        """Write about something that is not a request."""
        if self._least < 1000:
            self._print(self._encode(_Note(round(time.time(), 3), message, _trace(error))))

    def _print(self, line: bytes) -> None:
        print(line.decode(), file=self._file or sys.stderr, flush=True)


def _trace(error: BaseException | None) -> str | None:
    return None if error is None else "".join(traceback.format_exception(error))


class _JsonFormatter(logging.Formatter):
    """Lines of uvicorn in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        line = _Note(round(record.created, 3), record.getMessage(), _trace(error))
        return msgspec.json.encode(line).decode()


UVICORN_LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": _JsonFormatter}},
    "handlers": {"json": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"uvicorn": {"handlers": ["json"], "level": "WARNING", "propagate": False}},
}
"""uvicorn's own messages, as lines of JSON."""


def request_id(given: bytes | None) -> str:
    """Return the id that a client gave its request, if it is plain and short, or a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.decode().isprintable():
        return given.decode()
    return f"{_PROCESS}{next(_numbers):x}"
