"""Any policy, taught in batches: what it learns from reaches it when a batch of rewards is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.event_log import DECISION, read_ticket, write_decision
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    forwards,
    learn,
    replacing,
)
from armrace.kernels.states import index_limits
from armrace.limits import Limits
from armrace.policies.base import ArmView
from armrace.policies.common.wrapping import Wrapper, resolve_base


@forwards(distribution, choose, assign, drop)
class BatchedState(NamedTuple):
    """The base policy's state, and the rewards that it has not been given yet."""

    base: Any
    tickets: Any
    """Records of decisions."""
    rewards: npt.NDArray[np.float64]
    held: npt.NDArray[np.int64]
    """How many of them there are, one number."""
    layers: npt.NDArray[np.bool_]
    """For each layer and arm nothing; its shape says how many there are."""


_with_probabilities = replacing(Ticket, "probability", "inner_probability")
_UNKNOWN = -1.0
"""Stands for a probability that is not computed: a state holds no NaN."""


class Batched(Wrapper, frozen=True, tag="batched"):
    """Lets a base policy learn from rewards in batches, as where weights are renewed once a day.

    Rewards are held back until there are ``size`` of them; then the base learns all of them, in the
    order in which they came. It counts its own decisions at once, so that a race goes on playing
    its active arms in turn and an index tries other arms, while the probabilities of a policy that
    draws by weights stay as they are for the whole batch. With a ``size`` of 1 it is the base.

    A base may be given by name or, with parameters, as ``{"name": "barbat", "scale": 0.01}``. Late
    rewards count towards the batch in which they come. To a race, and to policies that play in
    epochs, a reward that is held back is one that has not come.

    Bounds of the base are for rewards that come at once, and none is stated here. Nothing is lost
    by a batch but time: with ``B`` rounds in each, a policy decides as it would with every reward
    late by less than ``B`` rounds.

    >>> policy = Batched(base="ucb1", size=3)
    >>> state = policy.start(arms=2, horizon=100)
    >>> ticket = assign(state, Ticket(1))
    >>> for _ in range(2):
    ...     learn(state, ticket, 1.0)
    >>> int(state.base.counts.pulls[1]), int(state.held[0])
    (0, 2)
    >>> learn(state, ticket, 1.0)
    >>> int(state.base.counts.pulls[1]), int(state.held[0])
    (3, 0)
    """

    family: ClassVar[str] = "robust"
    learns_from_others: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "Perchet, Rigollet, Chassang and Snowberg (2016), Batched bandit problems, for the setting"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "Holding rewards back is the definition of the setting; the paper's own policy, which "
        "chooses the lengths of its batches, is another one and was not read."
    )

    base: Annotated[Any, "policy that learns in batches: a name, or its parameters with a name"] = (
        "optimistic-log-barrier"
    )
    size: Annotated[
        int, Limits("rewards that are held back and then learned together", 1, 10**7)
    ] = 1000

    def validate(self) -> None:
        resolve_base(self)

    def layer_count(self, arms: int, horizon: int) -> int:
        return int(self.base.layer_count(arms, horizon))

    def start(self, arms: int, horizon: int) -> BatchedState:
        tickets = np.zeros(self.size, dtype=DECISION).view(np.recarray)
        # The least values that a ticket may have, which a snapshot is compared with.
        tickets.layer, tickets.inner_arm = NO_LAYER, NO_ARM
        return BatchedState(
            base=self.base.start(arms, horizon),
            tickets=tickets,
            rewards=np.zeros(self.size),
            held=np.zeros(1, dtype=np.int64),
            layers=np.zeros((self.layer_count(arms, horizon), arms), dtype=np.bool_),
        )

    def inspect(self, state: BatchedState) -> Sequence[ArmView]:
        """Return the base's views, in which plays and means have the rewards that are held back."""
        held = int(state.held[0])
        tickets, rewards = state.tickets[:held], state.rewards[:held]

        def complete(view: ArmView) -> ArmView:
            own = rewards[(tickets.layer == view.layer) & (tickets.arm == view.arm)]
            pulls = view.pulls + own.size
            total = view.pulls * (view.mean or 0.0) + float(own.sum())
            return msgspec.structs.replace(view, pulls=pulls, mean=total / pulls if pulls else None)

        return [complete(view) for view in self.base.inspect(state.base)]


@index_limits(BatchedState)
def _index_limits(state: BatchedState) -> Iterator[tuple[Any, Any]]:
    layers, arms = state.layers.shape
    yield state.held, state.rewards.size
    yield state.tickets.arm, arms
    yield state.tickets.inner_arm, arms
    yield state.tickets.layer, layers
    yield state.tickets.inner_layer, layers


@implement(learn, BatchedState)
def batched_learn(state: BatchedState, ticket: Ticket, reward: float) -> None:
    place, own, inner = state.held[0], ticket.probability, ticket.inner_probability
    own = _UNKNOWN if np.isnan(own) else own
    inner = _UNKNOWN if np.isnan(inner) else inner
    write_decision(state.tickets[place], 0, 0, _with_probabilities(ticket, own, inner))
    state.rewards[place] = reward
    state.held[0] = place + 1
    if place + 1 == state.rewards.size:
        _teach(state)


@outlined
def _teach(state: BatchedState) -> None:
    """Give the base the rewards that were held back."""
    for place in range(state.held[0]):
        ticket = read_ticket(state.tickets[place])
        own, inner = ticket.probability, ticket.inner_probability
        own = np.nan if own < 0.0 else own
        inner = np.nan if inner < 0.0 else inner
        learn(state.base, _with_probabilities(ticket, own, inner), state.rewards[place])
    state.held[0] = 0
