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
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from armrace.kernels.compiling import entry, inlined
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


@inlined
def _scene(means: Any, arms: int, vector: Any, dimension: int) -> Scene:
    return Scene(numba.carray(means, (arms,)), numba.carray(vector, (dimension,)))


@inlined
def _no_scene(means: Any, arms: int, vector: Any, dimension: int) -> None:
    return None


@cache
def attack_entries(code: str, knows_visitors: bool = False) -> tuple[Any, Any, Any]:
    """The functions behind ``corrupt``, ``observe`` and ``looks``, not compiled for a handle.

    Only an attack on visitors who differ is told about them.
    """
    scene_of = _scene if knows_visitors else _no_scene
    code = f"{code}.visitors" if knows_visitors else code

    @entry(code)
    def attack_corrupt(
        state: Any, round: int, weights: Any, arms: int, rewards: Any, count: int, left: float,
        means: Any, expected: int, vector: Any, dimension: int,
    ) -> int:  # fmt: skip
        shown, paid = numba.carray(weights, (arms,)), numba.carray(rewards, (count,))
        scene = scene_of(means, expected, vector, dimension)
        corrupt(state.attack, round, shown, paid, left, state.stream, scene)
        return 0

    @entry(code)
    def attack_observe(state: Any, round: int, arm: int, reward: float) -> int:
        observe(state.attack, round, arm, reward)
        return 0

    @entry(code)
    def attack_looks(
        state: Any, round: int, rewards: Any, count: int, left: float,
        means: Any, expected: int, vector: Any, dimension: int,
    ) -> int:  # fmt: skip
        paid, scene = numba.carray(rewards, (count,)), scene_of(means, expected, vector, dimension)
        return int(looks(state.attack, round, paid, left, scene))

    return attack_corrupt, attack_observe, attack_looks


@cache
def _addresses(
    code: str, kind: Any, observes: bool, looks: bool, knows_visitors: bool
) -> tuple[int, int, int]:
    """Return the addresses of an attack's functions, compiled for one type of handle."""
    attack_corrupt, attack_observe, attack_looks = attack_entries(code, knows_visitors)
    integer, number = types.int64, types.float64
    array = types.CPointer(number), integer
    observe_at = looks_at = NOWHERE
    if observes:
        observe_at = address_of(attack_observe, (kind, integer, integer, number))
    if looks:
        looks_at = address_of(attack_looks, (kind, integer, *array, number, *array, *array))
    shown = (kind, integer, *array, *array, number, *array, *array)
    return address_of(attack_corrupt, shown), observe_at, looks_at


def address_of(function: Any, argument_types: tuple[Any, ...]) -> int:
    """Return the address of the compiled function with the calling convention of C."""
    function.compile(argument_types)
    compiled = function.overloads[argument_types]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


@intrinsic
def _call_at(typing_context: Any, address: Any, state: Any, arguments: Any) -> Any:
    """Generate the call of a function at an address.

    Arrays cross the boundary as bare pointers and a length: the layout of Numba's arrays is not
    part of the calling convention of C.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        function, handle, members = given
        passed = [builder.inttoptr(handle, ir.IntType(8).as_pointer())]
        values = cgutils.unpack_tuple(builder, members)
        for kind, value in zip(signature.args[2].types, values, strict=True):
            if isinstance(kind, types.Array):
                array = arrayobj.make_array(kind)(context, builder, value)
                passed += [array.data, array.nitems]
            else:
                plain = types.float64 if isinstance(kind, types.Float) else types.int64
                passed.append(context.cast(builder, value, kind, plain))
        called = ir.FunctionType(ir.IntType(64), [each.type for each in passed])
        return builder.call(builder.inttoptr(function, called.as_pointer()), passed)

    return types.int64(address, state, arguments), generate


call_at: Callable[[int, int, tuple[Any, ...]], int] = _call_at
"""Call a function at an address: (address, address of its state, further arguments).

It must take a length after each array, and return a whole number."""


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
    def fill_chunk(state: Any, chunk: int, begin: int, end: int) -> int:
        draw_chunk(state.law, chunk, state.drawn)
        add_totals(state.law, state.drawn, begin, end, state.totals)
        return 0

    @entry(code)
    def flip_and_count(state: Any, chunk: int, begin: int, end: int) -> int:
        flip_chunk(state.law, chunk, state.drawn)
        count_totals(state.drawn, begin, end, state.totals)
        return 0

    integer = types.int64
    return address_of(flip_and_count if coins else fill_chunk, (kind, integer, integer, integer))
