"""The parameters of a class of attacks as a space to search.

The space is read from the declarations of the parameters: numbers within limits, choices among
words, and yes or no. Whatever else a class declares keeps the value of the candidate that is
varied. So every class of attacks, also a user's own, is a family that can be searched.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from armrace.adversaries import Adversary
from armrace.errors import ArmraceError
from armrace.limits import Limits
from armrace.specification import declarations

A = TypeVar("A", bound=Adversary)

_SMALLEST_SHARE = 1e-5
"""On a logarithmic scale, numbers below this share of the largest count as the smallest."""

_CHANCE_OF_DEFAULT = 0.4
_CHANCE_OF_RESET = 0.15
_CHANCE_OF_CHANGE = 0.3
_DIGITS = 3
"""Numbers have this many significant digits, so that an attack can be read and typed."""


class Range(NamedTuple):
    """A number within limits."""

    low: float
    high: float
    is_log: bool
    is_whole: bool

    def at(self, place: float) -> float:
        """The number at a place in [0, 1]."""
        place = min(1.0, max(0.0, place))
        if self.is_log:
            # A logarithmic scale never reaches 0, which is the least value of most such parameters.
            value = self.low if place == 0.0 else self.high * _SMALLEST_SHARE ** (1.0 - place)
        else:
            value = self.low + place * (self.high - self.low)
        if self.is_whole:
            return round(value)
        return float(min(self.high, max(self.low, float(f"{value:.{_DIGITS}g}"))))

    def place(self, value: float) -> float:
        """The place of a number in [0, 1], the inverse of :meth:`at`."""
        if self.is_log:
            least = self.high * _SMALLEST_SHARE
            return 0.0 if value <= least else 1.0 - math.log(value / self.high, _SMALLEST_SHARE)
        return (value - self.low) / (self.high - self.low)


class Choice(NamedTuple):
    """One of several values."""

    values: tuple[Any, ...]


Space = Mapping[str, Range | Choice]


@cache
def space_of(family: type[Adversary]) -> Space:
    """Return the parameters of a class of attacks that can be varied."""
    found: dict[str, Range | Choice] = {}
    scales: Mapping[str, str] = getattr(family, "scales", {})
    for name, (kind, note) in declarations(family).items():
        if typing.get_origin(kind) is typing.Literal:
            found[name] = Choice(typing.get_args(kind))
        elif kind is bool:
            found[name] = Choice((False, True))
        elif kind in {int, float} and isinstance(note, Limits) and _is_bounded(note):
            is_log = scales.get(name) == "log"
            low = note.high * _SMALLEST_SHARE if note.low_open else note.low
            found[name] = Range(float(low), float(note.high), is_log, kind is int)
    return found


def _is_bounded(limits: Limits) -> bool:
    return math.isfinite(limits.low) and math.isfinite(limits.high) and limits.low < limits.high


def sample(family: type[A], generator: np.random.Generator) -> A:
    """Draw an attack: each parameter has its default value or a random one."""

    def draw(name: str, part: Range | Choice, value: Any) -> Any:
        if generator.random() < _CHANCE_OF_DEFAULT and not isinstance(part, Choice):
            return value
        if isinstance(part, Choice):
            return part.values[generator.integers(len(part.values))]
        return part.at(generator.random())

    return _varied(family(), draw)


def mutate(attack: A, generator: np.random.Generator, step: float) -> A:
    """Change some parameters of an attack."""
    names = list(space_of(type(attack)))
    if not names:
        return attack
    changed = {name for name in names if generator.random() < _CHANCE_OF_CHANGE}
    changed = changed or {names[generator.integers(len(names))]}
    default = {field.name: field.default for field in msgspec.structs.fields(type(attack))}

    def draw(name: str, part: Range | Choice, value: Any) -> Any:
        if name not in changed:
            return value
        if isinstance(part, Choice):
            return part.values[generator.integers(len(part.values))]
        if generator.random() < _CHANCE_OF_RESET and default[name] is not msgspec.NODEFAULT:
            return default[name]
        return part.at(_reflected(part.place(value) + step * generator.normal()))

    return _varied(attack, draw)


def cross(one: A, other: A, generator: np.random.Generator) -> A:
    """Take each parameter from one of two attacks of the same class."""

    def draw(name: str, part: Range | Choice, value: Any) -> Any:
        return getattr(other, name) if generator.random() < 0.5 else value

    return _varied(one, draw)


def _varied(attack: A, draw: Any) -> A:
    """Draw each parameter; the attack itself is returned if the class refuses the combination."""
    values = {field: getattr(attack, field) for field in attack.__struct_fields__}
    for name, part in space_of(type(attack)).items():
        values[name] = draw(name, part, values[name])
    try:
        return type(attack)(**values).canonical()  # type: ignore[return-value]
    except ArmraceError:
        return attack


def _reflected(place: float) -> float:
    """Fold a place that left [0, 1] back into it."""
    # Folded, not clipped: else a good part of all steps would end at the limits.
    place = abs(place) % 2.0
    return 2.0 - place if place > 1.0 else place
