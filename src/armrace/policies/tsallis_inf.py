"""Tsallis-INF: one algorithm for stochastic and adversarial rewards, with nothing to tune."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.estimates import (
    TSALLIS_ENTROPY,
    Estimates,
    add_loss,
    make_estimates,
    power_weights,
)
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import Stream
from armrace.policies.counting import CountingPolicy

__all__ = ["TsallisInf"]

_BASELINE = 0.5
_WITHOUT_BASELINE, _WITH_BASELINE = 0, 1
"""What a ticket notes: whether the baseline was taken off its arm's loss."""


class TsallisInfState(NamedTuple):
    """Estimated losses; the learning rate is ``rate_scale / sqrt(t)``."""

    counts: Counts
    estimates: Estimates
    rate_scale: float
    reduced_variance: bool


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
    ``2 sqrt(KT) + 14 K ln T + 16`` with ``rv`` and ``4 sqrt(KT) + 1`` with ``iw`` (that
    constant is quoted from memory). If the best arm is unique and the rewards are stochastic
    but for a corruption ``C``, then with ``rv`` and ``X = sum (ln T + 3)/gap + 2/least gap``
    it is at most ``X + 28 K ln T + 1.5 sqrt(K) + 32 + C``, in the sense of ``C`` of
    self-bounding environments (at most twice ours, from memory). All this is in expectation;
    nothing is said of the tail.

    >>> state = TsallisInf(estimator="iw").start(arms=2, horizon=100)
    >>> state.estimates.losses[:] = 2.0, 0.0
    >>> state.counts.rounds[0] = 1
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.159375, 0.840625])
    """

    reference: ClassVar[str] = (
        "Zimmert and Seldin (2021), Tsallis-INF: an optimal algorithm for stochastic and "
        "adversarial bandits"
    )

    estimator: Annotated[
        Literal["rv", "iw"], "estimator of losses: reduced variance or importance weighting"
    ] = "rv"

    def start(self, arms: int, horizon: int) -> TsallisInfState:
        reduced = self.estimator == "rv"
        return TsallisInfState(
            counts=make_counts(arms),
            estimates=make_estimates(arms),
            rate_scale=4.0 if reduced else 2.0,
            reduced_variance=reduced,
        )


@inlined
def _learning_rate(state: TsallisInfState) -> float:
    return state.rate_scale / math.sqrt(state.counts.rounds[0] + 1)


@inlined
def _solve(state: TsallisInfState, rate: float, out: npt.NDArray[np.float64]) -> float:
    estimates = state.estimates
    return power_weights(
        estimates.losses, 0.5 * rate, TSALLIS_ENTROPY, estimates.normaliser[0], out
    )


@implement(distribution, TsallisInfState)
def tsallis_inf_distribution(state: TsallisInfState, out: npt.NDArray[np.float64]) -> None:
    _solve(state, _learning_rate(state), out)


@implement(decide, TsallisInfState)
def tsallis_inf_decide(state: TsallisInfState, stream: Stream) -> Ticket:
    estimates, rate = state.estimates, _learning_rate(state)
    weights = estimates.weights
    estimates.normaliser[0] = _solve(state, rate, weights)
    arm = draw_arm(weights, 1.0, stream)
    assign(state.counts, arm)
    note = _WITHOUT_BASELINE
    if state.reduced_variance:
        threshold = rate * rate
        note = _WITH_BASELINE if weights[arm] >= threshold else _WITHOUT_BASELINE
        for other in range(weights.size):
            if weights[other] >= threshold:
                estimates.losses[other] += _BASELINE
    return Ticket(arm, 0, weights[arm], note)


@implement(learn, TsallisInfState)
def tsallis_inf_learn(state: TsallisInfState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    baseline = _BASELINE if ticket.note == _WITH_BASELINE else 0.0
    record(state.counts, arm, reward)
    add_loss(state.estimates.losses, arm, 1.0 - reward - baseline, ticket.probability)
