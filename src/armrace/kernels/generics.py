"""Generic functions that policies and adversaries implement, and the ticket that they pass on.

A state is a ``NamedTuple`` of arrays and numbers. An implementation is a plain function, registered
for a class of state; :mod:`armrace.kernels.dispatch` finds it by the class of the state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import by_default, call, dispatched, find, implement, implements
from armrace.kernels.streams import Stream

NO_LAYER = -1
"""The layer of a decision from which nothing is learned."""

SAME_ARM, NO_ARM = -1, -2
"""Values of a ticket's ``inner_arm`` that are no index: the inner policy, if there is one, drew the
arm that was played; the inner policy took no part in the decision."""

State = Any
Floats = npt.NDArray[np.float64]
Eligible = npt.NDArray[np.bool_] | None
"""Which arms may be chosen; ``None`` for all of them, which compiled code does not pay for."""


class Context(NamedTuple):
    """What is known about a visitor when an arm is chosen; see :mod:`armrace.contexts`."""

    vector: Floats
    """The encoded features, of length at most 1."""
    leaf: int


Visitor = Context | None
"""The context of a decision; ``None`` where visitors are not told apart, which compiled code does
not pay for. A policy that takes contexts then sees the vector (1) and the leaf 0."""

_ANYBODY = np.ones(1)


class ContextShape(NamedTuple):
    """How large contexts are: what a policy must know before the first one."""

    dimension: int
    """The number of coordinates of a vector, the constant included."""
    leaves: int
    of_arms: bool = False
    """Whether arms have features: the vector of a context then holds that of each arm, one after
    the other, and ``dimension`` is the size of one of them."""

    def room(self, arms: int) -> int:
        """How many numbers the vector of a context has."""
        return self.dimension * (arms if self.of_arms else 1)

    def models(self, arms: int) -> int:
        """How many linear models there are: one for each arm, or one that all share."""
        return 1 if self.of_arms else arms


NO_FEATURES = ContextShape(dimension=1, leaves=1)
"""The shape of contexts that say nothing: the vector is (1), and there is one leaf."""


class Scene(NamedTuple):
    """What an attack knows about the visitor of a round."""

    means: Floats
    """The honest mean reward of each arm for this visitor."""
    vector: Floats


@inlined
def vector_of(context: Visitor) -> Floats:
    """The vector of a context, or (1)."""
    if context is None:
        return _ANYBODY
    return context.vector


@inlined
def leaf_of(context: Visitor) -> int:
    """The leaf of a context, or 0."""
    if context is None:
        return 0
    return context.leaf


class Ticket(NamedTuple):
    """A decision as the policy needs it back when the reward comes.

    ``choose`` fills in what the draw determines: arm, layer, probability. ``assign`` fills in
    what the state determines: phase and memo. A ticket may come back forged, so that only
    ``arm``, ``layer``, ``inner_layer`` and ``inner_arm``, whose ranges are checked, may be used
    as indices.

    A composed policy keeps what its inner policy needs back in the members whose names begin with
    ``inner``, and in ``phase`` and ``memo``, which it does not need for itself. See
    :func:`wrap_ticket` and :func:`unwrap_ticket`.

    With :data:`NO_LAYER` and :data:`NO_ARM` together a ticket says that the policy had no part in
    the decision and learns nothing from it, see :func:`teaches_nothing`.
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
    inner_memo: float = 0.0
    """One more number of an inner policy, of the moment of decision."""


_BLANK = Ticket(0)


def spelled(
    source: str, each: str, join: str, kind: Any = Ticket, **names: Any
) -> Callable[..., Any]:
    """Make an inlined function that names every member of a ticket, or of another tuple.

    Compiled code can neither loop over members of different types nor replace some of them. Here
    their names are written out, so that the class is the only place that lists them.
    """
    members = join.join(each.format(name=name) for name in kind._fields)
    scope: dict[str, Any] = {"Ticket": Ticket, "__name__": __name__, **names}
    before = set(scope)
    exec(source.format(members=members), scope)
    (made,) = scope.keys() - before - {"__builtins__"}
    return inlined(scope[made])


def replacing(kind: type, *changed: str) -> Callable[..., Any]:
    """Make an inlined function that returns a named tuple with other values of some members."""
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    members = (name if name in changed else f"old.{name}" for name in fields)
    scope: dict[str, Any] = {"kind": kind, "__name__": __name__}
    exec(
        f"def replace(old, {', '.join(changed)}): return kind({', '.join(members)})",
        scope,
    )
    return inlined(cast("Callable[..., Any]", scope["replace"]))


_with_draw = replacing(Ticket, "arm", "layer", "probability", "memo", "inner_arm")
_with_inner = replacing(Ticket, "inner_layer", "inner_probability")
_with_moment = replacing(Ticket, "phase", "memo")
_with_inner_moment = replacing(Ticket, "inner_probability", "inner_memo")


@inlined
def make_ticket(
    arm: int,
    layer: int = 0,
    probability: float = 1.0,
    memo: float = 0.0,
    inner_arm: int = SAME_ARM,
) -> Ticket:
    """A ticket that ``choose`` returns. Compiled code cannot leave out members of a tuple.

    Args:
        arm: the arm that was drawn.
        layer: the layer that learns from the reward.
        probability: the probability with which the arm was chosen.
        memo: a number that the draw determines, if the policy needs one.
        inner_arm: :data:`NO_ARM` if an inner policy took no part in the decision.
    """
    return _with_draw(_BLANK, arm, layer, probability, memo, inner_arm)


@inlined
def wrap_ticket(inner: Ticket, arm: int, layer: int, probability: float) -> Ticket:
    """The ticket with which a composed policy plays an arm after its inner policy drew one.

    Args:
        inner: the ticket that the inner policy's ``choose`` returned.
        arm: the arm to play, which may be another one.
        layer: the layer of the composed policy that learns from the reward.
        probability: the probability with which the composed policy chose the arm.
    """
    drawn = SAME_ARM if inner.arm == arm else inner.arm
    # The range of this member is checked, and NaN lies in no range.
    chance = 1.0 if np.isnan(inner.probability) else inner.probability
    return _with_inner(make_ticket(arm, layer, probability, inner.memo, drawn), inner.layer, chance)


@inlined
def unwrap_ticket(ticket: Ticket, layers: int) -> Ticket:
    """The inner policy's own ticket of a decision in which it took part.

    Args:
        ticket: a ticket of the composed policy whose ``inner_arm`` is not :data:`NO_ARM`.
        layers: how many layers the inner policy has. The range of ``inner_layer`` is checked
            against the layers of the composed policy, which may be more.
    """
    arm = ticket.arm if ticket.inner_arm < 0 else ticket.inner_arm
    layer = min(ticket.inner_layer, layers - 1)
    inner = make_ticket(arm, layer, ticket.inner_probability)
    return _with_moment(inner, ticket.phase, ticket.memo)


@inlined
def stamped(ticket: Ticket, phase: int, memo: float) -> Ticket:
    """The ticket with the phase and memo that the state gives it.

    Args:
        ticket: a ticket as ``choose`` returned it.
        phase: the stage of the policy's own schedule.
        memo: one more number of the moment of decision.
    """
    return _with_moment(ticket, phase, memo)


@inlined
def with_inner_moment(ticket: Ticket, probability: float, memo: float) -> Ticket:
    """The ticket with what an inner policy would have done, and a number that it needs back."""
    return _with_inner_moment(ticket, probability, memo)


@inlined
def teaches_nothing(ticket: Ticket) -> bool:
    """Whether a ticket says that the policy had no part in the decision, in no layer."""
    return ticket.layer == NO_LAYER and ticket.inner_arm == NO_ARM


@dispatched
def distribution(state: State, out: Floats, context: Visitor = None) -> None:
    """Write into ``out`` the probability with which the policy will choose each arm.

    Args:
        state: the state of a policy.
        out: an array with an entry for each arm, which is overwritten.
        context: what is known about the visitor.
    """
    call(distribution, state, out=out, context=context)


@inlined
def weight_of_eligible(weights: Floats, eligible: npt.NDArray[np.bool_]) -> tuple[float, int]:
    """Return the sum of the weights of the eligible arms, and how many these are."""
    total, count = 0.0, 0
    for arm in range(weights.size):
        if eligible[arm]:
            total += weights[arm]
            count += 1
    return total, count


@dispatched
def distribution_among(
    state: State, eligible: npt.NDArray[np.bool_], out: Floats, context: Visitor = None
) -> None:
    """Write into ``out`` the probability with which a choice among eligible arms draws each arm.

    A policy that draws arms by their weights need not implement this: the weights of the eligible
    arms are divided by their sum, and are equal if all of them are 0.

    Args:
        state: the state of a policy.
        eligible: which arms may be chosen.
        out: an array with an entry for each arm, which is overwritten.
        context: what is known about the visitor.
    """
    call(distribution_among, state, eligible=eligible, out=out, context=context)


@by_default(distribution_among)
def _normalise_among(
    state: State, eligible: npt.NDArray[np.bool_], out: Floats, context: Visitor = None
) -> None:
    """Divide the weights of the eligible arms by their sum."""
    # This must be the law with which ``choose_by_weights`` draws among eligible arms.
    distribution(state, out, context)
    total, count = weight_of_eligible(out, eligible)
    for arm in range(out.size):
        if not eligible[arm]:
            out[arm] = 0.0
        else:
            out[arm] = out[arm] / total if total > 0.0 else 1.0 / count


@dispatched
def choose(
    state: State, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    """Draw an arm, among the ``eligible`` ones if given, and return its ticket.

    Changes nothing but the stream and scratch space. The probability on the ticket is that of
    the restricted draw. An implementation may leave out ``eligible``; the policy can then not be
    restricted to some arms.

    Args:
        state: the state of a policy.
        stream: the random numbers of the learner.
        eligible: which arms may be chosen; by default all.
        context: what is known about the visitor.
    """
    ticket: Ticket = call(choose, state, stream=stream, eligible=eligible, context=context)
    return ticket


def is_restrictable(state: State) -> bool:
    """Whether choices from this state can be restricted to some arms."""
    kind = type(state)
    return (
        implements(choose, kind) and "eligible" in inspect.signature(find(choose, kind)).parameters
    )


@dispatched
def assign(state: State, ticket: Ticket, context: Visitor = None) -> Ticket:
    """Count a decision, and return its ticket with the fields that the state fills in.

    The decision need not be one that this state would have made: when a log is replayed after a
    retraction, past decisions are assigned to a different state.

    Args:
        state: the state of a policy.
        ticket: a ticket of :func:`choose`, of this state or of another one.
        context: what is known about the visitor.
    """
    completed: Ticket = call(assign, state, ticket=ticket, context=context)
    return completed


@inlined
def decide(state: State, stream: Stream, context: Visitor = None) -> Ticket:
    """Choose an arm and assign the decision in one step.

    Args:
        state: the state of a policy.
        stream: the random numbers of the learner.
        context: what is known about the visitor.
    """
    return assign(state, choose(state, stream, None, context), context)


@dispatched
def learn(state: State, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    """Learn from the reward of an assigned decision.

    Args:
        state: the state of a policy.
        ticket: the ticket as :func:`assign` returned it.
        reward: the reward, in [0, 1].
        context: what was known about the visitor at the decision.
    """
    call(learn, state, ticket=ticket, reward=reward, context=context)


@dispatched
def drop(state: State, ticket: Ticket) -> None:
    """Record that the reward of an assigned decision will never come.

    Policies that treat outstanding rewards like any others need not implement this.

    Args:
        state: the state of a policy.
        ticket: the ticket as :func:`assign` returned it.
    """
    find(drop, type(state))(state, ticket)


@by_default(drop)
def _drop_nothing(state: State, ticket: Ticket) -> None:
    pass


@dispatched
def pass_round(state: State) -> None:
    """Count a decision that teaches nothing, in a state that counts all of them."""
    find(pass_round, type(state))(state)


@by_default(pass_round)
def _pass_nothing(state: State) -> None:
    pass


@dispatched
def value_experts(state: State, means: Floats, worth: Floats) -> None:
    """Add to ``worth`` what each expert would have earned with its advice on the latest decision.

    Only policies over experts implement this; see :meth:`armrace.policies.Policy.experts`.
    """
    find(value_experts, type(state))(state, means, worth)


@by_default(value_experts)
def _value_nothing(state: State, means: Floats, worth: Floats) -> None:
    pass


@dispatched
def corrupt(
    state: State,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
    scene: Scene | None = None,
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
        scene: what is known about the visitor, where visitors differ.
    """
    call(
        corrupt,
        state,
        round=round,
        weights=weights,
        rewards=rewards,
        left=left,
        stream=stream,
        scene=scene,
    )


@dispatched
def looks(
    state: State, round: int, rewards: Floats, left: float, scene: Scene | None = None
) -> bool:
    """Whether the adversary needs the learner's distribution in this round.

    Asked before ``corrupt`` with the round's honest rewards, of an adversary that declares that it
    reads the distribution. If the answer is no, the distribution is not computed, and ``corrupt``
    must not depend on it. An adversary that does not implement this looks in every round.

    Args:
        state: the state of an attack.
        round: the number of the round, from 0.
        rewards: the round's honest rewards.
        left: what remains of the budget.
        scene: what is known about the visitor, where visitors differ.
    """
    needed: bool = call(looks, state, round=round, rewards=rewards, left=left, scene=scene)
    return needed


@by_default(looks)
def _look_always(state: State, round: int, rewards: Floats, left: float) -> bool:
    return True


@dispatched
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


@by_default(observe)
def _observe_nothing(state: State, round: int, arm: int, reward: float) -> None:
    pass


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


def _distribution(state: Any, out: Floats, context: Visitor = None) -> None:
    distribution(state[0], out, context)


def _choose(
    state: Any, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    return choose(state[0], stream, eligible, context)


def _assign(state: Any, ticket: Ticket, context: Visitor = None) -> Ticket:
    return assign(state[0], ticket, context)


def _learn(state: Any, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    learn(state[0], ticket, reward, context)


def _drop(state: Any, ticket: Ticket) -> None:
    drop(state[0], ticket)


_FORWARDED: dict[Callable[..., Any], Callable[..., Any]] = {
    distribution: _distribution,
    choose: _choose,
    assign: _assign,
    learn: _learn,
    drop: _drop,
}
