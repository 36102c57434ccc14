"""Estimated losses with a prediction of the next one.

An optimistic leader expects arm ``i`` to lose ``m[i]`` in the coming round and solves
``min <w, losses + m> + regulariser(w)``. What it learns from a play with probability ``p`` is
how far the prediction was off: every arm is charged its prediction, and the arm that was played
``(loss - m[i]) / p`` on top. The charge does not depend on the reward. It is made when the
decision is assigned, and the ticket keeps the prediction of its arm, so that a late reward leaves
the estimate unbiased.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Ticket, assign, stamped
from armrace.policies.common.counts import Counts, count_play
from armrace.policies.leaders.absence import ranks_arms
from armrace.policies.leaders.drawing import draws_from_solution
from armrace.policies.leaders.estimates import Solution, make_solution

# The middle of [0, 1], so that a first prediction is off by 1/2 at most.
_FIRST_PREDICTION = 0.5

Floats = npt.NDArray[np.float64]
F = TypeVar("F", bound=Callable[..., Any])


class PredictedLosses(NamedTuple):
    """Estimated and predicted losses, and the solution for the latest decision."""

    losses: Floats
    predictions: Floats
    weights: Floats
    """The probabilities of the latest decision."""
    normaliser: Floats
    """The multiplier of the condition that these sum to 1."""


def make_predicted_losses(arms: int) -> PredictedLosses:
    """Estimates before the first round."""
    return PredictedLosses(
        losses=np.zeros(arms),
        predictions=np.full(arms, _FIRST_PREDICTION),
        weights=np.full(arms, 1.0 / arms),
        normaliser=np.zeros(1),
    )


class Expectation(NamedTuple):
    """Scratch space: what each arm is expected to have lost, and the solution for it."""

    losses: Floats
    solution: Solution


def make_expectation(arms: int) -> Expectation:
    """Make scratch space whose solution is marked as out of date."""
    return Expectation(np.zeros(arms), make_solution(arms))


@inlined
def expect_losses(estimates: PredictedLosses, out: Floats) -> None:
    """Write the estimated loss of each arm plus the predicted one into ``out``."""
    for arm in range(out.size):
        out[arm] = estimates.losses[arm] + estimates.predictions[arm]


@inlined
def charge_predictions(estimates: PredictedLosses, solution: Solution) -> None:
    """Add to every arm's estimate its prediction, and keep the solution of the decision."""
    for arm in range(estimates.losses.size):
        estimates.losses[arm] += estimates.predictions[arm]
        estimates.weights[arm] = solution.weights[arm]
    # Scratch space is not saved. A restored state must start its search from the same point, or its
    # probabilities would differ in the last digits.
    estimates.normaliser[0] = solution.normaliser[0]
    solution.up_to_date[0] = False


@inlined
def mean_loss(counts: Counts, arm: int) -> float:
    """The arm's mean loss, where a loss of 1/2 counts as one more play."""
    pulls = counts.pulls[arm]
    mean: float = (_FIRST_PREDICTION + (pulls - counts.sums[arm])) / (1.0 + pulls)
    return mean


def predicts_losses(state_class: type) -> Callable[[F], F]:
    """Register ``distribution``, ``choose`` and ``assign`` of a class of states with estimates.

    The decorated function is as :func:`draws_from_solution` wants it. States have ``counts`` and
    ``estimates``; the memo of a ticket is the prediction for its arm.
    """

    def register(solve: F) -> F:
        @implement(assign, state_class)
        def leader_assign(state: Any, ticket: Ticket) -> Ticket:
            prediction = state.estimates.predictions[ticket.arm]
            # Solved again if the decision was made elsewhere and only assigned here
            # (docs/decisions/014).
            charge_predictions(state.estimates, solve(state))
            count_play(state.counts, ticket.arm)
            return stamped(ticket, 0, prediction)

        ranks_arms(state_class, _expected_losses, _place)
        return draws_from_solution(state_class)(solve)

    return register


def _expected_losses(state: Any) -> Floats:
    expected: Floats = state.estimates.losses + state.estimates.predictions
    return expected


def _place(state: Any, arm: int, loss: float) -> None:
    estimates = state.estimates
    estimates.losses[arm] = loss - estimates.predictions[arm]
    # A search for the next probabilities that starts from nearly 0 would end there.
    estimates.weights[:] = 1.0 / estimates.weights.size
    state.scratch.solution.up_to_date[0] = False
