"""States that wrap another state, and leave to it what they do not do themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Floats,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    learn,
)
from armrace.kernels.streams import Stream

C = TypeVar("C", bound=type)


def forwards(*generics: Callable[..., Any]) -> Callable[[C], C]:
    """Implement ``generics`` for the decorated class of states by those of its first member.

    Args:
        generics: generic functions of policies, such as :func:`choose`.
    """

    def register(state_class: C) -> C:
        for generic in generics:
            implement(generic, state_class)(_FORWARDED[generic])
        return state_class

    return register


def _distribution(state: Any, out: Floats) -> None:
    distribution(state[0], out)


def _choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose(state[0], stream, eligible)


def _assign(state: Any, ticket: Ticket) -> Ticket:
    return assign(state[0], ticket)


def _learn(state: Any, ticket: Ticket, reward: float) -> None:
    learn(state[0], ticket, reward)


def _drop(state: Any, ticket: Ticket) -> None:
    drop(state[0], ticket)


_FORWARDED: dict[Callable[..., Any], Callable[..., Any]] = {
    distribution: _distribution,
    choose: _choose,
    assign: _assign,
    learn: _learn,
    drop: _drop,
}
