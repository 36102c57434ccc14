"""Copies of states in compiled code, for a policy that goes back to its state of the start."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload

from armrace.kernels.compiling import CALLEE_OPTIONS


def copy_state(target: Any, source: Any) -> None:
    """Copy the numbers in all arrays of a state into another of the same shape.

    Args:
        target: the state whose arrays are overwritten.
        source: the state that they are copied from.
    """
    for old, new in zip(target, source, strict=True):
        if isinstance(old, np.ndarray):
            old[...] = new
        elif isinstance(old, tuple):
            copy_state(old, new)


@overload(copy_state, strict=False, jit_options=CALLEE_OPTIONS)
def _copy_compiled(target: Any, source: Any) -> Callable[..., None] | None:
    if not isinstance(target, types.BaseTuple):
        return None
    # Members are named one by one: compiled code cannot loop over members of different types.
    lines = ["    pass"]
    for place, kind in enumerate(target.types):
        if isinstance(kind, types.Array):
            lines.append(f"    target[{place}][...] = source[{place}]")
        elif isinstance(kind, types.BaseTuple):
            lines.append(f"    copy_state(target[{place}], source[{place}])")
    scope: dict[str, Any] = {"copy_state": copy_state, "__name__": __name__}
    exec("def copy(target, source):\n" + "\n".join(lines), scope)
    return scope["copy"]
