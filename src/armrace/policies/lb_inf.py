"""LB-INF and LB-INF-V: optimistic leaders with a log barrier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, learn
from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.common.counts import CountingPolicy, Counts, make_counts, record
from armrace.policies.leaders.barrier import barrier_weights, hybrid_barrier_weights
from armrace.policies.leaders.estimates import (
    Expectation,
    PredictedLosses,
    Solution,
    add_loss,
    expect_losses,
    make_expectation,
    make_predicted_losses,
    mean_loss,
    predicts_losses,
)
from armrace.theory import lb_inf_proof, lb_inf_regret

_FIRST_SCALE = 2.0
_PROVEN_RATES = (0.0, 0.25)
"""The prediction rates for which the paper has constants."""


class LbInfState(NamedTuple):
    """Estimated and predicted losses, and the scale of each arm's barrier."""

    counts: Counts
    estimates: PredictedLosses
    scales: npt.NDArray[np.float64]
    growth: float
    """``1 / ln T``: how fast scales grow with the errors of predictions."""
    prediction_rate: float
    scratch: Expectation


class LbInf(CountingPolicy, frozen=True, tag="lb-inf"):
    """Draws arms with probability ``scale / (estimated + predicted loss - x)``.

    The number ``x`` makes the probabilities ``p`` sum to 1. Predictions ``m`` are 1/2 at first and
    scales 2. A play of arm ``i`` with the loss ``l`` adds ``m[j]`` to the estimate of every arm
    and ``(l - m[i])/p[i]`` to that of arm ``i``. Scales then grow by ``v[j]/(2 scale[j] ln T)``,
    where ``v[i] = (l - m[i])^2 (1 - p[i])^2`` and ``v[j] = (l - m[i])^2 p[j]^2`` for the others,
    and the prediction of arm ``i`` moves towards ``l`` by ``prediction_rate``, the paper's 1/4.

    Let ``S = sum 1/gap`` and ``C`` the constant of self-bounding environments, which is at most
    twice the corruption. If the best arm is unique, the expected regret is at most
    ``36 S ln T + 6 sqrt(S (C + 3 K ln T) ln T) + 3 K ln T``, and with a ``prediction_rate`` of 0 at
    most ``9 S ln T + 3 sqrt(S (C + 3 K ln T) ln T) + 3 K ln T``, by the paper. The barrier theorem
    of the theory page has ``16.8 S ln T`` in place of the first term, whatever the rate, and
    ``guarantee`` computes its smaller figure for given gaps. For whatever rewards an adversary
    fixes, it is at most ``6 sqrt(K ln T min(L, Q, 8 V)) + 54 K ln T``, where ``L`` is the loss of
    the best arm, ``Q`` the sum of squared distances of the losses from their mean, and ``V`` the
    sum of their changes from round to round. Algorithm and bounds are checked against the paper;
    all are in expectation.

    Predictions are charged at the decision, and a ticket keeps that of its arm, so that a late
    reward leaves the estimate unbiased. The other arms' probabilities in ``v`` are those of the
    latest decision: exact where rewards come at once.

    >>> from armrace.kernels.generics import assign, distribution
    >>> state = LbInf().start(arms=2, horizon=100)
    >>> ticket = assign(state, Ticket(arm=0, probability=0.5))
    >>> learn(state, ticket, reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.431138, 0.568862])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Ito (2021), Parameter-free multi-armed bandit algorithms with hybrid data-dependent "
        "regret bounds"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = "Algorithm and bounds were read in the COLT paper, pages 10 to 13."

    prediction_rate: Annotated[
        float, Limits("how far a loss moves the prediction of its arm; 0 for none", 0, 0.5)
    ] = 0.25

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        bounds, predicts = [], self.prediction_rate > 0
        # The paper's constants are for a unique best arm, and its rate 1/ln T needs two rounds.
        if min(gaps) > 0 and self.prediction_rate in _PROVEN_RATES and horizon >= 2:
            bounds.append(lb_inf_regret(gaps, horizon, corruption, predicts))
        if horizon >= 2 * (len(gaps) + 1):
            proof = lb_inf_proof(len(gaps) + 1, horizon, predicts)
            bounds.append(proof.regret(gaps, corruption))
        return Guarantee(min(bounds), failure=0.0) if bounds else None

    def start(self, arms: int, horizon: int) -> LbInfState:
        return LbInfState(
            counts=make_counts(arms),
            estimates=make_predicted_losses(arms),
            scales=np.full(arms, _FIRST_SCALE),
            growth=1.0 / math.log(max(horizon, 2)),
            prediction_rate=float(self.prediction_rate),
            scratch=make_expectation(arms),
        )


@predicts_losses(LbInfState)
@inlined
def solve_lb_inf(state: LbInfState) -> Solution:
    """The probabilities of the next decision."""
    estimates, solution = state.estimates, state.scratch.solution
    if not solution.up_to_date[0]:
        expect_losses(estimates, state.scratch.losses)
        solution.normaliser[0] = barrier_weights(
            state.scratch.losses, state.scales, estimates.normaliser[0], solution.weights
        )
        solution.up_to_date[0] = True
    return solution


@inlined
def _grown(scale: float, deviation: float, growth: float) -> float:
    return scale + growth * deviation * deviation / (2.0 * scale)


@implement(learn, LbInfState)
def lb_inf_learn(state: LbInfState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    estimates, scales, loss = state.estimates, state.scales, 1.0 - reward
    error, before = loss - ticket.memo, scales[ticket.arm]
    add_loss(estimates.losses, ticket.arm, error, ticket.probability)
    # All arms alike, and then the played one again: without a case distinction, compiled code
    # does several divisions at a time.
    for arm in range(scales.size):
        scales[arm] = _grown(scales[arm], error * estimates.weights[arm], state.growth)
    deviation = error * (1.0 - ticket.probability)
    scales[ticket.arm] = _grown(before, deviation, state.growth)
    rate = state.prediction_rate
    # Last, as in the paper: the error above is that of the prediction before this loss.
    estimates.predictions[ticket.arm] = (1.0 - rate) * estimates.predictions[ticket.arm] + (
        rate * loss
    )
    state.scratch.solution.up_to_date[0] = False


class LbInfVState(NamedTuple):
    """Estimated and predicted losses, and the scale of each arm's barrier."""

    counts: Counts
    estimates: PredictedLosses
    scales: npt.NDArray[np.float64]
    variations: npt.NDArray[np.float64]
    """Squared errors of predictions, of which less counts for arms of probability near 1."""
    first_scale: float
    log_horizon: float
    scratch: Expectation


class LbInfV(CountingPolicy, frozen=True, tag="lb-inf-v"):
    """Draws arms by estimated plus predicted losses and a barrier that each arm's variance sets.

    With ``g = ln T`` and ``f(p) = p - 1 - ln p + g (p + (1 - p) ln(1 - p))``, the probabilities
    minimise ``<p, losses + m> + sum scale[i] f(p[i])``. The prediction of an arm that lost ``s``
    in ``n`` plays is ``m = (1/2 + s)/(1 + n)``. A play of arm ``i`` with the loss ``l`` adds
    ``m[j]`` to the estimate of every arm and ``(l - m[i])/p[i]`` to that of arm ``i``. The scale
    of an arm is ``sqrt((1 + epsilon)^2 + V/g)``, where a play adds
    ``(l - m[i])^2 min(1, 2 (1 - p[i])/(p[i]^2 g))`` to its ``V``.

    With stochastic rewards, a unique best arm and variances ``s2``, the expected regret is at most
    ``(2 (1 + epsilon) + sum M) ln T + O(sqrt(ln T))``, where the sum is over the other arms and
    ``M = max(8 s2/gap + c ln(1 + 2 s2/gap), 2 (1 + epsilon))`` with ``c`` of order
    ``ln^2(1/epsilon)``. A corruption ``C`` turns that, ``R``, into an order of ``R + sqrt(C R)``.
    For whatever rewards an adversary fixes, the leading term is
    ``sqrt(4 K ln T min(L, T - L, Q))``, where ``L`` is the loss of the best arm and ``Q`` the sum
    of squared distances of the losses from their mean; terms of order ``K ln T + K^2`` follow.

    This is the algorithm of Tsuchiya, Ito and Honda (2023) for combinatorial semi-bandits with its
    prediction by least squares, checked against the paper, where each action is one arm. The
    LB-INF-V of Ito, Tsuchiya and Honda (2022) may differ in details; its authors claim a leading
    constant of almost twice the lower bound's, which is better than the one above. The default of
    ``epsilon`` is this library's choice.

    Predictions are charged at the decision, and a ticket keeps that of its arm, so that a late
    reward leaves the estimate unbiased.

    >>> from armrace.kernels.generics import assign, distribution
    >>> state = LbInfV().start(arms=2, horizon=100)
    >>> ticket = assign(state, Ticket(arm=0, probability=0.5))
    >>> learn(state, ticket, reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.461322, 0.538678])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Tsuchiya, Ito and Honda (2023), Further adaptive best-of-both-worlds algorithm for "
        "combinatorial semi-bandits; Ito, Tsuchiya and Honda (2022), Adversarially robust "
        "multi-armed bandit algorithm with variance-dependent regret bounds"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Read in the AISTATS paper on combinatorial semi-bandits, pages 5 and 6, of which "
        "this is the case of one arm a round."
    )

    epsilon: Annotated[
        float, Limits("how far the first scale exceeds 1", 0, 0.5, low_open=True)
    ] = 0.25

    def start(self, arms: int, horizon: int) -> LbInfVState:
        first = 1.0 + float(self.epsilon)
        return LbInfVState(
            counts=make_counts(arms),
            estimates=make_predicted_losses(arms),
            scales=np.full(arms, first),
            variations=np.zeros(arms),
            first_scale=first,
            log_horizon=math.log(max(horizon, 2)),
            scratch=make_expectation(arms),
        )


@predicts_losses(LbInfVState)
@inlined
def solve_lb_inf_v(state: LbInfVState) -> Solution:
    """The probabilities of the next decision."""
    estimates, solution = state.estimates, state.scratch.solution
    if not solution.up_to_date[0]:
        expect_losses(estimates, state.scratch.losses)
        solution.normaliser[0] = hybrid_barrier_weights(
            state.scratch.losses,
            state.scales,
            state.log_horizon,
            estimates.weights,
            estimates.normaliser[0],
            solution.weights,
        )
        solution.up_to_date[0] = True
    return solution


@implement(learn, LbInfVState)
def lb_inf_v_learn(state: LbInfVState, ticket: Ticket, reward: float) -> None:
    arm, probability = ticket.arm, ticket.probability
    record(state.counts, arm, reward)
    error = 1.0 - reward - ticket.memo
    add_loss(state.estimates.losses, arm, error, probability)
    counted = 2.0 * (1.0 - probability)
    limit = probability * probability * state.log_horizon
    # min(1, counted/limit) without a division by the square of a tiny probability, which may be 0.
    state.variations[arm] += error * error * (counted / limit if counted < limit else 1.0)
    variation = state.variations[arm] / state.log_horizon
    state.scales[arm] = math.sqrt(state.first_scale * state.first_scale + variation)
    # By least squares ("LS" in the paper), from counts that already include this reward.
    state.estimates.predictions[arm] = mean_loss(state.counts, arm)
    state.scratch.solution.up_to_date[0] = False
