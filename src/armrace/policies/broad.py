"""BROAD: a logarithmic barrier that restarts with half the rate when losses have varied enough."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn, stamped
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    LOGARITHMIC_BARRIER,
    Estimates,
    add_loss,
    draws_from_weights,
    make_estimates,
    power_weights,
)


class BroadState(NamedTuple):
    """Estimated losses of the phase, its rate, and the variation met in it so far."""

    counts: Counts
    estimates: Estimates
    weights: npt.NDArray[np.float64]
    learning_rate: npt.NDArray[np.float64]
    variation: npt.NDArray[np.float64]
    phase: npt.NDArray[np.int64]
    patience: float
    """A phase ends when its variation times the squared rate reaches this."""


class Broad(CountingPolicy, frozen=True, tag="broad"):
    """Draws arms as ``log-barrier`` does, and restarts with half the rate when losses vary much.

    A play of arm ``a`` with probabilities ``w`` and the loss ``l`` adds
    ``l^2 ((1 - w[a])^2 + sum of w[i]^2 over the others)`` to the phase's variation. When that
    reaches ``K ln T/(3 rate^2)``, the rate is halved and all arms are equal again. With stochastic
    rewards the expected regret is of order ``K ln T/gap``, with rewards that an adversary fixes in
    advance ``sqrt(K L ln T) + K ln T``, where ``L`` is the best arm's loss. Algorithm, constants
    and bounds are checked against the paper (Algorithm 3, Theorem 10), for the prediction that
    every arm loses what the played one does, which leaves the probabilities as they are without
    predictions.

    A reward of an earlier phase, which the ticket notes, does not count. The other arms'
    probabilities in the variation are those of when the reward comes: exact where that is at once.

    >>> state = Broad().start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5), reward=0.0)
    >>> float(state.variation[0])
    0.5
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Wei and Luo (2018), More adaptive algorithms for adversarial bandits"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 3 and Theorem 10 of the COLT paper, pages 24 and 12, agree with the code; "
        "the bound is for a fixed sequence of losses."
    )

    learning_rate: Annotated[
        float, Limits("step size of the first phase", 0, 0.5, low_open=True)
    ] = 1 / 162

    def start(self, arms: int, horizon: int) -> BroadState:
        state = BroadState(
            counts=make_counts(arms),
            estimates=make_estimates(arms),
            weights=np.zeros(arms),
            # One step before the first phase: beginning it halves the rate and counts the phase.
            learning_rate=np.array([2.0 * self.learning_rate]),
            variation=np.zeros(1),
            phase=np.full(1, -1, dtype=np.int64),
            patience=arms * math.log(max(horizon, 2)) / 3,
        )
        _begin_phase(state)
        return state


@inlined
def _begin_phase(state: BroadState) -> None:
    """Halve the rate and forget all losses."""
    estimates = state.estimates
    arms = estimates.losses.size
    state.learning_rate[0] *= 0.5
    state.variation[0] = 0.0
    state.phase[0] += 1
    # The x of equal probabilities without losses: 1/(rate (0 - x)) = 1/K.
    estimates.normaliser[0] = -arms / state.learning_rate[0]
    for arm in range(arms):
        estimates.losses[arm] = 0.0
        state.weights[arm] = 1.0 / arms


@inlined
def _variation(
    weights: npt.NDArray[np.float64], arm: int, probability: float, loss: float
) -> float:
    """Return what a play adds to the variation of its phase."""
    total = (1.0 - probability) * (1.0 - probability)
    for other in range(weights.size):
        if other != arm:
            total += weights[other] * weights[other]
    return loss * loss * total


@draws_from_weights(BroadState)
@inlined
def _weights(state: BroadState) -> npt.NDArray[np.float64]:
    return state.weights


@implement(assign, BroadState)
def broad_assign(state: BroadState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return stamped(ticket, state.phase[0], 0.0)


@implement(learn, BroadState)
def broad_learn(state: BroadState, ticket: Ticket, reward: float) -> None:
    arm, estimates, rate = ticket.arm, state.estimates, state.learning_rate[0]
    record(state.counts, arm, reward)
    # A full reward is no loss: it adds nothing to the variation, nor to an estimate.
    if ticket.phase != state.phase[0] or reward >= 1.0:
        return
    loss = 1.0 - reward
    state.variation[0] += _variation(state.weights, arm, ticket.probability, loss)
    # Before the loss is counted: the loss that ends a phase is forgotten with it.
    if state.variation[0] * rate * rate >= state.patience:
        _begin_phase(state)
        return
    add_loss(estimates.losses, arm, loss, ticket.probability)
    estimates.normaliser[0] = power_weights(
        estimates.losses, rate, LOGARITHMIC_BARRIER, estimates.normaliser[0], state.weights
    )
