"""Mirror descent with a logarithmic barrier: small regret where the best arm loses little."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    LOGARITHMIC_BARRIER,
    Estimates,
    add_loss,
    draws_from_weights,
    make_estimates,
    power_weights,
    ranks_arms,
)


class LogBarrierState(NamedTuple):
    """Estimated losses with the probabilities that follow from them, and the learning rate."""

    counts: Counts
    estimates: Estimates
    weights: npt.NDArray[np.float64]
    learning_rate: float


class LogBarrier(CountingPolicy, frozen=True, tag="log-barrier"):
    """Draws arms with probability ``1 / (learning_rate * (estimated loss - x))``.

    The number ``x`` makes the probabilities sum to 1. This is online mirror descent,
    ``w'[i] = 1/(1/w[i] + rate * (estimate[i] - step))`` with the ``step`` that keeps the sum:
    the steps add up to ``x``, so that only the sums of ``loss/probability`` are kept, in
    whatever order they come.

    With the default rate ``sqrt(K ln T/T)``, at most 1/2, the expected regret is of order
    ``sqrt(K T ln T)``. The bound for small losses, of order ``sqrt(K L ln T) + K ln T`` with
    ``L`` the best arm's loss, needs a ``learning_rate`` fitted to them, about
    ``sqrt(K ln T/L)`` and at most 1/2; ``broad`` finds it by restarts. Both are derived from the
    bound for a fixed rate in Theorem 7 of Wei and Luo (2018).

    >>> from armrace.kernels.generics import distribution
    >>> state = LogBarrier(learning_rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5), reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.475062, 0.524938])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Foster, Li, Lykouris, Sridharan and Tardos (2016), Learning in games: robustness of "
        "fast convergence"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "The bound for a fixed rate follows from Theorem 7 of Wei and Luo (2018); the paper "
        "of 2016 was not available."
    )

    learning_rate: Annotated[
        float | None,
        Limits("step size; by default sqrt(K ln T / T), at most 1/2", 0, 1e6, low_open=True),
    ] = None

    def start(self, arms: int, horizon: int) -> LogBarrierState:
        rate = self.learning_rate
        if rate is None:
            rate = min(0.5, math.sqrt(arms * math.log(max(horizon, 2)) / horizon))
        estimates = make_estimates(arms)
        # The x of equal probabilities without losses.
        estimates.normaliser[0] = -arms / rate
        weights = np.full(arms, 1.0 / arms)
        return LogBarrierState(make_counts(arms), estimates, weights, float(rate))


@draws_from_weights(LogBarrierState)
@inlined
def _weights(state: LogBarrierState) -> npt.NDArray[np.float64]:
    return state.weights


@implement(assign, LogBarrierState)
def log_barrier_assign(state: LogBarrierState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, LogBarrierState)
def log_barrier_learn(state: LogBarrierState, ticket: Ticket, reward: float) -> None:
    estimates = state.estimates
    record(state.counts, ticket.arm, reward)
    # A full reward is no loss, and the probabilities stay as they are.
    if reward < 1.0:
        add_loss(estimates.losses, ticket.arm, 1.0 - reward, ticket.probability)
        _solve(state)


@inlined
def _solve(state: LogBarrierState) -> None:
    estimates = state.estimates
    estimates.normaliser[0] = power_weights(
        estimates.losses,
        state.learning_rate,
        LOGARITHMIC_BARRIER,
        estimates.normaliser[0],
        state.weights,
    )


def _place(state: LogBarrierState, arm: int, loss: float) -> None:
    state.estimates.losses[arm] = loss
    _solve(state)


ranks_arms(LogBarrierState, lambda state: state.estimates.losses, _place)
