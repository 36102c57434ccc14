"""EXP3, EXP3-IX and EXP3.P: exponential weights of estimated losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn, stamped
from armrace.kernels.sampling import choose_by_weights, total_weight
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    ExponentialGains,
    add_bonuses,
    add_loss,
    add_reward,
    draws_from_weights,
    exponential_weights,
    gain_probabilities,
    make_gains,
    ranks_arms,
)
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


class Exp3IxState(NamedTuple):
    """Estimated losses; where ``anytime``, both rates are divided by ``sqrt(t)``."""

    counts: Counts
    losses: npt.NDArray[np.float64]
    learning_rate: float
    exploration: float
    anytime: bool
    scratch: npt.NDArray[np.float64]


class Exp3Ix(CountingPolicy, frozen=True, tag="exp3-ix"):
    """Draws arms as EXP3 does, from losses estimated by ``loss / (probability + exploration)``.

    The exploration in the denominator biases estimates downwards a little and limits their
    variance, as a guarantee with high probability requires; no arm is drawn only to explore. With
    the horizon known, the learning rate is ``sqrt(2 ln K/(KT))`` and the exploration half of it:
    with probability ``1 - delta``, for any ``delta``, the regret is at most ``2 sqrt(2KT ln K) +
    (sqrt(2KT/ln K) + 1) ln(2/delta)``. With ``anytime`` the rate in round ``t`` is ``sqrt(ln
    K/(Kt))`` and the bound ``4 sqrt(KT ln K) + (2 sqrt(KT/ln K) + 1) ln(2/delta)``. The rates for a
    known horizon are as restated by others from the paper, those with ``anytime`` from memory. Both
    bounds follow from the paper's lemmas, which give them even with half the factor of
    ``ln(2/delta)`` under the root; that the paper prints them as here is from memory. A late reward
    is weighed with the exploration of its decision's round, the memo of its ticket.

    >>> from armrace.kernels.generics import distribution
    >>> state = Exp3Ix(learning_rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5, memo=0.05), reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.45467, 0.54533])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Neu (2015), Explore no more: improved high-probability regret bounds for non-stochastic "
        "bandits"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "The rates agree with a restatement; the bounds follow from the paper's lemmas and "
        "were derived again, the print was not available."
    )

    anytime: Annotated[bool, "whether rates fall with time instead of fitting the horizon"] = False
    learning_rate: Annotated[
        float | None, Limits("fixed step size; by default sqrt(2 ln K / (KT))", 0, low_open=True)
    ] = None
    exploration: Annotated[
        float | None, Limits("implicit exploration; by default half the learning rate", 0)
    ] = None

    def validate(self) -> None:
        if self.anytime and (self.learning_rate is not None or self.exploration is not None):
            raise InvalidParameter(
                "anytime sets the rates itself; it goes with neither learning_rate nor exploration."
            )

    def start(self, arms: int, horizon: int) -> Exp3IxState:
        rate = self.learning_rate
        if self.anytime:
            # Divided by sqrt(t) in each round, see ``_at_round``.
            rate = math.sqrt(math.log(arms) / arms)
        elif rate is None:
            rate = math.sqrt(2 * math.log(arms) / (arms * horizon))
        exploration = 0.5 * rate if self.exploration is None else self.exploration
        return Exp3IxState(
            counts=make_counts(arms),
            losses=np.zeros(arms),
            scratch=np.zeros(arms),
            learning_rate=float(rate),
            exploration=float(exploration),
            anytime=self.anytime,
        )


@inlined
def _at_round(state: Exp3IxState, rate: float, number: int) -> float:
    """Return a rate in the round with this number."""
    return rate / math.sqrt(max(number, 1)) if state.anytime else rate


@draws_from_weights(Exp3IxState)
@inlined
def _ix_weights(state: Exp3IxState) -> npt.NDArray[np.float64]:
    rate = _at_round(state, state.learning_rate, state.counts.rounds[0] + 1)
    exponential_weights(state.losses, rate, state.scratch)
    return state.scratch


@implement(assign, Exp3IxState)
def exp3_ix_assign(state: Exp3IxState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return stamped(ticket, 0, _at_round(state, state.exploration, state.counts.rounds[0]))


@implement(learn, Exp3IxState)
def exp3_ix_learn(state: Exp3IxState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    add_loss(state.losses, ticket.arm, 1.0 - reward, ticket.probability + ticket.memo)


ranks_arms(
    Exp3IxState,
    lambda state: state.losses,
    lambda state, arm, loss: np.put(state.losses, arm, loss),
)


class Exp3PState(NamedTuple):
    """Counts, and the estimated gains with their rates."""

    counts: Counts
    exponential: ExponentialGains


class Exp3P(CountingPolicy, frozen=True, tag="exp3p"):
    """Mixes exponential weights on optimistically estimated gains with uniform exploration.

    The probabilities are ``w = (1 - g) softmax(h G) + g/K``. A round with reward ``r`` for
    arm ``a`` adds ``(r [i = a] + b)/w[i]`` to the gain ``G[i]`` of *every* arm, where
    ``b = sqrt(ln(K/delta)/(TK))``, ``h = 0.95 sqrt(ln K/(TK))`` and
    ``g = 1.05 sqrt(K ln K/T)``, at most 1. The bonuses ``b/w[i]`` do not depend on the
    reward and are added at the decision, so that late rewards find them there.

    With probability ``1 - delta`` the regret against the best fixed arm is at most
    ``5.15 sqrt(TK ln(K/delta))``, even if the adversary sees the past. Without ``delta``,
    ``b = sqrt(ln K/(TK))`` and the bound is, for every ``delta`` at once,
    ``sqrt(TK/ln K) ln(1/delta) + 5.15 sqrt(TK ln K)``, so that the expected regret is at most
    ``5.15 sqrt(TK ln K) + sqrt(TK/ln K)``. Rates and bounds are those of Theorem 3.2 of Bubeck
    and Cesa-Bianchi, as restated in a transcription of it. The regret is no smaller where rewards
    are mostly stochastic.

    >>> state = Exp3P(delta=0.01).start(arms=10, horizon=10_000)
    >>> state.exponential.rates.round(8)
    array([0.00831129, 0.0045586 , 0.05038452])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi, Freund and Schapire (2002); rates and bounds as in Theorem 3.2 of "
        "Bubeck and Cesa-Bianchi (2012)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "The three rates and the constant 5.15 agree with a restatement of Theorem 3.2 of "
        "Bubeck and Cesa-Bianchi (2012)."
    )

    delta: Annotated[
        float | None,
        Limits(
            "probability with which the guarantee may fail; null for one that holds for all",
            0,
            1,
            low_open=True,
            high_open=True,
        ),
    ] = 0.05

    def start(self, arms: int, horizon: int) -> Exp3PState:
        log_confidence = math.log(arms if self.delta is None else arms / self.delta)
        return Exp3PState(make_counts(arms), make_gains(arms, horizon, log_confidence))


@draws_from_weights(Exp3PState)
@inlined
def _p_weights(state: Exp3PState) -> npt.NDArray[np.float64]:
    return gain_probabilities(state.exponential)


@implement(assign, Exp3PState)
def exp3p_assign(state: Exp3PState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    add_bonuses(state.exponential)
    return ticket


@implement(learn, Exp3PState)
def exp3p_learn(state: Exp3PState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    add_reward(state.exponential, ticket.arm, ticket.probability, reward)
