"""Decisions as Python objects that compiled code reads and makes itself.

A live call takes a fraction of a microsecond. To check the types of a decision's members in Python,
spread them over arguments and make tuples of what comes back would take several times as long. So
a call takes and returns whole decisions, as tuples ``(number, label, ticket)``.

Compiled code here calls Python's C API: only entries that hold the interpreter lock may use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import (
    NativeValue,
    box,
    intrinsic,
    make_attribute_wrapper,
    models,
    register_model,
    unbox,
)
from numba.np.numpy_support import from_dtype

from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import Ticket

DECISION_CLASS, TICKET_CLASS, FIRST_LABEL = 0, 1, 2
"""Positions in what :func:`find_objects` returns."""

NO_ROOM = -1
"""The number of a decision that was not made because there is no room to record it."""

_TICKET = [(name, from_dtype(DECISION[name])) for name in Ticket._fields]
TICKET = types.NamedTuple([member for _, member in _TICKET], Ticket)
"""The type of a ticket whose members have the types that records have."""
_DECISION = [("number", types.int64), ("label", types.int64), *_TICKET]
_CLASSES = [("decision_class", types.int64), ("ticket_class", types.int64)]
_TP_NEW = 65
"""The slot of a type's ``__new__`` in Python's stable interface."""


def find_objects(decision_class: type, labels: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Return the addresses of the objects of which decisions are made."""
    return np.array([id(decision_class), id(Ticket), *map(id, labels)], dtype=np.int64)


class _GivenDecision(types.Type):
    def __init__(self) -> None:
        super().__init__(name="GivenDecision")


class _GivenReward(types.Type):
    def __init__(self) -> None:
        super().__init__(name="GivenReward")


class _MadeDecision(types.Type):
    def __init__(self) -> None:
        super().__init__(name="MadeDecision")


GIVEN_DECISION = _GivenDecision()
"""The type of an argument that should be a decision. Its ``is_plain`` says whether it is a tuple of
plain ints and floats; if not, its other members mean nothing."""
GIVEN_REWARD = _GivenReward()
"""The type of an argument that should be a reward. Its ``value`` is NaN if it is no number, or one
of a type that Python has to convert."""
_MADE_DECISION = _MadeDecision()


@register_model(_GivenDecision)
class _GivenDecisionModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("is_plain", types.boolean), *_DECISION])


@register_model(_GivenReward)
class _GivenRewardModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("value", types.float64)])


@register_model(_MadeDecision)
class _MadeDecisionModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [*_CLASSES, *_DECISION])


for _name in ("is_plain", *dict(_DECISION)):
    make_attribute_wrapper(_GivenDecision, _name, _name)
make_attribute_wrapper(_GivenReward, "value", "value")


# --- from Python --------------------------------------------------------------------------


@unbox(_GivenDecision)
def _read_decision(kind: Any, decision: Any, c: Any) -> NativeValue:
    """Generate code that reads the numbers of a decision out of its tuples."""
    given = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    given.is_plain = cgutils.false_bit
    api, builder = c.pyapi, c.builder
    with builder.if_then(_has_size(api, builder, decision, 3)):
        number, label, ticket = (api.tuple_getitem(decision, place) for place in range(3))
        with builder.if_then(_has_size(api, builder, ticket, len(_TICKET))):
            members = [(number, "number", types.int64)]
            for place, (name, member) in enumerate(_TICKET):
                members.append((api.tuple_getitem(ticket, place), name, member))
            # All types are checked first: to read a number of another type may run Python code.
            are_exact = cgutils.true_bit
            for found, _, member in members:
                is_exact = _is_of_type(api, builder, found, _PYTHON_TYPES[member])
                are_exact = builder.and_(are_exact, is_exact)
            with builder.if_then(are_exact):
                for found, name, member in members:
                    is_whole = member == types.int64
                    read = api.long_as_longlong if is_whole else api.float_as_double
                    setattr(given, name, read(found))
                # No reference is taken: the caller's decision keeps its label alive for the call.
                given.label = builder.ptrtoint(label, ir.IntType(64))
                # An integer of more than 64 bits is an error by now.
                given.is_plain = cgutils.is_null(builder, api.err_occurred())
    with builder.if_then(builder.not_(given.is_plain), likely=False):
        api.err_clear()
    return NativeValue(given._getvalue())


_PYTHON_TYPES = {types.int64: "PyLong_Type", types.float64: "PyFloat_Type"}


@unbox(_GivenReward)
def _read_reward(kind: Any, reward: Any, c: Any) -> NativeValue:
    """Generate code that reads a reward: a float, or an int or bool as one."""
    given = cgutils.create_struct_proxy(kind)(c.context, c.builder)
    api, builder = c.pyapi, c.builder
    given.value = ir.Constant(ir.DoubleType(), float("nan"))
    is_number = cgutils.false_bit
    for name in ("PyFloat_Type", "PyLong_Type", "PyBool_Type"):
        is_number = builder.or_(is_number, _is_of_type(api, builder, reward, name))
    with builder.if_then(is_number, likely=True):
        given.value = api.float_as_double(reward)
        with builder.if_then(cgutils.is_not_null(builder, api.err_occurred()), likely=False):
            api.err_clear()  # an integer beyond all floats; its value is -1 then
    return NativeValue(given._getvalue())


def _has_size(api: Any, builder: Any, found: Any, size: int) -> Any:
    """Whether an object is a tuple of this size."""
    integer = ir.IntType(32)
    kind = ir.FunctionType(integer, [api.pyobj, api.pyobj])
    function = api._get_function(kind, name="PyType_IsSubtype")
    told = builder.call(function, [api.get_type(found), api.get_c_object("PyTuple_Type")])
    answer = cgutils.alloca_once_value(builder, cgutils.false_bit)
    # To ask anything else for its size as a tuple would be an error, which takes a microsecond.
    with builder.if_then(builder.icmp_signed("!=", told, integer(0)), likely=True):
        found_size = api.tuple_size(found)
        builder.store(builder.icmp_signed("==", found_size, found_size.type(size)), answer)
    return builder.load(answer)


def _is_of_type(api: Any, builder: Any, found: Any, name: str) -> Any:
    """Whether an object is of a type exactly; a subclass may behave otherwise."""
    return builder.icmp_unsigned("==", api.get_type(found), api.get_c_object(name))


@intrinsic
def _is_label(typing_context: Any, given: Any, label: Any) -> Any:
    """Generate the comparison of two objects: first by identity, then by ``==``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one, other = arguments
        answer = cgutils.alloca_once_value(builder, builder.icmp_signed("==", one, other))
        with builder.if_then(builder.not_(builder.load(answer)), likely=False):
            api = context.get_python_api(builder)
            one, other = (builder.inttoptr(each, api.pyobj) for each in (one, other))
            kinds = [api.get_type(each) for each in (one, other)]
            # Names are of type str or int exactly, whose comparison runs no Python code.
            with builder.if_then(builder.icmp_unsigned("==", *kinds)):
                integer = ir.IntType(32)
                compare = ir.FunctionType(integer, [api.pyobj, api.pyobj, integer])
                function = api._get_function(compare, name="PyObject_RichCompareBool")
                told = builder.call(function, [one, other, integer(_PY_EQ)])
                builder.store(builder.icmp_signed("==", told, integer(1)), answer)
        return builder.load(answer)

    return types.boolean(types.int64, types.int64), generate


_PY_EQ = 2
is_label: Callable[[int, int], bool] = _is_label
"""Whether the object at an address is the name of an arm, which is at another: (given, label)."""


# --- to Python ----------------------------------------------------------------------------


@intrinsic
def _make_decision(
    typing_context: Any,
    decision_class: Any,
    ticket_class: Any,
    number: Any,
    label: Any,
    ticket: Any,
) -> Any:
    """Collect the parts of a decision; the object is made when the call returns."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = cgutils.create_struct_proxy(signature.return_type)(context, builder)
        *others, given = arguments
        values = [*others, *cgutils.unpack_tuple(builder, given)]
        for (name, _), value in zip([*_CLASSES, *_DECISION], values, strict=True):
            setattr(made, name, value)
        return made._getvalue()

    return _MADE_DECISION(*[types.int64] * 4, TICKET), generate


make_decision: Callable[..., Any] = _make_decision
"""A decision that Python gets as an object, or as None if its number is :data:`NO_ROOM`: (class of
the decision, class of the ticket, number, label, ticket)."""


@box(_MadeDecision)
def _write_decision(kind: Any, value: Any, c: Any) -> Any:
    """Generate code that makes the object of a decision, or None."""
    made = cgutils.create_struct_proxy(kind)(c.context, c.builder, value=value)
    api, builder = c.pyapi, c.builder
    found = cgutils.alloca_once_value(builder, api.borrow_none())
    missing = builder.icmp_signed("==", made.number, made.number.type(NO_ROOM))
    with builder.if_else(missing, likely=False) as (there_is_none, there_is_one):
        with there_is_none:
            api.incref(api.borrow_none())
        with there_is_one:
            label = builder.inttoptr(made.label, api.pyobj)
            api.incref(label)
            # One tuple of arguments serves both calls: to make another takes as long as a member.
            new, arguments = _tuple_new(c), api.tuple_new(1)
            ticket = _make_tuple(c, new, arguments, made.ticket_class, [
                (api.long_from_longlong if member == types.int64 else api.float_from_double)(
                    getattr(made, name)
                )
                for name, member in _TICKET
            ])  # fmt: skip
            number = api.long_from_longlong(made.number)
            members = [number, label, ticket]
            builder.store(_make_tuple(c, new, arguments, made.decision_class, members), found)
            api.decref(arguments)
    return builder.load(found)


def _tuple_new(c: Any) -> Any:
    """Return the function behind ``tuple.__new__``."""
    api, builder = c.pyapi, c.builder
    slot = ir.FunctionType(api.voidptr, [api.pyobj, ir.IntType(32)])
    new = ir.FunctionType(api.pyobj, [api.pyobj] * 3)
    found = builder.call(
        api._get_function(slot, name="PyType_GetSlot"),
        [api.get_c_object("PyTuple_Type"), ir.IntType(32)(_TP_NEW)],
    )
    return builder.bitcast(found, new.as_pointer())


def _make_tuple(c: Any, new: Any, arguments: Any, address: Any, members: list[Any]) -> Any:
    """A tuple of a subclass, as ``tuple.__new__(subclass, members)`` would make it.

    Args:
        c: Numba's context of the conversion.
        new: the function behind ``tuple.__new__``.
        arguments: a tuple of one place, for the members as a plain tuple; what was there before is
            released.
        address: the address of the subclass.
        members: new references, which the tuple takes over.
    """
    api, builder = c.pyapi, c.builder
    plain = api.tuple_new(len(members))
    for place, member in enumerate(members):
        api.tuple_setitem(plain, place, member)  # takes over the reference
    api.tuple_setitem(arguments, 0, plain)
    subclass = builder.inttoptr(address, api.pyobj)
    return builder.call(new, [subclass, arguments, api.get_null_object()])
