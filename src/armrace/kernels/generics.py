"""Generic functions that policies and adversaries implement, dispatched by the state's class.

A state is a ``NamedTuple`` of arrays and numbers. An implementation is a plain function,
registered for a class of state by :func:`implement`. From Python the generic looks the
implementation up at each call; in compiled code Numba does so at compile time, so that dispatch
costs nothing at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from armrace.kernels.compiling import CALLEE_OPTIONS, inlined
from armrace.kernels.state_models import pass_whole
from armrace.kernels.streams import Stream

__all__ = [
    "NO_ARM",
    "NO_LAYER",
    "SAME_ARM",
    "Eligible",
    "Floats",
    "Ticket",
    "assign",
    "choose",
    "corrupt",
    "decide",
    "distribution",
    "distribution_among",
    "drop",
    "implement",
    "implementations",
    "implements",
    "is_restrictable",
    "learn",
    "looks",
    "make_ticket",
    "observe",
    "stamped",
    "unwrap_ticket",
    "wrap_ticket",
]

NO_LAYER = -1
"""The layer of a decision from which nothing is learned."""

SAME_ARM, NO_ARM = -1, -2
"""Values of a ticket's ``inner_arm`` that are no index: the inner policy, if there is one, drew the
arm that was played; the inner policy took no part in the decision."""

State = Any
Floats = npt.NDArray[np.float64]
Eligible = npt.NDArray[np.bool_] | None
"""Which arms may be chosen; ``None`` for all of them, which compiled code does not pay for."""
F = TypeVar("F", bound=Callable[..., Any])


class Ticket(NamedTuple):
    """A decision as the policy needs it back when the reward comes.

    ``choose`` fills in what the draw determines: arm, layer, probability. ``assign`` fills in
    what the state determines: phase and memo. A ticket may come back forged, so that only
    ``arm``, ``layer``, ``inner_layer`` and ``inner_arm``, whose ranges are checked, may be used
    as indices.

    A composed policy keeps what its inner policy needs back in the members whose names begin with
    ``inner``, and in ``phase`` and ``memo``, which it does not need for itself. See
    :func:`wrap_ticket` and :func:`unwrap_ticket`.
    """

    arm: int
    layer: int = 0
    """The layer that learns from the reward: 0 for a policy without layers, :data:`NO_LAYER`
    for a decision from which nothing is learned."""
    probability: float = 1.0
    """The probability with which the arm was chosen; NaN where the policy does not compute it."""
    phase: int = 0
    """The stage of the policy's own schedule: an epoch, a restart, a side of a switch."""
    memo: float = 0.0
    """One more number of the moment of decision: a baseline, a rate, a coin."""
    inner_layer: int = 0
    """The layer of an inner policy, in a policy that is composed of others."""
    inner_probability: float = 1.0
    """The probability with which an inner policy drew its arm; 1 where it does not compute it."""
    inner_arm: int = SAME_ARM
    """The arm that an inner policy drew where another one was played in its place; else
    :data:`SAME_ARM`, or :data:`NO_ARM` if the inner policy took no part in the decision."""


@inlined
def make_ticket(arm: int, layer: int = 0, probability: float = 1.0, memo: float = 0.0) -> Ticket:
    """A ticket that ``choose`` returns. Compiled code cannot leave out members of a tuple.

    Args:
        arm: the arm that was drawn.
        layer: the layer that learns from the reward.
        probability: the probability with which the arm was chosen.
        memo: a number that the draw determines, if the policy needs one.
    """
    return Ticket(arm, layer, probability, 0, memo, 0, 1.0, SAME_ARM)


@inlined
def wrap_ticket(inner: Ticket, arm: int, layer: int, probability: float) -> Ticket:
    """The ticket with which a composed policy plays an arm after its inner policy drew one.

    Args:
        inner: the ticket that the inner policy's ``choose`` returned.
        arm: the arm to play, which may be another one.
        layer: the layer of the composed policy that learns from the reward.
        probability: the probability with which the composed policy chose the arm.
    """
    return Ticket(
        arm,
        layer,
        probability,
        0,
        inner.memo,
        inner.layer,
        # The range of this member is checked, and NaN lies in no range.
        1.0 if np.isnan(inner.probability) else inner.probability,
        SAME_ARM if inner.arm == arm else inner.arm,
    )


@inlined
def unwrap_ticket(ticket: Ticket, layers: int) -> Ticket:
    """The inner policy's own ticket of a decision in which it took part.

    Args:
        ticket: a ticket of the composed policy whose ``inner_arm`` is not :data:`NO_ARM`.
        layers: how many layers the inner policy has. The range of ``inner_layer`` is checked
            against the layers of the composed policy, which may be more.
    """
    return Ticket(
        ticket.arm if ticket.inner_arm < 0 else ticket.inner_arm,
        min(ticket.inner_layer, layers - 1),
        ticket.inner_probability,
        ticket.phase,
        ticket.memo,
        0,
        1.0,
        SAME_ARM,
    )


@inlined
def stamped(ticket: Ticket, phase: int, memo: float) -> Ticket:
    """The ticket with the phase and memo that the state gives it.

    Args:
        ticket: a ticket as ``choose`` returned it.
        phase: the stage of the policy's own schedule.
        memo: one more number of the moment of decision.
    """
    return Ticket(
        ticket.arm,
        ticket.layer,
        ticket.probability,
        phase,
        memo,
        ticket.inner_layer,
        ticket.inner_probability,
        ticket.inner_arm,
    )


def distribution(state: State, out: Floats) -> None:
    """Write into ``out`` the probability with which the policy will choose each arm.

    Args:
        state: the state of a policy.
        out: an array with an entry for each arm, which is overwritten.
    """
    find(distribution, type(state))(state, out)


def distribution_among(state: State, eligible: npt.NDArray[np.bool_], out: Floats) -> None:
    """Write into ``out`` the probability with which a choice among eligible arms draws each arm.

    A policy that draws arms by their weights need not implement this: the weights of the eligible
    arms are divided by their sum, and are equal if all of them are 0.

    Args:
        state: the state of a policy.
        eligible: which arms may be chosen.
        out: an array with an entry for each arm, which is overwritten.
    """
    find(distribution_among, type(state))(state, eligible, out)


def choose(state: State, stream: Stream, eligible: Eligible = None) -> Ticket:
    """Draw an arm, among the ``eligible`` ones if given, and return its ticket.

    Changes nothing but the stream and scratch space. The probability on the ticket is that of
    the restricted draw. Compiled code passes all three arguments.

    Args:
        state: the state of a policy.
        stream: the random numbers of the learner.
        eligible: which arms may be chosen; by default all.
    """
    implementation = find(choose, type(state))
    if eligible is None:
        ticket: Ticket = implementation(state, stream)
    else:
        ticket = implementation(state, stream, eligible)
    return ticket


def assign(state: State, ticket: Ticket) -> Ticket:
    """Count a decision, and return its ticket with the fields that the state fills in.

    The decision need not be one that this state would have made: when a log is replayed after a
    retraction, past decisions are assigned to a different state.

    Args:
        state: the state of a policy.
        ticket: a ticket of :func:`choose`, of this state or of another one.
    """
    completed: Ticket = find(assign, type(state))(state, ticket)
    return completed


@inlined
def decide(state: State, stream: Stream) -> Ticket:
    """Choose an arm and assign the decision in one step.

    Args:
        state: the state of a policy.
        stream: the random numbers of the learner.
    """
    return assign(state, choose(state, stream, None))


def learn(state: State, ticket: Ticket, reward: float) -> None:
    """Learn from the reward of an assigned decision.

    Args:
        state: the state of a policy.
        ticket: the ticket as :func:`assign` returned it.
        reward: the reward, in [0, 1].
    """
    find(learn, type(state))(state, ticket, reward)


def drop(state: State, ticket: Ticket) -> None:
    """Record that the reward of an assigned decision will never come.

    Policies that treat outstanding rewards like any others need not implement this.

    Args:
        state: the state of a policy.
        ticket: the ticket as :func:`assign` returned it.
    """
    find(drop, type(state))(state, ticket)


def corrupt(
    state: State, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    """Change ``rewards`` in place, before the arm is drawn.

    ``weights`` is the learner's distribution (all zeros unless the adversary declares that it
    reads it), ``left`` the remaining budget. A change that costs more is not applied.

    Args:
        state: the state of an attack.
        round: the number of the round, from 0.
        weights: the learner's distribution; all zeros unless the attack declares ``sees_weights``.
        rewards: the round's honest rewards, one for each arm, to be changed within [0, 1].
        left: what remains of the budget.
        stream: the random numbers of the attack.
    """
    find(corrupt, type(state))(state, round, weights, rewards, left, stream)


def looks(state: State, round: int, rewards: Floats, left: float) -> bool:
    """Whether the adversary needs the learner's distribution in this round.

    Asked before ``corrupt`` with the round's honest rewards, of an adversary that declares that it
    reads the distribution. If the answer is no, the distribution is not computed, and ``corrupt``
    must not depend on it. An adversary that does not implement this looks in every round.

    Args:
        state: the state of an attack.
        round: the number of the round, from 0.
        rewards: the round's honest rewards.
        left: what remains of the budget.
    """
    needed: bool = find(looks, type(state))(state, round, rewards, left)
    return needed


def observe(state: State, round: int, arm: int, reward: float) -> None:
    """Tell the adversary which arm was drawn and what it paid, after the round.

    An adversary that learns nothing from the past need not implement this.

    Args:
        state: the state of an attack.
        round: the number of the round, from 0.
        arm: the arm that was drawn.
        reward: what it paid, after corruption.
    """
    find(observe, type(state))(state, round, arm, reward)


_GENERICS: tuple[Callable[..., Any], ...] = (
    distribution,
    distribution_among,
    choose,
    assign,
    learn,
    drop,
    corrupt,
    looks,
    observe,
)
_REGISTRY: dict[tuple[str, type], Callable[..., Any]] = {}


def implement(generic: Callable[..., Any], state_class: type) -> Callable[[F], F]:
    """Register the decorated function as ``generic`` for states of ``state_class``.

    ``choose`` may leave out ``eligible``; the policy can then not be restricted to some arms.

    Args:
        generic: one of the generic functions, such as :func:`choose`.
        state_class: the class of the states.
    """
    expected = list(inspect.signature(generic).parameters)

    def register(function: F) -> F:
        given = list(inspect.signature(function).parameters)
        unrestricted = generic is choose and given == expected[:-1]
        if given != expected and not unrestricted:
            raise TypeError(
                f"an implementation of {generic.__name__} takes ({', '.join(expected)}); "
                f"{function.__name__} takes ({', '.join(given)})"
            )
        if (generic.__name__, state_class) in _REGISTRY:
            # Numba keeps what it compiled for a class of states and would go on using it.
            raise TypeError(
                f"{state_class.__name__} already has an implementation of {generic.__name__}; "
                f"define the class of the state again with the new one"
            )
        _REGISTRY[generic.__name__, state_class] = function
        # Here, since nothing can have been compiled for a class without implementations.
        pass_whole(state_class)
        return function

    return register


def _observe_nothing(state: State, round: int, arm: int, reward: float) -> None:
    pass


def _look_always(state: State, round: int, rewards: Floats, left: float) -> bool:
    return True


def _drop_nothing(state: State, ticket: Ticket) -> None:
    pass


def _normalise_among(state: State, eligible: npt.NDArray[np.bool_], out: Floats) -> None:
    """Divide the weights of the eligible arms by their sum."""
    # This must be the law with which ``choose_by_weights`` draws among eligible arms.
    distribution(state, out)
    total, count = 0.0, 0
    for arm in range(out.size):
        if eligible[arm]:
            total += out[arm]
            count += 1
    for arm in range(out.size):
        if not eligible[arm]:
            out[arm] = 0.0
        else:
            out[arm] = out[arm] / total if total > 0.0 else 1.0 / count


_DEFAULTS: dict[str, Callable[..., Any]] = {
    "observe": _observe_nothing,
    "looks": _look_always,
    "drop": _drop_nothing,
    "distribution_among": _normalise_among,
}


def find(generic: Callable[..., Any], state_class: type) -> Callable[..., Any]:
    """The implementation of ``generic`` for ``state_class``."""
    name = generic.__name__
    found = _REGISTRY.get((name, state_class)) or _DEFAULTS.get(name)
    if found is None:
        raise TypeError(f"{state_class.__name__} has no implementation of {name}")
    return found


def implements(generic: Callable[..., Any], state_class: type) -> bool:
    """Whether ``generic`` is registered for ``state_class``."""
    return (generic.__name__, state_class) in _REGISTRY


def is_restrictable(state: State) -> bool:
    """Whether choices from this state can be restricted to some arms."""
    found = _REGISTRY.get((choose.__name__, type(state)))
    return found is not None and "eligible" in inspect.signature(found).parameters


def implementations(state: State) -> list[Callable[..., Any]]:
    """All implementations registered for a state and for the states within it."""
    keys = ((generic.__name__, type(state)) for generic in _GENERICS)
    found = [_REGISTRY[key] for key in keys if key in _REGISTRY]
    for member in state:
        if isinstance(member, tuple):
            found += implementations(member)
    return found


def _ignore_eligible(choose_any: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a ``choose`` without the parameter ``eligible`` to the generic's signature.

    Callers check :func:`is_restrictable` before they restrict; here the argument is ``None``.
    """
    inner = inlined(choose_any)

    def choose_unrestricted(state: State, stream: Stream, eligible: Eligible = None) -> Ticket:
        ticket: Ticket = inner(state, stream)
        return ticket

    return choose_unrestricted


def _dispatch_when_compiling(generic: Callable[..., Any]) -> None:
    """Make ``generic`` callable from compiled code, by the class of its first argument."""

    def resolve(*arguments: Any, **named: Any) -> Callable[..., Any] | None:
        # Numba calls this with types, not values, while it compiles the caller. What is returned
        # is compiled in place of the generic, so nothing is looked up at run time.
        state = arguments[0] if arguments else named["state"]
        if not isinstance(state, (types.NamedTuple, types.NamedUniTuple)):
            return None  # not a state: Numba then reports the call as an error of its caller
        found = find(generic, state.instance_class)
        unrestricted = generic is choose and len(inspect.signature(found).parameters) == 2
        return _ignore_eligible(found) if unrestricted else found

    # Not strict, since the resolver serves all generics and does not have their parameters' names.
    # Inlined into the caller, so that LLVM sees which parts of a ticket or a state are not used.
    overload(
        generic,
        strict=False,
        jit_options={"forceinline": True, **CALLEE_OPTIONS},
    )(resolve)


for _generic in _GENERICS:
    _dispatch_when_compiling(_generic)
