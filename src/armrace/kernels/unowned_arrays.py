"""Arrays without owners: what makes a state of many arrays as cheap as local variables.

Numba counts references to every array it touches, with an atomic instruction each time an
array is read out of a tuple. A *borrowed* state is the same state with arrays that have no
owner to count for, and the compiler sees that there is nothing to count: measured on the
Multi-layer race, 54 ns a round where counting took 780.

A *handle* is a borrowed state put down in memory, so that a call from Python passes one
address instead of unpacking a tuple of many arrays.

Whoever borrows keeps the original alive: an entry's arguments are kept by its caller, a
handle's state by the handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import default_manager
from numba.core.errors import NumbaTypeError
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    register_model,
    unbox,
)
from numba.np import arrayobj

__all__ = ["Handle", "borrow", "opened", "store"]

_WORDS_A_MEMBER = 16
"""Room for an array of up to five dimensions in its compiled form."""


@intrinsic
def _borrow(typing_context: Any, state: Any) -> Any:
    _refuse_owners(state)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _borrowed(context, builder, signature.args[0], arguments[0])

    return state(state), generate


def _refuse_owners(kind: Any) -> None:
    """Only arrays can be borrowed; text, lists and the like would be freed while in use."""
    if isinstance(kind, types.BaseTuple):
        for member in kind.types:
            _refuse_owners(member)
    elif not isinstance(kind, types.Array) and default_manager[kind].contains_nrt_meminfo():
        raise NumbaTypeError(f"a state holds arrays and numbers; got {kind}")


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = arrayobj.make_array(kind)(context, builder, value)
        array.meminfo = ir.Constant(array.meminfo.type, None)
        array.parent = ir.Constant(array.parent.type, None)
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        members = [
            _borrowed(context, builder, member, builder.extract_value(value, position))
            for position, member in enumerate(kind.types)
        ]
        return context.make_tuple(builder, kind, members)
    return value


borrow: Callable[[Any], Any] = _borrow
"""The same (nested) tuple of arrays and numbers, with arrays that nobody owns."""


class HandleType(types.Type):
    """Numba's type of a handle: one for each type of state."""

    def __init__(self, state: Any) -> None:
        self.state = state
        super().__init__(name=f"Handle({state})")


@register_model(HandleType)
class _HandleModel(models.OpaqueModel):
    """A handle in compiled code is a bare pointer."""


class Handle:
    """A state put down in memory; what the online learner passes to compiled code."""

    __slots__ = ("_numba_type_", "address", "memory", "state")

    def __init__(self, state: Any, put_down: Callable[[Any, Any], None]) -> None:
        """Let ``put_down``, compiled for this class of state, :func:`store` it in memory."""
        self.state = state
        kind = numba.typeof(state)
        self.memory = np.zeros(_WORDS_A_MEMBER * _count_members(kind), dtype=np.uint64)
        self.address = self.memory.ctypes.data
        self._numba_type_ = HandleType(kind)
        put_down(state, self.memory)


def _count_members(kind: Any) -> int:
    if isinstance(kind, types.BaseTuple):
        return sum(_count_members(member) for member in kind.types)
    return 1


@unbox(HandleType)
def _unbox_handle(kind: Any, handle: Any, c: Any) -> NativeValue:
    address = c.pyapi.object_getattr_string(handle, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return NativeValue(pointer)


@intrinsic
def _store(typing_context: Any, state: Any, memory: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = arrayobj.make_array(signature.args[1])(context, builder, arguments[1])
        target = builder.bitcast(array.data, arguments[0].type.as_pointer())
        builder.store(arguments[0], target)
        return context.get_dummy_value()

    return types.void(state, memory), generate


store: Callable[[Any, Any], None] = _store
"""Write a borrowed state into an array of words."""


@intrinsic
def _opened(typing_context: Any, handle: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        state = builder.load(builder.bitcast(arguments[0], kind.as_pointer()))
        return _borrowed(context, builder, signature.return_type, state)

    return handle.state(handle), generate


opened: Callable[[Any], Any] = _opened
"""The borrowed state behind a handle."""
