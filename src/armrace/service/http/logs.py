"""What was asked and answered: lines of JSON without bodies, queries or keys, and counts."""

from __future__ import annotations

import logging
import secrets
import sys
import time
import traceback
from bisect import bisect_left
from collections import Counter
from itertools import accumulate, count
from typing import Any, Literal, TextIO

import msgspec

from armrace.errors import ArmraceError, RequestFailed
from armrace.service.engine import Engine
from armrace.service.http.endpoints import Endpoint

LogLevel = Literal["all", "problems", "none"]
_LONGEST_ID = 64
_PROCESS, _numbers = f"{secrets.token_hex(6)}-", count(1)
"""New ids differ from those of other processes and from one another; they need not be secret."""
_LIMITS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
"""The seconds by which answers are counted."""


class RequestLog:
    """Counts requests since the process began, and writes a line for each that is of its level."""

    def __init__(self, level: LogLevel = "problems", file: TextIO | None = None) -> None:
        self._least = {"all": 0, "problems": 500, "none": 1000}[level]
        self._file = file
        self._answers: Counter[tuple[str, int]] = Counter()
        self._problems: Counter[str] = Counter()
        self._durations = [0] * (len(_LIMITS) + 1)
        """How many answers took up to each limit and more than the one before."""
        self._seconds = 0.0

    def write(
        self, name: str, endpoint: Endpoint, status: int, began: float, error: ArmraceError | None
    ) -> None:
        """Record a request that was answered, without the names in its address.

        ``began`` is a reading of ``time.perf_counter``. Of a defect the traceback is written.
        """
        seconds, code = time.perf_counter() - began, None if error is None else error.code
        self._answers[endpoint.path, status] += 1
        self._seconds += seconds
        self._durations[bisect_left(_LIMITS, seconds)] += 1
        if code is not None:
            self.count_problem(code)
        if status >= self._least:
            said = {"request": name, "method": endpoint.route.method, "endpoint": endpoint.path}
            figures = {"status": status, "milliseconds": round(1000 * seconds, 2), "code": code}
            defect = error.__cause__ if isinstance(error, RequestFailed) else None
            self._print(_line(time.time(), {**said, **figures}, defect))

    def count_problem(self, code: str) -> None:
        """Count a refusal by its code; those of the code reward-conflict are alarms."""
        self._problems[code] += 1

    def note(self, message: str) -> None:
        """Write about something that is not a request."""
        if self._least < 1000:
            self._print(_line(time.time(), {"message": message}))

    def _print(self, line: str) -> None:
        print(line, file=self._file or sys.stderr, flush=True)

    def metrics(self, engine: Engine) -> str:
        """Return all counts, with figures of the experiments in memory, for Prometheus."""
        answers, problems = sorted(self._answers.items()), sorted(self._problems.items())
        limits = [*(f"{each:g}" for each in _LIMITS), "+Inf"]
        durations = dict(zip(limits, accumulate(self._durations), strict=True))
        loaded = engine.loaded
        families: dict[str, dict[str, Any]] = {
            "requests_total counter": {
                f'{{endpoint="{path}",status="{status}"}}': n for (path, status), n in answers
            },
            "refusals_total counter": {f'{{code="{code}"}}': n for code, n in problems},
            "request_seconds histogram": {
                **{f'_bucket{{le="{limit}"}}': n for limit, n in durations.items()},
                "_sum": f"{self._seconds:.6f}",
                "_count": durations["+Inf"],
            },
            "transactions_total counter": {"": engine.transactions},
            "loaded_experiments gauge": {"": len(loaded)},
            "open_visits gauge": {"": sum(len(each.experiment.open) for each in loaded)},
            "keys_readable gauge": {"": int(engine.keyring.problem is None)},
        }
        lines = []
        for family, values in families.items():
            name = family.partition(" ")[0]
            lines.append(f"# TYPE armrace_{family}\n")
            lines += [f"armrace_{name}{which} {value}\n" for which, value in values.items()]
        return "".join(lines)


def _line(moment: float, said: dict[str, Any], error: BaseException | None = None) -> str:
    trace = None if error is None else "".join(traceback.format_exception(error))
    line = {"time": round(moment, 3), **said, "error": trace}
    found = {name: value for name, value in line.items() if value is not None}
    return msgspec.json.encode(found).decode()


class _JsonFormatter(logging.Formatter):
    """Lines of uvicorn in the same form."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return _line(record.created, {"message": record.getMessage()}, error)


UVICORN_LOGS: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": _JsonFormatter}},
    "handlers": {"json": {"class": "logging.StreamHandler", "formatter": "json"}},
    "loggers": {"uvicorn": {"handlers": ["json"], "level": "WARNING", "propagate": False}},
}


def request_id(given: bytes | None) -> str:
    """Return the id that a client gave its request, if it is plain and short, or a new one."""
    if given and len(given) <= _LONGEST_ID and given.isascii() and given.decode().isprintable():
        return given.decode()
    return f"{_PROCESS}{next(_numbers):x}"
