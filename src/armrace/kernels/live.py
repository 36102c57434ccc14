"""Compiled calls for live traffic: one decision or one reward at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.borrowing import Handle, borrow, opened, store
from armrace.kernels.compiling import entry
from armrace.kernels.generics import Ticket, decide, distribution, learn
from armrace.kernels.streams import Stream

__all__ = ["Live", "LiveCalls", "make_live_calls"]


class Live(NamedTuple):
    """A policy's state and the stream it decides with."""

    policy: Any
    stream: Stream


class LiveCalls(NamedTuple):
    """What the online learner calls."""

    put_down: Callable[[Live, npt.NDArray[np.uint64]], None]
    decide: Callable[[Handle], tuple[int, int, float, int]]
    learn: Callable[[Handle, int, int, float, int, float], None]
    distribution: Callable[[Handle, npt.NDArray[np.float64]], None]


@cache
def make_live_calls(code: str) -> LiveCalls:
    """The compiled calls for states whose implementations have the fingerprint ``code``."""

    @entry(code)
    def live_put_down(live: Live, memory: npt.NDArray[np.uint64]) -> None:
        store(borrow(live), memory)

    @entry(code)
    def live_decide(handle: Handle) -> tuple[int, int, float, int]:
        live = opened(handle)
        ticket = decide(live.policy, live.stream)
        return ticket.arm, ticket.layer, ticket.probability, ticket.note

    @entry(code)
    def live_learn(
        handle: Handle, arm: int, layer: int, probability: float, note: int, reward: float
    ) -> None:
        learn(opened(handle).policy, Ticket(arm, layer, probability, note), reward)

    @entry(code)
    def live_distribution(handle: Handle, out: npt.NDArray[np.float64]) -> None:
        distribution(opened(handle).policy, out)

    return LiveCalls(live_put_down, live_decide, live_learn, live_distribution)
