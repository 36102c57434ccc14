"""Compiled calls for live traffic: one decision or one reward at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import entry
from armrace.kernels.generics import Ticket, decide, distribution, learn
from armrace.kernels.streams import Stream
from armrace.kernels.unowned_arrays import Handle, borrow, opened, store

__all__ = ["Live", "LiveCalls", "make_live_calls"]


class Live(NamedTuple):
    """A policy's state and the stream it decides with."""

    policy: Any
    stream: Stream


class LiveCalls(NamedTuple):
    """What the online learner calls."""

    put_down: Callable[[Live, npt.NDArray[np.uint64]], None]
    decide: Callable[[Handle], Ticket]
    learn: Callable[..., None]
    distribution: Callable[[Handle, npt.NDArray[np.float64]], None]


@cache
def make_live_calls(code: str) -> LiveCalls:
    """The compiled calls for states whose implementations have the fingerprint ``code``."""

    @entry(code)
    def live_put_down(live: Live, memory: npt.NDArray[np.uint64]) -> None:
        store(borrow(live), memory)

    @entry(code)
    def live_decide(handle: Handle) -> Ticket:
        live = opened(handle)
        return decide(live.policy, live.stream)

    @entry(code)
    def live_learn(
        handle: Handle,
        arm: int,
        layer: int,
        probability: float,
        phase: int,
        memo: float,
        inner_layer: int,
        inner_probability: float,
        reward: float,
    ) -> None:
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        learn(opened(handle).policy, ticket, reward)

    @entry(code)
    def live_distribution(handle: Handle, out: npt.NDArray[np.float64]) -> None:
        distribution(opened(handle).policy, out)

    return LiveCalls(live_put_down, live_decide, live_learn, live_distribution)
