"""Declarations of the values that the arrays of a state may hold.

Compiled code does not check bounds: it indexes, loops and divides with what a state holds. A
state that is read from a snapshot is therefore checked against these declarations before compiled
code sees it. A class declares each array by :func:`declare`, and what must
agree between arrays by :func:`relation`. Arrays without a declaration get :data:`NUMBER`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from armrace.kernels.states import SCRATCH

C = TypeVar("C", bound=type)
Relation = Callable[[Any, Any, "Room"], Iterator[str]]

_LARGEST_INTEGER = 2**62
_LARGE = 1e250
"""The largest number allowed: products of two such numbers may overflow, but no number is infinite.
"""
_ROUNDING = 1e-9


class Room(NamedTuple):
    """The size of the problem that a state belongs to, and how far it has come."""

    arms: int
    layers: int
    decisions: int
    rewards: int
    """Decisions that have had their reward, or are known never to have one."""

    @property
    def minus_decisions(self) -> int:
        """The least value of a count from which (possibly forged) drops are subtracted."""
        return -self.decisions


class Declaration(Protocol):
    """What one array may hold."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        """Whether the array holds only values that are allowed.

        ``fresh`` is its counterpart in a state before the first round, ``owner`` the state or
        the array of records that the array is a member of.
        """
        ...


class Span(NamedTuple):
    """Numbers from ``low`` to ``high``, both included; text names a member of :class:`Room`."""

    low: float | str
    high: float | str
    below: int = 0
    """Subtracted from ``high``: 1 for the last index of ``high`` items."""
    infinite: bool = False
    """Whether the infinities are allowed, too."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        low, high = (
            getattr(room, end) if isinstance(end, str) else end for end in (self.low, self.high)
        )
        inside = (array >= low) & (array <= high - self.below)  # both are false for NaN
        if self.infinite:
            inside |= np.isinf(array)
        return bool(inside.all())


class SumOf(NamedTuple):
    """Sums of as many rewards in [0, 1] as the array ``counts`` of the same owner says."""

    counts: str

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        return bool(((array >= 0.0) & (array <= getattr(owner, self.counts))).all())


class Constant(NamedTuple):
    """The same as in a fresh state: shares, rules, rates."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        return array.tobytes() == fresh.tobytes()


class Probabilities(NamedTuple):
    """Probabilities that sum to 1."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        return UNIT.admits(array, fresh, owner, room) and sums_to_one(array)


class Number(NamedTuple):
    """Numbers that are safe to compute with: no NaN, and no integers close to overflow."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        if array.dtype.kind == "f":
            return not np.isnan(array).any()
        if array.dtype.kind == "i":
            return bool(((array >= -1) & (array <= _LARGEST_INTEGER)).all())
        return True


class Finite(NamedTuple):
    """Numbers other than NaN and the infinities."""

    def admits(self, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
        return bool(np.isfinite(array).all())


CONSTANT = Constant()
NUMBER = Number()
FINITE = Finite()
PROBABILITIES = Probabilities()
COUNT = Span(0, "decisions")
"""How many decisions there were of some kind, or the number of a round."""
REWARD_COUNT = Span(0, "rewards")
"""How many rewards came of some kind."""
ROUND_OR_NEVER = Span(-1, "decisions")
ARM = Span(0, "arms", below=1)
ARM_OR_NONE = Span(-1, "arms", below=1)
LAYER_OR_NONE = Span(-1, "layers", below=1)
UNIT = Span(0.0, 1.0)
AMOUNT = Span(0.0, _LARGE)
LIMITED = Span(-_LARGE, _LARGE)

_DECLARATIONS: dict[type, dict[str, Any]] = {}
_RELATIONS: dict[type, Relation] = {}


def declare(**arrays: Declaration | Mapping[str, Declaration]) -> Callable[[C], C]:
    """Declare what the arrays of the decorated class of states may hold.

    For an array of records, give a mapping from the names of their fields.

    Args:
        arrays: for each array of the class, by name, what it may hold.
    """

    def register(state_class: C) -> C:
        unknown = arrays.keys() - set(state_class._fields)  # type: ignore[attr-defined]
        if unknown:
            raise TypeError(f"{state_class.__name__} has no {', '.join(sorted(unknown))}")
        _DECLARATIONS[state_class] = dict(arrays)
        return state_class

    return register


def relation(state_class: type) -> Callable[[Relation], Relation]:
    """Register a function that yields the names of arrays that contradict others.

    It is called with the state, a fresh one and the :class:`Room`, after all arrays have been
    found to hold what is declared for them.

    Args:
        state_class: the class of the states.
    """

    def register(function: Relation) -> Relation:
        _RELATIONS[state_class] = function
        return function

    return register


def sums_to_one(array: np.ndarray) -> bool:
    """Whether probabilities add up to 1, rounding errors aside."""
    return bool(abs(float(array.sum()) - 1.0) <= _ROUNDING)


def unsound_array(state: Any, fresh: Any, room: Room, prefix: str = "") -> str | None:
    """Return the name of an array with values that are not allowed, or ``None``."""
    declared = _DECLARATIONS.get(type(state), {})
    for name, member in zip(state._fields, state, strict=True):
        if name == SCRATCH:
            continue
        found = None
        counterpart, declaration = getattr(fresh, name), declared.get(name)
        if isinstance(member, np.ndarray):
            found = _unsound_member(name, member, counterpart, declaration, state, room)
        elif hasattr(member, "_fields"):
            found = unsound_array(member, counterpart, room, f"{name}.")
        if found is not None:
            return prefix + found
    related = _RELATIONS.get(type(state))
    found = None if related is None else next(related(state, fresh, room), None)
    return None if found is None else prefix + found


def _unsound_member(
    name: str, array: np.ndarray, fresh: np.ndarray, declaration: Any, owner: Any, room: Room
) -> str | None:
    """Return the name of an array, or of the field of its records, that is not allowed."""
    if array.dtype.names is None:
        return None if _admits(declaration, array, fresh, owner, room) else name
    fields = {} if declaration is None else declaration
    for field in array.dtype.names:
        if not _admits(fields.get(field), array[field], fresh[field], array, room):
            return f"{name}.{field}"
    return None


def _admits(declaration: Any, array: np.ndarray, fresh: np.ndarray, owner: Any, room: Room) -> bool:
    if array.dtype.kind == "b" and (np.ascontiguousarray(array).view(np.uint8) > 1).any():
        return False  # true is 1; compiled code may take other bytes for neither
    chosen = NUMBER if declaration is None else declaration
    return bool(chosen.admits(array, fresh, owner, room))
