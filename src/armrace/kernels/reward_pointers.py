"""Calls of reward laws through function pointers, so that they are compiled once for all policies.

Drawing a chunk of rewards takes microseconds, so the cost of an indirect call does not matter,
while compiling all laws takes as long as compiling a policy. Bernoulli arms, which most uses are
about, have a function of their own, so that the first use does not wait for the other laws.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from armrace.kernels.attack_pointers import address_of
from armrace.kernels.compiling import entry
from armrace.kernels.fingerprints import fingerprint
from armrace.kernels.handles import Handle
from armrace.kernels.laws import (
    Drawn,
    Law,
    add_totals,
    check_kinds,
    count_totals,
    draw_chunk,
    flip_chunk,
    is_coins,
)


class Rewards(NamedTuple):
    """Addresses of what rewards are drawn with and of the function that draws a chunk of them."""

    state: int
    fill: int


class _RewardState(NamedTuple):
    law: Law
    drawn: Drawn
    totals: npt.NDArray[np.float64]


class LiveRewards:
    """Rewards that the engine can draw. The object owns the memory behind the addresses."""

    def __init__(self, law: Law, drawn: Drawn, totals: npt.NDArray[np.float64]) -> None:
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
