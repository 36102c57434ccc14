"""States as named arrays, without scratch space: to save, compare and enlarge them.

A member called ``scratch`` holds what can be recomputed from the rest. It is not saved, and two
states that differ only in it are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

F = TypeVar("F", bound=Callable[[Any, Any], None])
L = TypeVar("L", bound=Callable[[Any], Iterator[tuple[Any, Any]]])

SCRATCH = "scratch"


def lasting_arrays(state: Any, prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of a (nested) state by dotted name, without scratch space.

    An array of records yields an array for each of their fields.
    """
    for name, member in zip(state._fields, state, strict=True):
        if name == SCRATCH:
            continue
        if isinstance(member, np.ndarray):
            for field in member.dtype.names or ():
                yield f"{prefix}{name}.{field}", member[field]
            if member.dtype.names is None:
                yield prefix + name, member
        elif hasattr(member, "_fields"):
            yield from lasting_arrays(member, f"{prefix}{name}.")


def equal_states(one: Any, other: Any) -> bool:
    """Whether two states hold the same numbers, to the last bit, scratch space aside."""
    arrays, others = dict(lasting_arrays(one)), dict(lasting_arrays(other))
    return arrays.keys() == others.keys() and all(
        # Bytes, not numbers: NaN equals itself then, and 0 differs from -0.
        array.dtype == others[name].dtype
        and array.shape == others[name].shape
        and array.tobytes() == others[name].tobytes()
        for name, array in arrays.items()
    )


_LARGEST_INTEGER = 2**62
_INDEX_LIMITS: dict[type, Callable[[Any], Iterator[tuple[Any, Any]]]] = {}


def index_limits(state_class: type) -> Callable[[L], L]:
    """Register what the indices within a state must stay below, which compiled code does not check.

    The decorated function is called with a state and yields pairs: an array of indices, and the
    number (or an array of numbers) that all of them must be below.

    Args:
        state_class: the class of the states.
    """

    def register(function: L) -> L:
        _INDEX_LIMITS[state_class] = function
        return function

    return register


def unsafe_array(state: Any, fresh: Any) -> str | None:
    """Return the name of an array of a state that compiled code should not see, or ``None``.

    Its counterpart in a ``fresh`` state says what is expected. Numbers are never NaN, and finite if
    all of the fresh ones are; integers are no less than the least of the fresh ones or 0, and far
    from overflow; truth values are 0 or 1. Indices stay below the limits of :func:`index_limits`.
    """
    expected = dict(lasting_arrays(fresh))
    for name, array in lasting_arrays(state):
        if not _is_safe(array, expected[name]):
            return name
    return _index_out_of_range(state)


def _is_safe(array: np.ndarray, fresh: np.ndarray) -> bool:
    if array.dtype.kind == "b":
        return not (np.ascontiguousarray(array).view(np.uint8) > 1).any()
    if array.dtype.kind == "f":
        unusual = ~np.isfinite(array) if np.isfinite(fresh).all() else np.isnan(array)
        return not unusual.any()
    least = min(0, fresh.min(initial=0))
    return bool(((array >= least) & (array <= _LARGEST_INTEGER)).all())


def _index_out_of_range(state: Any) -> str | None:
    for name, member in zip(state._fields, state, strict=True):
        found = _index_out_of_range(member) if hasattr(member, "_fields") else None
        if found is not None:
            return f"{name}.{found}"
    limits = _INDEX_LIMITS.get(type(state))
    for indices, limit in limits(state) if limits is not None else ():
        if (indices >= np.asarray(limit)).any():
            arrays = lasting_arrays(state)
            return next((n for n, each in arrays if np.shares_memory(each, indices)), "indices")
    return None


_GROWN_BY: dict[type, Callable[[Any, Any], None]] = {}


def grown_by(state_class: type) -> Callable[[F], F]:
    """Register what completes a grown state of this class, if a copy of its arrays does not.

    The decorated function is called with the grown state and the old one.

    Args:
        state_class: the class of the states.
    """

    def register(function: F) -> F:
        _GROWN_BY[state_class] = function
        return function

    return register


def grow_state(state: Any, fresh: Any) -> None:
    """Copy a state into a ``fresh`` one with more arms; the new arms come last.

    Each array is copied into the corner of its larger counterpart, so that the new arms are in
    their initial state. Where arms share an array, functions registered by :func:`grown_by` make
    room for the new ones.
    """
    larger = dict(lasting_arrays(fresh))
    for name, array in lasting_arrays(state):
        larger[name][tuple(slice(size) for size in array.shape)] = array
    complete_grown(state, fresh)


def complete_grown(state: Any, grown: Any) -> None:
    """Call the functions of :func:`grown_by`, those of inner states first."""
    for old, member in zip(state, grown, strict=True):
        # A stack grows row by row, see :mod:`armrace.kernels.leaves`.
        if hasattr(member, "_fields") and not hasattr(grown, "leaf_count"):
            complete_grown(old, member)
    if type(grown) in _GROWN_BY:
        _GROWN_BY[type(grown)](grown, state)


def raw_arrays(state: Any) -> list[np.ndarray]:
    """Return all arrays of a state as bytes, scratch space included: it fits the rest."""
    found: list[np.ndarray] = []
    for member in state:
        if isinstance(member, np.ndarray):
            found.append(np.asarray(member).reshape(-1).view(np.uint8))
        elif hasattr(member, "_fields"):
            found += raw_arrays(member)
    return found
