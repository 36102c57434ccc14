"""EXP3: exponential weights on importance-weighted losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn
from armrace.kernels.sampling import choose_by_weights, total_weight
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import ranks_arms
from armrace.theory import exp3_any_rewards_regret

# Far above the least double, so that weights a factor of 1e-200 smaller still count.
_SMALLEST_WEIGHT = 1e-100


class Exp3State(NamedTuple):
    """Estimated losses; ``weights`` are ``exp(-rate * (loss - origin))``, not normalised."""

    losses: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    origin: npt.NDArray[np.float64]
    learning_rate: npt.NDArray[np.float64]
    counts: Counts


class Exp3(CountingPolicy, frozen=True, tag="exp3"):
    """Draws arms with probability proportional to ``exp(-learning_rate * estimated loss)``.

    A play of arm ``a`` with probability ``w`` adds ``(1 - reward)/w`` to its estimated loss.
    With the learning rate ``sqrt(2 ln K / (TK))``, the default, the expected regret against
    any fixed arm is at most ``sqrt(2 T K ln K)`` for whatever rewards an adversary fixes (this
    follows from the usual analysis of mirror descent with losses in [0, 1]); the regret is no
    smaller where rewards are mostly stochastic.

    >>> from armrace.kernels.generics import distribution, learn
    >>> state = Exp3(learning_rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5), reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.450166, 0.549834])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi, Freund and Schapire (2002); rate and bound as in Theorem 3.1 of "
        "Bubeck and Cesa-Bianchi (2012)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "The rate and its bound agree with formal restatements of the textbook form."
    )

    learning_rate: Annotated[
        float | None, Limits("step size; by default sqrt(2 ln K / (TK))", 0, low_open=True)
    ] = None

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        # The regret for any rewards, and what corruption hides of it.
        regret = exp3_any_rewards_regret(len(gaps) + 1, horizon, self.learning_rate)
        return Guarantee(min(regret + 2 * corruption, max(gaps) * horizon), failure=0.0)

    def start(self, arms: int, horizon: int) -> Exp3State:
        rate = self.learning_rate
        if rate is None:
            rate = math.sqrt(2 * math.log(arms) / (horizon * arms))
        return Exp3State(
            losses=np.zeros(arms),
            weights=np.ones(arms),
            origin=np.zeros(1),
            learning_rate=np.array([float(rate)]),
            counts=make_counts(arms),
        )


@implement(distribution, Exp3State)
def exp3_distribution(state: Exp3State, out: npt.NDArray[np.float64]) -> None:
    total = total_weight(state.weights)
    for arm in range(out.size):
        out[arm] = state.weights[arm] / total


@implement(choose, Exp3State)
def exp3_choose(state: Exp3State, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose_by_weights(state.weights, total_weight(state.weights), stream, eligible)


@implement(assign, Exp3State)
def exp3_assign(state: Exp3State, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, Exp3State)
def exp3_learn(state: Exp3State, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    if reward < 1.0:  # a full reward is no loss; to compute the same weight again takes 15 ns
        state.losses[arm] += (1.0 - reward) / ticket.probability
        state.weights[arm] = _weight(state, arm)
        # The cheap test comes first: unless this weight is tiny, not all of them are.
        if state.weights[arm] < _SMALLEST_WEIGHT and np.max(state.weights) < _SMALLEST_WEIGHT:
            _move_origin(state)


def _place(state: Exp3State, arm: int, loss: float) -> None:
    state.losses[arm] = loss
    _move_origin(state)


ranks_arms(Exp3State, lambda state: state.losses, _place)


@inlined
def _weight(state: Exp3State, arm: int) -> float:
    return math.exp(-state.learning_rate[0] * (state.losses[arm] - state.origin[0]))


@inlined
def _move_origin(state: Exp3State) -> None:
    """Measure losses from the smallest again, before all weights vanish."""
    state.origin[0] = np.min(state.losses)
    for arm in range(state.losses.size):
        state.weights[arm] = _weight(state, arm)
