"""Ranges of numbers, and the one sentence that refuses what lies outside."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from armrace.errors import InvalidParameter

MOST_ARMS = 10_000
"""How many arms an experiment of the service or a log may have."""


@dataclass(frozen=True)
class Limits:
    """The range of a number, and what the number means."""

    meaning: str
    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: Any) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return bool(above and below)

    def __str__(self) -> str:
        if self.high == math.inf:
            return f"{'above' if self.low_open else 'at least'} {self.low:g}"
        opening, closing = "(" if self.low_open else "[", ")" if self.high_open else "]"
        return f"in {opening}{self.low:g}, {self.high:g}{closing}"


def check_number(name: str, value: Any, limits: Limits, whole: bool = False) -> None:
    """Refuse a value that is not a finite number within ``limits``."""
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, kinds):
        kind = "a whole number" if whole else "a number"
        raise InvalidParameter(f"{name} must be {kind}; got {value!r}.")
    if isinstance(value, (float, np.floating)) and not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite; got {value}.")
    if value not in limits:
        raise InvalidParameter(f"{name} must be {limits}; got {_shown(value)}.")


def _shown(value: Any) -> str:
    """A number that can be read, even where it is absurdly long."""
    if isinstance(value, (float, np.floating)):
        return f"{value:g}"
    if abs(value) < 10**18:
        return str(value)
    return f"{value:g}" if abs(value) < 10**300 else f"a number of {value.bit_length()} bits"


def read_moment(name: str, text: str) -> int:
    """Return a time that is written in UTC, or with its zone, in milliseconds since 1970.

    >>> read_moment("since", "2026-03-01T14:00")
    1772373600000
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidParameter(
            f"{name} must be a time in UTC, such as 2026-03-01T14:00; got {text[:40]!r}."
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)
