"""Text from the command line into numbers, lists and parameters; refusals are sentences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import typer

from armrace.errors import InvalidParameter

__all__ = [
    "ALL",
    "assignments",
    "names",
    "number",
    "place",
    "share",
    "shares",
    "value",
    "whole",
    "worker_count",
]

ALL = "all"
"""What stands for every name there is, where several may be given."""


def number(name: str, text: str) -> float:
    """A finite number.

    >>> number("budget", "1e3")
    1000.0
    """
    try:
        parsed = float(text)
    except ValueError:
        raise InvalidParameter(f"{name} must be a number; got {text!r}.") from None
    if not math.isfinite(parsed):
        raise InvalidParameter(f"{name} must be finite; got {text}.")
    return parsed


def whole(name: str, text: str) -> int:
    """A whole number, also as ``1e6``; its limits are the specification's to check.

    >>> whole("horizon", "1e6")
    1000000
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        wide = float(text)
    except ValueError:
        raise InvalidParameter(f"{name} must be a whole number; got {text!r}.") from None
    if not math.isfinite(wide):
        raise InvalidParameter(f"{name} must be finite; got {text}.")
    if wide != int(wide):
        raise InvalidParameter(f"{name} must be a whole number; got {text}.")
    return int(wide)


def worker_count(text: str | None) -> int | None:
    """How many threads; None leaves it to the machine."""
    if text is None:
        return None
    parsed = whole("workers", text)
    if parsed < 1:
        raise InvalidParameter(f"workers must be at least 1; got {text}.")
    return parsed


def names(name: str, text: str, known: Iterable[str]) -> list[str]:
    """At least one name, each once, between commas; or all that are known.

    >>> names("policies", "ucb1, exp3, ucb1", known=["exp3", "moss", "ucb1"])
    ['ucb1', 'exp3']
    >>> names("policies", "all", known=["exp3", "moss", "ucb1"])
    ['exp3', 'moss', 'ucb1']
    """
    found = list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise InvalidParameter(f"{name} must name at least one; got {text!r}.")
    return list(known) if found == [ALL] else found


def share(name: str, text: str) -> float:
    """A rate or a probability: a number, or a percentage, which is the very same number.

    >>> share("forged", "0.7%"), share("forged", "0.007")
    (0.007, 0.007)
    """
    bare = text.strip()
    if not bare.endswith("%"):
        return number(name, bare)
    number(name, bare[:-1])
    return float(Decimal(bare[:-1]).scaleb(-2))


def shares(name: str, text: str) -> tuple[float, ...]:
    """Rates between commas.

    >>> shares("means", "0.05, 4%")
    (0.05, 0.04)
    """
    return tuple(share(f"each of {name}", part) for part in text.split(","))


def place(text: str) -> Path:
    """A file or a folder; no name at all would be the folder where one happens to be."""
    if not str(text).strip():
        raise typer.BadParameter("its name is empty")
    return Path(text)


def assignments(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """Parameters given as ``key=value``, each once.

    >>> assignments("--set", ["delta=0.1", "estimator=rv", "alphas=2,3"])
    {'delta': 0.1, 'estimator': 'rv', 'alphas': [2, 3]}
    """
    parsed: dict[str, Any] = {}
    for text in texts:
        key, equals, given = text.partition("=")
        key = key.strip().replace("-", "_")
        if not equals or not key or not given.strip():
            raise InvalidParameter(f"{option} takes key=value, such as delta=0.1; got {text!r}.")
        if key in parsed:
            raise InvalidParameter(f"{option} gives {key} twice.")
        parsed[key] = value(given.strip())
    return parsed


def value(text: str) -> Any:
    """A parameter's value: JSON if it is that, numbers between commas, else the text itself."""
    if text.lower() == "none":
        return None
    for attempt in (text, f"[{text}]"):
        try:
            return msgspec.json.decode(attempt)
        except msgspec.DecodeError:
            continue
    return text
