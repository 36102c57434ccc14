"""Arrays without reference counts, which make a state of many arrays as cheap as local variables.

Numba counts references to every array, with an atomic instruction each time an array is read out
of a tuple. A *borrowed* state is the same state with arrays that have no owner, so that the
compiler sees that there is nothing to count: measured on the Multi-layer race, a round takes 54 ns
instead of 780.

A *handle* is a borrowed state stored in memory, so that a call from Python passes one address
instead of unpacking a tuple of many arrays.

A borrowed state does not keep its arrays alive. The code that borrows must keep the original: the
caller of an entry keeps the arguments, a handle keeps its state.
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
    """Refuse members other than arrays and numbers: lists or text would be freed while in use."""
    if isinstance(kind, types.BaseTuple):
        for member in kind.types:
            _refuse_owners(member)
    elif not isinstance(kind, types.Array) and default_manager[kind].contains_nrt_meminfo():
        raise NumbaTypeError(f"a state holds arrays and numbers; got {kind}")


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, types.Array):
        # A null meminfo marks memory that Numba does not manage. As it is a constant, LLVM
        # removes all reference counting of the array, which tests the pointer for null first.
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
"""Return the same (nested) tuple of arrays and numbers, with arrays that have no owner."""


class HandleType(types.Type):
    """Numba's type of a handle: one for each type of state."""

    def __init__(self, state: Any) -> None:
        self.state = state
        super().__init__(name=f"Handle({state})")


@register_model(HandleType)
class _HandleModel(models.OpaqueModel):
    """A handle in compiled code is a bare pointer."""


class Handle:
    """A state stored in memory, which Python passes to compiled code as one address."""

    __slots__ = ("_numba_type_", "address", "memory", "state")

    def __init__(self, state: Any, store_state: Callable[[Any, Any], None]) -> None:
        """Store a state in memory.

        Args:
            state: the state; the handle keeps it alive.
            store_state: a compiled function for this class of state that calls :func:`store`.
        """
        self.state = state
        kind = numba.typeof(state)
        self.memory = np.zeros(_WORDS_A_MEMBER * _count_members(kind), dtype=np.uint64)
        self.address = self.memory.ctypes.data
        self._numba_type_ = HandleType(kind)
        store_state(state, self.memory)


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
        # Borrowed again, although a borrowed state was stored: what is loaded from memory is not
        # a constant, and the compiler must see the null pointers to leave out the counting.
        state = builder.load(builder.bitcast(arguments[0], kind.as_pointer()))
        return _borrowed(context, builder, signature.return_type, state)

    return handle.state(handle), generate


opened: Callable[[Any], Any] = _opened
"""The borrowed state behind a handle."""
