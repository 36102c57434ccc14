"""States as named arrays: what lasts of a state, and what is scratch space.

A member called ``scratch`` holds what can be computed again from the rest. It is not saved, and
two states that differ in it alone are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["SCRATCH", "equal_states", "grow_state", "lasting_arrays"]

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
        array.dtype == others[name].dtype
        and array.shape == others[name].shape
        and array.tobytes() == others[name].tobytes()
        for name, array in arrays.items()
    )


def grow_state(state: Any, fresh: Any) -> None:
    """Copy a state into a ``fresh`` one with more arms, which come after those there are.

    Each array is copied into the corner of its larger counterpart, so that the new arms are as
    they are at the start.
    """
    larger = dict(lasting_arrays(fresh))
    for name, array in lasting_arrays(state):
        larger[name][tuple(slice(size) for size in array.shape)] = array
