"""The functions that every policy and every adversary implements, found by their state's class.

A state is a ``NamedTuple`` of arrays and numbers. An implementation is a plain function,
registered for a class of state by :func:`implement`. From Python the generic looks the
implementation up; in compiled code Numba does so when it compiles, so that nothing is left of
the dispatch in the machine code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from armrace.kernels.streams import Stream

__all__ = [
    "NO_LAYER",
    "Floats",
    "Ticket",
    "corrupt",
    "decide",
    "distribution",
    "implement",
    "implementations",
    "implements",
    "learn",
    "observe",
]

NO_LAYER = -1
"""The layer of a decision from which nothing is learned."""

State = Any
Floats = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])


class Ticket(NamedTuple):
    """What a decision hands out and feedback brings back.

    ``layer`` is the layer that learns from the reward (0 for a policy without layers,
    :data:`NO_LAYER` for a play that teaches nothing); ``probability`` is that with which
    ``arm`` was chosen; ``note`` is whatever else of the moment of decision the policy needs
    when the reward comes. A note may come back forged: it is never an index.
    """

    arm: int
    layer: int
    probability: float
    note: int


def distribution(state: State, out: Floats) -> None:
    """Write into ``out`` the probability with which the policy will choose each arm."""
    find(distribution, type(state))(state, out)


def decide(state: State, stream: Stream) -> Ticket:
    """Choose an arm, count it as assigned, and return its ticket."""
    ticket: Ticket = find(decide, type(state))(state, stream)
    return ticket


def learn(state: State, ticket: Ticket, reward: float) -> None:
    """Take the reward of the decision that ``ticket`` was given for."""
    find(learn, type(state))(state, ticket, reward)


def corrupt(
    state: State, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    """Change ``rewards`` in place, before the arm is drawn.

    ``weights`` is the learner's distribution (all zeros unless the adversary declares that it
    looks at it), ``left`` what is left of the budget. A change that costs more is not applied.
    """
    find(corrupt, type(state))(state, round, weights, rewards, left, stream)


def observe(state: State, round: int, arm: int, reward: float) -> None:
    """Tell the adversary which arm was drawn and what it paid, after the round.

    An adversary that learns nothing from the past need not implement this.
    """
    find(observe, type(state))(state, round, arm, reward)


_GENERICS: tuple[Callable[..., Any], ...] = (distribution, decide, learn, corrupt, observe)
_REGISTRY: dict[tuple[str, type], Callable[..., Any]] = {}


def implement(generic: Callable[..., Any], state_class: type) -> Callable[[F], F]:
    """Register the decorated function as ``generic`` for states of ``state_class``."""
    expected = list(inspect.signature(generic).parameters)

    def register(function: F) -> F:
        given = list(inspect.signature(function).parameters)
        if given != expected:
            raise TypeError(
                f"an implementation of {generic.__name__} takes ({', '.join(expected)}); "
                f"{function.__name__} takes ({', '.join(given)})"
            )
        if (generic.__name__, state_class) in _REGISTRY:
            # Numba keeps what it compiled for a class of states, and would go on using it.
            raise TypeError(
                f"{state_class.__name__} has an implementation of {generic.__name__} already; "
                f"define the class of the state anew with it"
            )
        _REGISTRY[generic.__name__, state_class] = function
        return function

    return register


def _observe_nothing(state: State, round: int, arm: int, reward: float) -> None:
    pass


def find(generic: Callable[..., Any], state_class: type) -> Callable[..., Any]:
    """The implementation of ``generic`` for ``state_class``."""
    found = _REGISTRY.get((generic.__name__, state_class))
    if found is not None:
        return found
    if generic is observe:
        return _observe_nothing
    raise TypeError(f"{state_class.__name__} has no implementation of {generic.__name__}")


def implements(generic: Callable[..., Any], state_class: type) -> bool:
    """Whether ``generic`` is registered for ``state_class``."""
    return (generic.__name__, state_class) in _REGISTRY


def implementations(state: State) -> list[Callable[..., Any]]:
    """All implementations registered for a state and for the states within it."""
    found = [function for (_, owner), function in _REGISTRY.items() if owner is type(state)]
    for member in state:
        if isinstance(member, tuple):
            found += implementations(member)
    return found


def _dispatch_when_compiling(generic: Callable[..., Any]) -> None:
    """Make ``generic`` callable from compiled code, by the class of its first argument.

    Numba wants the resolver's parameters to be named as the generic's, so its signature is
    borrowed from there.
    """

    def resolve(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
        state = arguments[0] if arguments else named["state"]
        if isinstance(state, (types.NamedTuple, types.NamedUniTuple)):
            return find(generic, state.instance_class)
        return None

    overload(
        generic,
        strict=False,
        jit_options={
            "forceinline": True,
            "error_model": "numpy",
            "no_cpython_wrapper": True,
            "no_cfunc_wrapper": True,
        },
    )(resolve)


for _generic in _GENERICS:
    _dispatch_when_compiling(_generic)
