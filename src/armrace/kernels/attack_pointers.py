"""Calls of attacks through function pointers, so that a policy is compiled once for all attacks.

An attack is compiled on its own, which takes a fraction of a second, and the engine calls it by
address: some 6 ns a round while there is a budget left. Inlining it instead would compile the
whole engine again for every pair of policy and attack, at 3 seconds each.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

from armrace.kernels.compiling import entry, fingerprint
from armrace.kernels.generics import corrupt, implementations, implements, observe
from armrace.kernels.streams import Stream
from armrace.kernels.unowned_arrays import Handle, opened

__all__ = [
    "NOWHERE",
    "Attack",
    "LiveAttack",
    "address_of",
    "attack_entries",
    "call_corrupt",
    "call_observe",
]

NOWHERE = 0
"""The address of ``observe`` of an attack that does not learn from the past."""

_NUMBERS = types.CPointer(types.float64)


class Attack(NamedTuple):
    """Addresses of an attack's state and functions, and facts that save the engine work."""

    state: int
    corrupt: int
    observe: int
    sees_weights: bool
    smallest_cost: float
    """Every change that the attack makes costs at least this, or nothing."""


class _AttackState(NamedTuple):
    """An attack's state and the stream that it draws from."""

    attack: Any
    stream: Stream


class LiveAttack:
    """An attack that the engine can call. The object owns the memory behind the addresses."""

    def __init__(
        self, state: Any, stream: Stream, sees_weights: bool, smallest_cost: float
    ) -> None:
        code = fingerprint(implementations(state))
        self._handle = Handle(_AttackState(state, stream))
        corrupt_at, observe_at = _addresses(code, self._handle._numba_type_)
        if not implements(observe, type(state)):
            observe_at = NOWHERE
        self.attack = Attack(
            self._handle.address, corrupt_at, observe_at, sees_weights, smallest_cost
        )


@cache
def attack_entries(code: str) -> tuple[Any, Any]:
    """The functions behind ``corrupt`` and ``observe``, before they are compiled for a handle."""

    @entry(code)
    def attack_corrupt(
        handle: Handle, round: int, weights: Any, rewards: Any, arms: int, left: float
    ) -> None:
        state = opened(handle)
        shown, paid = numba.carray(weights, (arms,)), numba.carray(rewards, (arms,))
        corrupt(state.attack, round, shown, paid, left, state.stream)

    @entry(code)
    def attack_observe(handle: Handle, round: int, arm: int, reward: float) -> None:
        observe(opened(handle).attack, round, arm, reward)

    return attack_corrupt, attack_observe


@cache
def _addresses(code: str, kind: Any) -> tuple[int, int]:
    """Return the addresses of ``corrupt`` and ``observe``, compiled for one type of handle."""
    attack_corrupt, attack_observe = attack_entries(code)
    integer, number = types.int64, types.float64
    return (
        address_of(attack_corrupt, (kind, integer, _NUMBERS, _NUMBERS, integer, number)),
        address_of(attack_observe, (kind, integer, integer, number)),
    )


def address_of(function: Any, argument_types: tuple[Any, ...]) -> int:
    """Return the address of the compiled function with the calling convention of C."""
    function.compile(argument_types)
    compiled = function.overloads[argument_types]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


_POINTER = ir.IntType(8).as_pointer()


def _call(builder: Any, address: Any, arguments: list[Any]) -> None:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)


@intrinsic
def _call_corrupt(
    typing_context: Any,
    address: Any,
    state: Any,
    round: Any,
    weights: Any,
    rewards: Any,
    left: Any,
) -> Any:
    # Arrays cross the boundary as bare pointers and a length: the layout of Numba's arrays is
    # not part of the calling convention of C.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, shown, paid, rest = arguments
        shown = arrayobj.make_array(signature.args[3])(context, builder, shown)
        paid = arrayobj.make_array(signature.args[4])(context, builder, paid)
        handle = builder.inttoptr(handle, _POINTER)
        _call(builder, function, [handle, number, shown.data, paid.data, paid.nitems, rest])
        return context.get_dummy_value()

    return types.void(address, state, types.int64, weights, rewards, left), generate


@intrinsic
def _call_observe(
    typing_context: Any, address: Any, state: Any, round: Any, arm: Any, reward: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, played, paid = arguments
        _call(builder, function, [builder.inttoptr(handle, _POINTER), number, played, paid])
        return context.get_dummy_value()

    return types.void(address, state, types.int64, types.int64, types.float64), generate


call_corrupt: Callable[..., None] = _call_corrupt
"""Call ``corrupt`` at its address: (address, state, round, weights, rewards, left)."""

call_observe: Callable[..., None] = _call_observe
"""Call ``observe`` at its address: (address, state, round, arm, reward)."""
