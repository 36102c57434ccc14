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

from armrace.kernels.compiling import entry
from armrace.kernels.dispatch import implementations, implements
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import corrupt, looks, observe
from armrace.kernels.handles import Handle
from armrace.kernels.streams import Stream

NOWHERE = 0
"""The address of ``observe`` of an attack that does not learn from the past, and of ``looks`` of
one that needs the learner's distribution in every round or never."""

_NUMBERS = types.CPointer(types.float64)


class Attack(NamedTuple):
    """Addresses of an attack's state and functions, and facts that save the engine work."""

    state: int
    corrupt: int
    observe: int
    looks: int
    sees_weights: bool
    sees_arm: bool
    """Whether it answers after the arm is drawn, and is charged for that arm alone."""
    smallest_cost: float
    """Every change that the attack makes costs at least this, or nothing."""


class _AttackState(NamedTuple):
    """An attack's state and the stream that it draws from."""

    attack: Any
    stream: Stream


class LiveAttack:
    """An attack that the engine can call. The object owns the memory behind the addresses."""

    def __init__(
        self,
        state: Any,
        stream: Stream,
        sees_weights: bool,
        smallest_cost: float,
        sees_arm: bool = False,
    ) -> None:
        code = fingerprint(implementations(state))
        # Kept as a member: the addresses below are valid only as long as the handle lives.
        self._handle = Handle(_AttackState(state, stream))
        # What an attack does not implement is not compiled, which would take a second for each.
        learns, chooses = implements(observe, type(state)), implements(looks, type(state))
        addresses = _addresses(code, self._handle._numba_type_, learns, chooses)
        self.attack = Attack(
            int(self._handle),
            *addresses,
            sees_weights,
            sees_arm,
            smallest_cost,
        )


@cache
def attack_entries(code: str) -> tuple[Any, Any, Any]:
    """The functions behind ``corrupt``, ``observe`` and ``looks``, not compiled for a handle."""

    @entry(code)
    def attack_corrupt(
        state: Any, round: int, weights: Any, rewards: Any, arms: int, left: float
    ) -> None:
        shown, paid = numba.carray(weights, (arms,)), numba.carray(rewards, (arms,))
        corrupt(state.attack, round, shown, paid, left, state.stream)

    @entry(code)
    def attack_observe(state: Any, round: int, arm: int, reward: float) -> None:
        observe(state.attack, round, arm, reward)

    @entry(code)
    def attack_looks(state: Any, round: int, rewards: Any, arms: int, left: float) -> int:
        return int(looks(state.attack, round, numba.carray(rewards, (arms,)), left))

    return attack_corrupt, attack_observe, attack_looks


@cache
def _addresses(code: str, kind: Any, observes: bool, looks: bool) -> tuple[int, int, int]:
    """Return the addresses of an attack's functions, compiled for one type of handle."""
    attack_corrupt, attack_observe, attack_looks = attack_entries(code)
    integer, number = types.int64, types.float64
    observe_at = looks_at = NOWHERE
    if observes:
        observe_at = address_of(attack_observe, (kind, integer, integer, number))
    if looks:
        looks_at = address_of(attack_looks, (kind, integer, _NUMBERS, integer, number))
    corrupt_at = address_of(attack_corrupt, (kind, integer, _NUMBERS, _NUMBERS, integer, number))
    return corrupt_at, observe_at, looks_at


def address_of(function: Any, argument_types: tuple[Any, ...]) -> int:
    """Return the address of the compiled function with the calling convention of C."""
    function.compile(argument_types)
    compiled = function.overloads[argument_types]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


_POINTER, _NOTHING, _INTEGER = ir.IntType(8).as_pointer(), ir.VoidType(), ir.IntType(64)


def _call(builder: Any, address: Any, arguments: list[Any], returns: Any = _NOTHING) -> Any:
    kind = ir.FunctionType(returns, [argument.type for argument in arguments])
    return builder.call(builder.inttoptr(address, kind.as_pointer()), arguments)


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
    """Generate the call of ``corrupt`` at an address."""

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
    """Generate the call of ``observe`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, played, paid = arguments
        _call(builder, function, [builder.inttoptr(handle, _POINTER), number, played, paid])
        return context.get_dummy_value()

    return types.void(address, state, types.int64, types.int64, types.float64), generate


@intrinsic
def _call_looks(
    typing_context: Any, address: Any, state: Any, round: Any, rewards: Any, left: Any
) -> Any:
    """Generate the call of ``looks`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, paid, rest = arguments
        paid = arrayobj.make_array(signature.args[3])(context, builder, paid)
        handle = builder.inttoptr(handle, _POINTER)
        numbers = [handle, number, paid.data, paid.nitems, rest]
        return _call(builder, function, numbers, _INTEGER)

    return types.int64(address, state, types.int64, rewards, left), generate


call_corrupt: Callable[..., None] = _call_corrupt
"""Call ``corrupt`` at its address: (address, state, round, weights, rewards, left)."""

call_observe: Callable[..., None] = _call_observe
"""Call ``observe`` at its address: (address, state, round, arm, reward)."""

call_looks: Callable[..., int] = _call_looks
"""Call ``looks`` at its address: (address, state, round, rewards, left)."""
