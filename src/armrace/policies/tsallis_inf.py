"""Tsallis-INF: one algorithm for stochastic and adversarial rewards, with nothing to tune."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn, stamped
from armrace.policies.base import Guarantee
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.estimates import (
    TSALLIS_ENTROPY,
    Estimates,
    Solution,
    add_loss,
    draws_from_solution,
    make_estimates,
    make_solution,
    power_weights,
    ranks_arms,
)
from armrace.theory import tsallis_inf_regret

_BASELINE = 0.5
"""Added to the estimated loss of every likely arm when a decision is assigned; the memo of a
ticket is what its own arm got."""


class TsallisInfState(NamedTuple):
    """Estimated losses; the learning rate is ``rate_scale / sqrt(t)``."""

    counts: Counts
    estimates: Estimates
    rate_scale: float
    reduced_variance: bool
    scratch: Solution


class TsallisInf(CountingPolicy, frozen=True, tag="tsallis-inf"):
    """Draws arms with probability ``4 / (learning_rate * (estimated loss - x))^2``.

    The number ``x`` makes the probabilities sum to 1; they minimise the estimated loss
    regularised by Tsallis entropy of power 1/2. With importance weighting (``iw``) the rate
    is ``2/sqrt(t)`` and a play of arm ``a`` adds ``loss/w`` to its estimate. With reduced
    variance (``rv``) the rate is ``4/sqrt(t)``, each round adds a baseline 1/2 to every arm
    whose probability is at least the rate's square, and the play adds
    ``(loss - baseline)/w``. The baselines are added at the decision; a ticket notes whether
    its arm had one, so that a late reward leaves the estimate unbiased.

    For whatever rewards an adversary fixes, the expected regret is at most
    ``2 sqrt(KT) + 14 K ln T + 16`` with ``rv`` (Theorem 1; its display has 10 where its proof
    has 14) and ``4 sqrt(KT) + 1`` with ``iw``. Let ``C`` be the constant of self-bounding
    environments, which is at most twice the corruption, and ``S = sum 1/gap``. If the best arm
    is unique, then with ``rv`` and ``X = sum (ln T + 3)/gap + 2/least gap`` the regret is at most

    - ``X + 28 K ln T + 1.5 sqrt(K) + 32 + C``;
    - ``2 sqrt(X C) + 28 K ln T + 1.5 sqrt(K) + 32`` if ``C > X``;
    - ``S (ln(T (K - 1)/S^2) + 6) + 28 K ln T + 1.5 sqrt(K) + 30 + C``, by Masoudian and Seldin,
      who also show ``2 sqrt((K-1) T) + sqrt(T)/2 + 14 K ln T + 0.75 sqrt(K) + 15`` for
      adversarial rewards;

    and with ``iw`` and ``C = 0`` at most ``sum (4 ln T + 68)/gap + 4 sqrt(K)``. With ``iw`` the
    best arm need not be unique for an order of ``S ln T + sqrt(C S ln T) + K + D``, with a ``D``
    that the paper defines (Ito 2021, Theorem 2). The bounds for ``iw`` without a gap, and those of
    Masoudian and Seldin (Theorem 3) and of Ito, are checked against the papers; the others are as
    restated in a transcription of Zimmert and Seldin. All of this is in expectation, and nothing
    like it can hold with high probability: if the stochastic regret of an algorithm is of order
    ``ln^b T`` with ``b < 2``, then for all ``a < 1`` and ``e > 0`` there are fixed rewards for
    which its regret is of order ``T^a`` with a probability of order ``T^-e`` (Auer and Chiang
    2016, Theorem 1, checked against the paper).

    >>> import numpy as np
    >>> from armrace.kernels.generics import distribution
    >>> state = TsallisInf(estimator="iw").start(arms=2, horizon=100)
    >>> state.estimates.losses[:] = 2.0, 0.0
    >>> state.counts.rounds[0] = 1
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.159375, 0.840625])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Zimmert and Seldin (2021), Tsallis-INF: an optimal algorithm for stochastic and "
        "adversarial bandits; Masoudian and Seldin (2021), Improved analysis of the Tsallis-INF "
        "algorithm in stochastically constrained adversarial bandits and stochastic bandits with "
        "adversarial corruptions"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "Rates, estimators and bounds agree with restatements of the JMLR paper and with the "
        "AISTATS print; where display and proof differ (10 or 14 K ln T) the larger constant "
        "is used."
    )

    estimator: Annotated[
        Literal["rv", "iw"], "estimator of losses: reduced variance or importance weighting"
    ] = "rv"

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        bound = tsallis_inf_regret(gaps, horizon, corruption, self.estimator == "rv")
        return Guarantee(bound, failure=0.0)

    def start(self, arms: int, horizon: int) -> TsallisInfState:
        reduced = self.estimator == "rv"
        return TsallisInfState(
            counts=make_counts(arms),
            estimates=make_estimates(arms),
            rate_scale=4.0 if reduced else 2.0,
            reduced_variance=reduced,
            scratch=make_solution(arms),
        )


@inlined
def _learning_rate(state: TsallisInfState) -> float:
    return state.rate_scale / math.sqrt(state.counts.rounds[0] + 1)


@draws_from_solution(TsallisInfState)
@inlined
def solve_tsallis_inf(state: TsallisInfState) -> Solution:
    """The probabilities of the next decision."""
    estimates, solution = state.estimates, state.scratch
    if not solution.up_to_date[0]:
        solution.normaliser[0] = power_weights(
            estimates.losses,
            # w = 4/(rate (loss - x))^2 is the square of 1/(rate/2 (loss - x)).
            0.5 * _learning_rate(state),
            TSALLIS_ENTROPY,
            estimates.normaliser[0],
            solution.weights,
        )
        solution.up_to_date[0] = True
    return solution


@implement(assign, TsallisInfState)
def tsallis_inf_assign(state: TsallisInfState, ticket: Ticket) -> Ticket:
    estimates, solution = state.estimates, solve_tsallis_inf(state)
    # Scratch space is not saved, but a restored state must solve from the same start.
    estimates.normaliser[0] = solution.normaliser[0]
    # Reduced variance: every likely arm is charged the baseline now, and the reward of the played
    # one later adds only its difference from the baseline. The ticket keeps which baseline it was,
    # so that a late reward leaves the estimate unbiased.
    baseline = 0.0
    if state.reduced_variance:
        rate = _learning_rate(state)
        threshold = rate * rate
        for arm in range(solution.weights.size):
            estimates.losses[arm] += _BASELINE if solution.weights[arm] >= threshold else 0.0
        if solution.weights[ticket.arm] >= threshold:
            baseline = _BASELINE
    # Only now: the rate of this decision is that of the rounds before it.
    count_play(state.counts, ticket.arm)
    solution.up_to_date[0] = False
    return stamped(ticket, 0, baseline)


@implement(learn, TsallisInfState)
def tsallis_inf_learn(state: TsallisInfState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    loss = 1.0 - reward - ticket.memo
    add_loss(state.estimates.losses, ticket.arm, loss, ticket.probability)
    state.scratch.up_to_date[0] = False


def _place(state: TsallisInfState, arm: int, loss: float) -> None:
    state.estimates.losses[arm] = loss
    state.scratch.up_to_date[0] = False


ranks_arms(TsallisInfState, lambda state: state.estimates.losses, _place)
