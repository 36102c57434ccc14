"""Compiled calls for live traffic: one decision or one reward at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from armrace.kernels.borrowing import Handle, opened
from armrace.kernels.compiling import entry
from armrace.kernels.generics import Ticket, decide, learn
from armrace.kernels.streams import Stream

LearnCall = Callable[[Handle, int, int, float, float], None]

__all__ = ["Live", "make_live_calls"]


class Live(NamedTuple):
    """A policy's state and the stream it decides with."""

    policy: Any
    stream: Stream


@cache
def make_live_calls(
    code: str,
) -> tuple[Callable[[Handle], tuple[int, int, float]], LearnCall]:
    """Compiled ``decide`` and ``learn`` for states with the fingerprint ``code``."""

    @entry
    def live_decide(handle: Handle) -> Any:
        _ = code  # part of the cache key by being closed over
        live = opened(handle)
        ticket = decide(live.policy, live.stream)
        return ticket.arm, ticket.layer, ticket.probability

    @entry
    def live_learn(handle: Handle, arm: int, layer: int, probability: float, reward: float) -> None:
        _ = code
        learn(opened(handle).policy, Ticket(arm, layer, probability), reward)

    return live_decide, live_learn
