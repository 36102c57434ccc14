"""Calls of reward laws through function pointers, so that they are compiled once for all policies.

Drawing a chunk of rewards takes microseconds, so the cost of an indirect call does not matter,
while compiling all laws takes as long as compiling a policy.
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
from armrace.kernels.compiling import entry, fingerprint
from armrace.kernels.laws import Drawn, Law, add_totals, draw_chunk
from armrace.kernels.unowned_arrays import Handle, opened

__all__ = ["LiveRewards", "Rewards", "call_fill"]


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
        code = fingerprint([])
        self._handle = Handle(_RewardState(law, drawn, totals))
        self.rewards = Rewards(self._handle.address, _address(code, self._handle._numba_type_))


@cache
def _address(code: str, kind: Any) -> int:
    @entry(code)
    def fill_chunk(handle: Handle, chunk: int, begin: int, end: int) -> None:
        """Draw a chunk, and add the columns that will be played to what each arm would pay."""
        state = opened(handle)
        draw_chunk(state.law, chunk, state.drawn)
        add_totals(state.law, state.drawn, begin, end, state.totals)

    integer = types.int64
    return address_of(fill_chunk, (kind, integer, integer, integer))


@intrinsic
def _call_fill(
    typing_context: Any, address: Any, state: Any, chunk: Any, begin: Any, end: Any
) -> Any:
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
