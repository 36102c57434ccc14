"""States in memory, whose members compiled code reads where it needs them.

Numba passes a tuple by value: it takes the tuple apart into all of its numbers and pointers, some
140 for a race, puts it together again in every function, and counts references to each array. Most
of the code that the compiler had to read did nothing else.

A *handle* is a state that Python has written into memory. Compiled code gets its address, passes
the address on, and loads a member when it is named. Arrays that are read this way have no owner, so
that no references are counted: measured on the Multi-layer race, a round with counts takes 780 ns
in place of 54. The memory does not change while compiled code runs, and every load says so; the
compiler can therefore move loads out of loops.

A handle keeps its state, and with it the arrays, alive. The caller of compiled code must keep the
handle.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from ctypes import addressof, c_char, c_void_p
from struct import pack_into
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import NumbaTypeError
from numba.extending import (
    NativeValue,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np import arrayobj
from numba.np.numpy_support import as_dtype

_WORD = 8
"""Bytes of a pointer and of an integer. Every member begins at a multiple of it."""


class StateType(types.NamedTuple):
    """Numba's type of a state behind a handle: a named tuple that is an address.

    Attributes:
        state: Numba's type of the tuple that Python holds.
        size: the bytes of the state in memory.
        offsets: where each member begins, in bytes.
        form: how all of it is stored, for :mod:`struct`.
    """

    def __init__(self, state: Any) -> None:
        members = tuple(map(_member_type, state.types))
        super().__init__(members, state.instance_class)
        self.state = state
        starts = np.cumsum([0, *map(_size, members)])
        self.size, self.offsets = int(starts[-1]), tuple(starts[:-1].tolist())
        self.form = "@" + "".join(map(_form, members))
        # The names of types are part of the names of functions: in full they would be longer than
        # the functions themselves.
        digest = hashlib.sha256(str(state).encode()).hexdigest()[:16]
        self.name = f"{state.instance_class.__name__}-{digest}"
        inner = [kind.classes for kind in members if isinstance(kind, StateType)]
        self.classes: tuple[Any, ...] = (state.instance_class, *inner)

    @property
    def key(self) -> Any:
        """What tells types apart: names alone do not, since a notebook may define a class again."""
        return self.name, self.classes


def _member_type(kind: Any) -> Any:
    """Return the type that a member has in compiled code; refuse what has an owner."""
    if isinstance(kind, types.BaseNamedTuple):
        return StateType(kind)
    if isinstance(kind, types.BaseTuple):
        for member in kind.types:
            _member_type(member)
    elif not isinstance(kind, (types.Array, types.Integer, types.Float, types.Boolean)):
        # Lists or text would be freed while in use.
        raise NumbaTypeError(f"a state holds arrays, real numbers and tuples of them; got {kind}")
    return kind


def _size(kind: Any) -> int:
    """The bytes that a member takes in memory."""
    if isinstance(kind, StateType):
        return int(kind.size)
    if isinstance(kind, types.BaseTuple):
        return sum(map(_size, kind.types))
    if isinstance(kind, types.Array):
        return _WORD * (1 + 2 * kind.ndim)
    return -(-as_dtype(kind).itemsize // _WORD) * _WORD


def _form(kind: Any) -> str:
    """How a member is stored: of an array its address, its shape and its strides."""
    if isinstance(kind, types.BaseTuple):
        return "".join(map(_form, kind.types))
    if isinstance(kind, types.Array):
        return f"{1 + 2 * kind.ndim}q"
    number = as_dtype(kind)
    return f"{number.char}{_size(kind) - number.itemsize}x"


@register_model(StateType)
class _StateModel(models.OpaqueModel):
    """A state in compiled code is the address of its memory."""

    def from_argument(self, builder: Any, value: Any) -> Any:
        """Tell the compiler that all of the memory can be read, so that loads can be moved."""
        if isinstance(value, ir.Argument):
            value.attributes.dereferenceable = max(1, self._fe_type.size)
            value.attributes.align = _WORD
        return value


@lower_getattr_generic(StateType)
def _load_attribute(context: Any, builder: Any, kind: Any, state: Any, name: str) -> Any:
    return _load_member(context, builder, kind, state, kind.fields.index(name))


@lower_builtin("static_getitem", StateType, types.IntegerLiteral)
@lower_builtin("static_getitem", StateType, types.intp)
def _load_item(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    state, position = arguments
    return _load_member(context, builder, signature.args[0], state, position)


def _load_member(context: Any, builder: Any, kind: Any, state: Any, position: int) -> Any:
    return _load_value(context, builder, kind.types[position], state, kind.offsets[position])


def _load_value(context: Any, builder: Any, kind: Any, state: Any, offset: int) -> Any:
    """Generate a member of a state: the address of an inner state, else what is stored."""
    if isinstance(kind, StateType):
        return _at(builder, state, offset)
    if isinstance(kind, types.BaseTuple):
        values = []
        for member in kind.types:
            values.append(_load_value(context, builder, member, state, offset))
            offset += _size(member)
        return context.make_tuple(builder, kind, values)
    if isinstance(kind, types.Array):
        return _load_array(context, builder, kind, state, offset)
    return _load(builder, state, offset, context.get_value_type(kind))


def _load_array(context: Any, builder: Any, kind: Any, state: Any, offset: int) -> Any:
    array = arrayobj.make_array(kind)(context, builder)
    pointer, word = array.data.type, context.get_value_type(types.intp)
    words = [
        _load(builder, state, offset + _WORD * (1 + place), word) for place in range(2 * kind.ndim)
    ]
    itemsize = context.get_constant(types.intp, as_dtype(kind.dtype).itemsize)
    shape, strides = words[: kind.ndim], words[kind.ndim :]
    if kind.ndim == 1 and kind.layout == "C":
        strides = [itemsize]
    # A null meminfo marks memory that Numba does not manage. As it is a constant, LLVM removes all
    # reference counting of the array, which tests the pointer for null first.
    arrayobj.populate_array(
        array,
        data=_load(builder, state, offset, pointer),
        shape=cgutils.pack_array(builder, shape),
        strides=cgutils.pack_array(builder, strides),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def _at(builder: Any, state: Any, offset: int) -> Any:
    place = ir.Constant(ir.IntType(64), offset)
    return builder.gep(state, [place], inbounds=True) if offset else state


def _load(builder: Any, state: Any, offset: int, kind: Any) -> Any:
    """Generate a load from memory that does not change while compiled code runs."""
    pointer = builder.bitcast(_at(builder, state, offset), kind.as_pointer())
    loaded = builder.load(pointer)
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    return loaded


def _address_of(array: npt.NDArray[Any]) -> int:
    """Return where the data of an array begin.

    NumPy's own ways to ask for it take a microsecond, and a run has some fifty arrays. The pointer
    is the first member of NumPy's C structure after the head of every Python object; compiled
    extensions, Numba among them, rely on that.
    """
    return c_void_p.from_address(id(array) + object.__basicsize__).value or 0


class Handle(int):
    """The address of a state in memory, in the form that compiled code reads.

    A number, since that is what compiled code takes from Python most quickly. It keeps the state
    alive.
    """

    state: Any
    memory: bytearray
    _numba_type_: StateType

    def __new__(cls, state: Any) -> Handle:
        """Store a state."""
        structure: list[Any] = []
        values: list[Any] = []
        # Only addresses of arrays are written: what Python changes in them, compiled code sees.
        _flatten(state, structure, values)
        kind = _type_of(state, tuple(structure))
        memory = bytearray(max(_WORD, kind.size))
        pack_into(kind.form, memory, 0, *values)
        self = super().__new__(cls, addressof(c_char.from_buffer(memory)))
        self.state, self.memory, self._numba_type_ = state, memory, kind
        return self


def call_entry(entry: Callable[..., Any], *arguments: Any) -> Any:
    """Call a compiled function; every tuple among the arguments is passed as a handle."""
    return entry(*[Handle(each) if isinstance(each, tuple) else each for each in arguments])


@typeof_impl.register(Handle)
def _type_of_handle(handle: Handle, context: Any) -> StateType:
    return handle._numba_type_


_known_types: dict[tuple[Any, ...], StateType] = {}
"""Types of the states that handles were made of, by their structure."""


def _type_of(state: Any, structure: tuple[Any, ...]) -> StateType:
    """Return the type of a state behind a handle.

    Numba looks at every array of a state to find its type, which takes milliseconds for a policy
    with many of them. A service restores learners all the time, so the result is remembered.
    """
    if structure not in _known_types:
        _known_types[structure] = StateType(numba.typeof(state))
    return _known_types[structure]


def _flatten(state: tuple[Any, ...], structure: list[Any], values: list[Any]) -> None:
    """Collect all that Numba's type of a nested tuple depends on, and the values to be stored.

    Both are collected in one pass, since short runs spend much of their time here.
    """
    structure.append(type(state))
    for member in state:
        if isinstance(member, np.ndarray):
            structure += (member.dtype, member.ndim, member.flags.num)
            values.append(_address_of(member))
            values += member.shape
            values += member.strides
        elif isinstance(member, tuple):
            _flatten(member, structure, values)
        else:
            # Numba gives an integer beyond 63 bits another type than the others.
            structure += (type(member), isinstance(member, int) and member.bit_length() > 63)
            values.append(member)
    structure.append(None)  # where the tuple ends


@unbox(StateType)
def _unbox_handle(kind: Any, handle: Any, c: Any) -> NativeValue:
    return NativeValue(c.pyapi.long_as_voidptr(handle))
