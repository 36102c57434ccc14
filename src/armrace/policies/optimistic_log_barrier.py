"""A leader with a logarithmic barrier that discounts the bad luck of its own estimates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, learn, stamped
from armrace.kernels.states import grown_by
from armrace.policies.base import Guarantee
from armrace.policies.common.constants import rounded_log
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.leaders.barrier import (
    FirstScale,
    Optimism,
    ScaleGrowth,
    arm_of_least_loss,
    barrier_weights,
)
from armrace.policies.leaders.estimates import (
    Expectation,
    PredictedLosses,
    Solution,
    add_loss,
    charge_predictions,
    draws_from_solution,
    make_expectation,
    make_predicted_losses,
    mean_loss,
    ranks_arms,
)
from armrace.theory.barriers import BarrierProof
from armrace.theory.eliminations import gaps_of

_FIRST_SPREAD = 0.25
"""The mean squared error of predictions counts as if one error of 1/2 had been seen."""
_SMALLEST_PROBABILITY = 1e-200

Floats = npt.NDArray[np.float64]


class Spreads(NamedTuple):
    """Mean squared errors of predictions: of each arm, and of all arms together."""

    own: Floats
    pooled: Floats
    rewards: npt.NDArray[np.int64]
    """The number of errors in ``pooled``."""


class BarrierScratch(NamedTuple):
    """Scratch space: the problem whose solution is the next decision."""

    expectation: Expectation
    scales: Floats


class OptimisticLogBarrierState(NamedTuple):
    """Estimated and predicted losses, and what is known about their errors."""

    counts: Counts
    estimates: PredictedLosses
    variations: Floats
    """Sums of squared errors, weighted by probabilities: the scales grow with their roots."""
    variances: Floats
    """Estimated variances of the estimated losses."""
    spreads: Spreads
    optimism: float
    first_scale: float
    growth: float
    """``scale_growth / ln T``."""
    scratch: BarrierScratch


class OptimisticLogBarrier(CountingPolicy, frozen=True, tag="optimistic-log-barrier"):
    """Draws arms with probability ``scale / (loss + prediction - optimism * deviation - x)``.

    The number ``x`` makes the probabilities ``p`` sum to 1. The prediction of an arm that lost
    ``s`` in ``n`` plays is ``m = (1/2 + s)/(1 + n)``. A play of arm ``i`` with the loss ``l`` adds
    ``m[j]`` to the estimated loss of every arm and ``(l - m[i])/p[i]`` to that of arm ``i``. The
    scale of an arm is ``first_scale + sqrt(scale_growth * sum v/ln T)``, where
    ``v[i] = (l - m[i])^2 (1 - p[i])^2`` and ``v[j] = (l - m[i])^2 p[j]^2`` for the others. Its
    deviation is the root of the estimated variance of its loss, to which each round adds
    ``s2 (1 - p)/p``: ``s2`` is the mean squared error of the predictions of the arm or of all
    arms, whichever is larger, and a first error of 1/2 counts for both.

    Large estimated losses that come from a few plays with small probabilities are what makes other
    leaders abandon a good arm for long. The deviation measures that, and subtracting it brings the
    arm back. Optimism is the one parameter to weigh, and three of its values have names.
    *Thrifty*, 0.1, explores less: it loses least without corruption, and where there are thirty
    arms or more. *Steady*, 1, explores more: under attack it loses much more than on average least
    often, which suits few arms. *Balanced*, 0.5, lies between and is the default. Without optimism
    this is LB-INF with another prediction and slower scales.

    Let ``Z = sum ln T/gap`` and ``C`` the corruption. If the best arm is unique and
    ``first_scale > 1 + optimism/2``, the expected pseudo-regret is at most
    ``2 C + G + A^2 + A sqrt(2 C + G)``, where ``A`` is a constant times ``sqrt(Z)`` and ``G`` one
    times ``K ln T``. For whatever rewards an adversary fixes, the expected regret is at most ``G``
    plus a constant times ``sqrt(K T ln T)``. The theory page proves this, with constants, and
    smaller figures for given gaps and variances, which ``guarantee`` computes.

    Predictions are charged at the decision, and a ticket keeps that of its arm, so that a late
    reward leaves the estimate unbiased. The other arms' probabilities in ``v`` are those of the
    latest decision: exact where rewards come at once. An arm that is added while it runs starts
    with the estimated loss that makes it as good as the best so far.

    >>> from armrace.kernels.generics import assign, distribution
    >>> state = OptimisticLogBarrier().start(arms=2, horizon=100)
    >>> ticket = assign(state, Ticket(arm=0, probability=0.5))
    >>> learn(state, ticket, reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.42576, 0.57424])
    """

    family: ClassVar[str] = "adversarial"
    draws_by_weights: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "this library's; of the family of Ito (2021), Parameter-free multi-armed bandit algorithms "
        "with hybrid data-dependent regret bounds, and Tsuchiya, Ito and Honda (2023) for the "
        "prediction"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "Its theorem is proved on the theory page, for the parameters named there, which "
        "include the defaults."
    )
    takes_new_arms: ClassVar[bool] = True

    optimism: Optimism = 0.5
    first_scale: FirstScale = 2.0
    scale_growth: ScaleGrowth = 0.25

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        return self._guarantee(gaps, horizon, corruption, None)

    def guarantee_at(
        self, means: Sequence[float], horizon: int, corruption: float
    ) -> Guarantee | None:
        # Rewards in [0, 1] with the mean m have a variance of at most m (1 - m).
        best, gaps = max(means), gaps_of(means)
        variances = [mean * (1 - mean) for mean in (best, *(best - gap for gap in gaps))]
        return self._guarantee(gaps, horizon, corruption, variances)

    def _guarantee(
        self,
        gaps: Sequence[float],
        horizon: int,
        corruption: float,
        variances: Sequence[float] | None,
    ) -> Guarantee | None:
        growth = self.scale_growth / rounded_log(max(horizon, 2))
        proof = BarrierProof(len(gaps) + 1, horizon, self.first_scale, growth, self.optimism)
        if not proof.covers:
            return None
        return Guarantee(proof.regret(gaps, corruption, variances), failure=0.0)

    def start(self, arms: int, horizon: int) -> OptimisticLogBarrierState:
        return OptimisticLogBarrierState(
            counts=make_counts(arms),
            estimates=make_predicted_losses(arms),
            variations=np.zeros(arms),
            variances=np.zeros(arms),
            spreads=Spreads(
                own=np.full(arms, _FIRST_SPREAD),
                pooled=np.full(1, _FIRST_SPREAD),
                rewards=np.zeros(1, dtype=np.int64),
            ),
            optimism=float(self.optimism),
            first_scale=float(self.first_scale),
            growth=self.scale_growth / rounded_log(max(horizon, 2)),
            scratch=BarrierScratch(make_expectation(arms), np.zeros(arms)),
        )


@inlined
def _pose_problem(state: OptimisticLogBarrierState) -> None:
    """Write expected losses and scales into scratch space."""
    estimates, expected, scales = state.estimates, state.scratch.expectation, state.scratch.scales
    for arm in range(scales.size):
        expected.losses[arm] = (
            estimates.losses[arm]
            + estimates.predictions[arm]
            - state.optimism * math.sqrt(state.variances[arm])
        )
    for arm in range(scales.size):
        scales[arm] = state.first_scale + math.sqrt(state.growth * state.variations[arm])


@draws_from_solution(OptimisticLogBarrierState)
@inlined
def solve_optimistic_log_barrier(state: OptimisticLogBarrierState) -> Solution:
    """The probabilities of the next decision."""
    scratch, solution = state.scratch, state.scratch.expectation.solution
    if not solution.up_to_date[0]:
        _pose_problem(state)
        solution.normaliser[0] = barrier_weights(
            scratch.expectation.losses,
            scratch.scales,
            state.estimates.normaliser[0],
            solution.weights,
        )
        solution.up_to_date[0] = True
    return solution


@implement(assign, OptimisticLogBarrierState)
def optimistic_log_barrier_assign(state: OptimisticLogBarrierState, ticket: Ticket) -> Ticket:
    solution, prediction = (
        solve_optimistic_log_barrier(state),
        state.estimates.predictions[ticket.arm],
    )
    variances, own, pooled = state.variances, state.spreads.own, state.spreads.pooled[0]
    # At the decision and for every arm: in the proof the next optimism is known once the
    # probabilities are (theory page, Barrier lemma 1).
    for arm in range(variances.size):
        probability = max(solution.weights[arm], _SMALLEST_PROBABILITY)
        variances[arm] += max(own[arm], pooled) * (1.0 - probability) / probability
    charge_predictions(state.estimates, solution)
    count_play(state.counts, ticket.arm)
    return stamped(ticket, 0, prediction)


@implement(learn, OptimisticLogBarrierState)
def optimistic_log_barrier_learn(
    state: OptimisticLogBarrierState, ticket: Ticket, reward: float
) -> None:
    arm, estimates, variations = ticket.arm, state.estimates, state.variations
    error = 1.0 - reward - ticket.memo
    record(state.counts, arm, reward)
    add_loss(estimates.losses, arm, error, ticket.probability)
    # One loop for all arms, without a condition; the played arm gets its own value afterwards.
    deviation, before = error * (1.0 - ticket.probability), variations[arm]
    for other in range(variations.size):
        share = error * estimates.weights[other]
        variations[other] += share * share
    variations[arm] = before + deviation * deviation
    _learn_spread(state, arm, error * error)
    estimates.predictions[arm] = mean_loss(state.counts, arm)
    state.scratch.expectation.solution.up_to_date[0] = False


@inlined
def _learn_spread(state: OptimisticLogBarrierState, arm: int, square: float) -> None:
    """Move the mean squared errors; a forged memo may give an error above 1."""
    own, pooled, rewards = state.spreads.own, state.spreads.pooled, state.spreads.rewards
    seen = min(square, 1.0)
    rewards[0] += 1
    # The reward is counted already; the 1 is the error of 1/2 that every arm starts with.
    own[arm] += (seen - own[arm]) / (1.0 + state.counts.pulls[arm])
    pooled[0] += (seen - pooled[0]) / (1.0 + rewards[0])


@grown_by(OptimisticLogBarrierState)
def expect_new_arms(grown: OptimisticLogBarrierState, old: OptimisticLogBarrierState) -> None:
    """Let new arms start as good as the best so far, with the probability 0 in the latest round."""
    _pose_problem(old)
    expected = old.scratch.expectation.losses
    least = expected[arm_of_least_loss(expected)]
    for arm in range(old.variances.size, grown.variances.size):
        grown.estimates.losses[arm] = least - grown.estimates.predictions[arm]
        # It had no part in the latest decision, whose late rewards must not widen its barrier.
        grown.estimates.weights[arm] = 0.0


def _expected_losses(state: OptimisticLogBarrierState) -> Floats:
    _pose_problem(state)
    return state.scratch.expectation.losses


def _place(state: OptimisticLogBarrierState, arm: int, loss: float) -> None:
    # As of a new arm: the variance that adds up while the arm is away is not that of its loss.
    state.variances[arm] = 0.0
    state.estimates.losses[arm] = loss - state.estimates.predictions[arm]
    state.scratch.expectation.solution.up_to_date[0] = False


ranks_arms(OptimisticLogBarrierState, _expected_losses, _place)
