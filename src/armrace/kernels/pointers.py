"""Calls of attacks and of reward laws through function pointers.

An attack is compiled on its own, which takes a fraction of a second, and the engine calls it by
address: some 6 ns a round while there is a budget left. Inlining it instead would compile the
whole engine again for every pair of policy and attack, at 3 seconds each.

Drawing a chunk of rewards takes microseconds, so the cost of an indirect call does not matter,
while compiling all laws takes as long as compiling a policy. Bernoulli arms, which most uses are
about, have a function of their own, so that the first use does not wait for the other laws.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from numba.np import arrayobj

from armrace.kernels.compiling import entry
from armrace.kernels.dispatch import implementations, implements
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.generics import Scene, corrupt, looks, observe
from armrace.kernels.handles import Handle
from armrace.kernels.laws import (
    Law,
    RewardChunk,
    add_totals,
    check_kinds,
    count_totals,
    draw_chunk,
    flip_chunk,
    is_coins,
)
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
    low: float
    """The least reward that it may show, and the largest."""
    high: float


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
        knows_visitors: bool = False,
        rewards: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        code = fingerprint(implementations(state))
        # Kept as a member: the addresses below are valid only as long as the handle lives.
        self._handle = Handle(_AttackState(state, stream))
        # What an attack does not implement is not compiled, which would take a second for each.
        learns, chooses = implements(observe, type(state)), implements(looks, type(state))
        addresses = _addresses(code, self._handle._numba_type_, learns, chooses, knows_visitors)
        self.attack = Attack(
            int(self._handle),
            *addresses,
            sees_weights,
            sees_arm,
            smallest_cost,
            *rewards,
        )


@cache
def attack_entries(code: str, knows_visitors: bool = False) -> tuple[Any, Any, Any]:
    """The functions behind ``corrupt``, ``observe`` and ``looks``, not compiled for a handle.

    Only an attack on visitors who differ is told about them.
    """
    if knows_visitors:
        code = f"{code}.visitors"

    @entry(code)
    def attack_corrupt(
        state: Any,
        round: int,
        weights: Any,
        rewards: Any,
        arms: int,
        left: float,
        means: Any,
        vector: Any,
        dimension: int,
    ) -> None:
        shown, paid = numba.carray(weights, (arms,)), numba.carray(rewards, (arms,))
        if knows_visitors:
            scene = Scene(numba.carray(means, (arms,)), numba.carray(vector, (dimension,)))
            corrupt(state.attack, round, shown, paid, left, state.stream, scene)
        else:
            corrupt(state.attack, round, shown, paid, left, state.stream, None)

    @entry(code)
    def attack_observe(state: Any, round: int, arm: int, reward: float) -> None:
        observe(state.attack, round, arm, reward)

    @entry(code)
    def attack_looks(
        state: Any,
        round: int,
        rewards: Any,
        arms: int,
        left: float,
        means: Any,
        vector: Any,
        dimension: int,
    ) -> int:
        paid = numba.carray(rewards, (arms,))
        if knows_visitors:
            scene = Scene(numba.carray(means, (arms,)), numba.carray(vector, (dimension,)))
            return int(looks(state.attack, round, paid, left, scene))
        return int(looks(state.attack, round, paid, left, None))

    return attack_corrupt, attack_observe, attack_looks


@cache
def _addresses(
    code: str, kind: Any, observes: bool, looks: bool, knows_visitors: bool
) -> tuple[int, int, int]:
    """Return the addresses of an attack's functions, compiled for one type of handle."""
    attack_corrupt, attack_observe, attack_looks = attack_entries(code, knows_visitors)
    visitor = (_NUMBERS, _NUMBERS, types.int64)
    integer, number = types.int64, types.float64
    observe_at = looks_at = NOWHERE
    if observes:
        observe_at = address_of(attack_observe, (kind, integer, integer, number))
    if looks:
        looks_at = address_of(attack_looks, (kind, integer, _NUMBERS, integer, number, *visitor))
    shown = (kind, integer, _NUMBERS, _NUMBERS, integer, number)
    corrupt_at = address_of(attack_corrupt, (*shown, *visitor))
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
    means: Any,
    vector: Any,
) -> Any:
    """Generate the call of ``corrupt`` at an address."""

    # Arrays cross the boundary as bare pointers and a length: the layout of Numba's arrays is
    # not part of the calling convention of C.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, *arrays, rest = arguments[:-2]
        shown, paid, expected, features = (
            arrayobj.make_array(kind)(context, builder, array)
            for kind, array in zip(
                (*signature.args[3:5], *signature.args[6:]), (*arrays, *arguments[6:]), strict=True
            )
        )
        seen = [builder.inttoptr(handle, _POINTER), number, shown.data, paid.data]
        visitor = [expected.data, features.data, features.nitems]
        _call(builder, function, [*seen, paid.nitems, rest, *visitor])
        return context.get_dummy_value()

    kinds = (address, state, types.int64, weights, rewards, left, means, vector)
    return types.void(*kinds), generate


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
    typing_context: Any,
    address: Any,
    state: Any,
    round: Any,
    rewards: Any,
    left: Any,
    means: Any,
    vector: Any,
) -> Any:
    """Generate the call of ``looks`` at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, number, paid, rest, expected, features = arguments
        paid, expected, features = (
            arrayobj.make_array(signature.args[place])(context, builder, array)
            for place, array in ((3, paid), (5, expected), (6, features))
        )
        seen = [builder.inttoptr(handle, _POINTER), number, paid.data, paid.nitems, rest]
        visitor = [expected.data, features.data, features.nitems]
        return _call(builder, function, [*seen, *visitor], _INTEGER)

    return types.int64(address, state, types.int64, rewards, left, means, vector), generate


call_corrupt: Callable[..., None] = _call_corrupt
"""Call ``corrupt``: (address, state, round, weights, rewards, left, means, vector)."""

call_observe: Callable[..., None] = _call_observe
"""Call ``observe`` at its address: (address, state, round, arm, reward)."""

call_looks: Callable[..., int] = _call_looks
"""Call ``looks`` at its address: (address, state, round, rewards, left, means, vector)."""


class Rewards(NamedTuple):
    """Addresses of what rewards are drawn with and of the function that draws a chunk of them."""

    state: int
    fill: int


class _RewardState(NamedTuple):
    law: Law
    drawn: RewardChunk
    totals: npt.NDArray[np.float64]


class LiveRewards:
    """Rewards that the engine can draw. The object owns the memory behind the addresses."""

    def __init__(self, law: Law, drawn: RewardChunk, totals: npt.NDArray[np.float64]) -> None:
        check_kinds(law)
        code = fingerprint([])
        self._handle = Handle(_RewardState(law, drawn, totals))
        address = _address(code, self._handle._numba_type_, is_coins(law))
        self.rewards = Rewards(int(self._handle), address)


@cache
def _address(code: str, kind: Any, coins: bool) -> int:
    """The address of the function that draws a chunk.

    It also adds the columns that will be played to what each arm would pay.
    """

    @entry(code)
    def fill_chunk(state: Any, chunk: int, begin: int, end: int) -> None:
        draw_chunk(state.law, chunk, state.drawn)
        add_totals(state.law, state.drawn, begin, end, state.totals)

    @entry(code)
    def flip_and_count(state: Any, chunk: int, begin: int, end: int) -> None:
        flip_chunk(state.law, chunk, state.drawn)
        count_totals(state.drawn, begin, end, state.totals)

    integer = types.int64
    return address_of(flip_and_count if coins else fill_chunk, (kind, integer, integer, integer))


@intrinsic
def _call_fill(
    typing_context: Any, address: Any, state: Any, chunk: Any, begin: Any, end: Any
) -> Any:
    """Generate the call that draws a chunk of rewards."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, handle, *numbers = arguments
        pointer = ir.IntType(8).as_pointer()
        handle = builder.inttoptr(handle, pointer)
        kinds = [pointer, *(number.type for number in numbers)]
        kind = ir.FunctionType(ir.VoidType(), kinds)
        builder.call(builder.inttoptr(function, kind.as_pointer()), [handle, *numbers])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(address, state, integer, integer, integer), generate


call_fill: Callable[..., None] = _call_fill
"""Draw a chunk of rewards: (address, state, chunk, begin, end)."""
