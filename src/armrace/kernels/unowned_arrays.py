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

from collections.abc import Callable, Iterator
from struct import pack_into
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.core.errors import NumbaTypeError
from numba.core.registry import cpu_target
from numba.extending import (
    NativeValue,
    intrinsic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np import arrayobj

__all__ = ["Handle", "borrow", "opened"]


@intrinsic
def _borrow(typing_context: Any, state: Any) -> Any:
    """Generate the state with arrays that have no owner."""
    _refuse_owners(state)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _borrowed(context, builder, signature.args[0], arguments[0])

    return state(state), generate


def _refuse_owners(kind: Any) -> None:
    """Refuse members other than arrays and numbers: lists or text would be freed while in use."""
    if isinstance(kind, types.BaseTuple):
        for member in kind.types:
            _refuse_owners(member)
    elif not isinstance(kind, (types.Array, types.Number, types.Boolean)):
        raise NumbaTypeError(f"a state holds arrays and numbers; got {kind}")


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """Return the value in compiled code with every array's owner replaced by null."""
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


class Handle(int):
    """The address of a state in memory, in the form that compiled code reads.

    A number, since that is what compiled code takes from Python most quickly. It keeps the state
    alive.
    """

    state: Any
    memory: npt.NDArray[np.uint8]
    _numba_type_: HandleType

    def __new__(cls, state: Any) -> Handle:
        """Store a state."""
        kind, size, offsets = _describe(state)
        memory = np.zeros(size, dtype=np.uint8)
        # Only addresses of arrays are written: what Python changes in them, compiled code sees.
        for member, offset in zip(_members(state), offsets, strict=True):
            _store(member, memory, offset)
        self = super().__new__(cls, memory.ctypes.data)
        self.state, self.memory, self._numba_type_ = state, memory, kind
        return self


@typeof_impl.register(Handle)
def _type_of_handle(handle: Handle, context: Any) -> HandleType:
    return handle._numba_type_


_described: dict[tuple[Any, ...], tuple[HandleType, int, tuple[int, ...]]] = {}
"""Types and layouts of the states that handles were made of, by their structure."""


def _describe(state: Any) -> tuple[HandleType, int, tuple[int, ...]]:
    """Return the type of a state's handle, the bytes of the state and where its members begin.

    Numba looks at every array of a state to find its type, which takes milliseconds for a policy
    with many of them. A service restores learners all the time, so the result is remembered.
    """
    structure = _structure(state)
    if structure not in _described:
        kind = numba.typeof(state)
        _described[structure] = (HandleType(kind), *_layout(kind))
    return _described[structure]


def _structure(state: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return all that Numba's type of a nested tuple of arrays and numbers depends on."""
    return type(state), *(
        _structure(member)
        if isinstance(member, tuple)
        else (member.dtype, member.ndim, *_flags(member))
        if isinstance(member, np.ndarray)
        # Numba gives an integer beyond 63 bits another type than the others.
        else (type(member), isinstance(member, int) and member.bit_length() > 63)
        for member in state
    )


def _flags(array: npt.NDArray[Any]) -> tuple[bool, ...]:
    flags = array.flags
    return flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned


def _members(state: Any) -> Iterator[Any]:
    """The arrays and numbers of a nested tuple, in order."""
    for member in state:
        if isinstance(member, tuple):
            yield from _members(member)
        else:
            yield member


def _layout(kind: Any) -> tuple[int, tuple[int, ...]]:
    """The bytes of a tuple in compiled code, and where each of its arrays and numbers begins."""
    _refuse_owners(kind)
    context = cpu_target.target_context
    compiled, data = context.get_value_type(kind), context.codegen().target_data
    return compiled.get_abi_size(data), tuple(_offsets(kind, compiled, data, 0))


def _offsets(kind: Any, compiled: Any, data: Any, start: int) -> Iterator[int]:
    """Yield where each array and number of a nested tuple begins, in bytes."""
    for position, member in enumerate(kind.types):
        if isinstance(compiled, ir.ArrayType):  # a tuple whose members are all of one type
            inner, offset = compiled.element, position * compiled.element.get_abi_size(data)
        else:
            inner, offset = compiled.elements[position], compiled.get_element_offset(data, position)
        if isinstance(member, types.BaseTuple):
            yield from _offsets(member, inner, data, start + offset)
        else:
            yield start + offset


def _store(member: Any, memory: npt.NDArray[np.uint8], offset: int) -> None:
    """Write an array's description, or a number, as compiled code lays it out in memory."""
    if isinstance(member, np.ndarray):
        # Numba's array: its owner and parent (none), size, bytes an item, data, shape and strides.
        form = f"@{5 + 2 * member.ndim}q"
        start = member.__array_interface__["data"][0]
        fixed = (0, 0, member.size, member.itemsize, start)
        pack_into(form, memory.data, offset, *fixed, *member.shape, *member.strides)
    else:
        number = np.asarray(member)
        memory[offset : offset + number.nbytes] = number.reshape(1).view(np.uint8)


@unbox(HandleType)
def _unbox_handle(kind: Any, handle: Any, c: Any) -> NativeValue:
    return NativeValue(c.pyapi.long_as_voidptr(handle))


@intrinsic
def _opened(typing_context: Any, handle: Any) -> Any:
    """Generate the load of a state from the address that a handle is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = context.get_value_type(signature.return_type)
        # Borrowed again, although arrays are stored without an owner: what is loaded from memory is
        # not a constant, and the compiler must see the null pointers to leave out the counting.
        state = builder.load(builder.bitcast(arguments[0], kind.as_pointer()))
        return _borrowed(context, builder, signature.return_type, state)

    return handle.state(handle), generate


opened: Callable[[Any], Any] = _opened
"""The borrowed state behind a handle."""
