"""Linear Thompson sampling: play the arm whose drawn prediction is largest."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    NO_FEATURES,
    ContextShape,
    Eligible,
    Floats,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    distribution_among,
    forwards,
    learn,
    make_ticket,
    vector_of,
)
from armrace.kernels.streams import Stream, normal
from armrace.limits import Limits
from armrace.policies.linear.models import LinearModels, LinearPolicy, make_models, predicted, width

_NODES = 201
"""Nodes of the trapezoidal rule for the probabilities, over 8 deviations on either side."""
_REACH = 8.0
_LEAST_DEVIATION = 1e-12


@forwards(assign, learn)
class LinearThompsonState(NamedTuple):
    """Models, and the deviation of a draw in widths."""

    models: LinearModels
    spread: float


class LinearThompson(LinearPolicy, frozen=True, tag="linear-thompson"):
    """Draws ``x' theta + spread sqrt(x' A^-1 x) N`` for each arm, and plays the largest.

    ``N`` is standard normal, drawn for each arm on its own; ``theta`` and ``A`` are those of ridge
    regression. Where contexts vary and every arm is the best for some of them, it withstands
    forged rewards well, because every arm goes on being played somewhere. Where one arm is best
    for nearly everybody, or the linear model is wrong, a few hundred are enough to lock it out.

    The probability of each arm is an integral, computed when asked for; tickets carry NaN.

    >>> state = LinearThompson().start(arms=2, horizon=100)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.5, 0.5])
    """

    family: ClassVar[str] = "contextual"
    exact_tickets: ClassVar[bool] = False
    reference: ClassVar[str] = (
        "Agrawal and Goyal (2013), Thompson sampling for contextual bandits with linear payoffs; "
        "here each arm's prediction is drawn, not its coefficients"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = "The posterior of ridge regression; no print was compared."

    spread: Annotated[float, Limits("deviation of a draw, in widths", 0, 1000)] = 0.5

    def start(
        self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES
    ) -> LinearThompsonState:
        return LinearThompsonState(make_models(arms, shape), float(self.spread))


@implement(choose, LinearThompsonState)
def linear_thompson_choose(
    state: LinearThompsonState, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    best, best_draw = -1, -np.inf
    for arm in range(state.models.counts.pulls.size):
        if eligible is not None and not eligible[arm]:
            continue
        known = predicted(state.models.ridge, arm, vector_of(context))
        drawn = known + state.spread * width(state.models, arm, context) * normal(stream)
        if best < 0 or drawn > best_draw:
            best, best_draw = arm, drawn
    return make_ticket(best, 0, np.nan)


@implement(distribution_among, LinearThompsonState)
def linear_thompson_among(
    state: LinearThompsonState,
    eligible: npt.NDArray[np.bool_],
    out: Floats,
    context: Visitor = None,
) -> None:
    arms = out.size
    means, deviations = np.empty(arms), np.empty(arms)
    for arm in range(arms):
        means[arm] = predicted(state.models.ridge, arm, vector_of(context))
        scaled = state.spread * width(state.models, arm, context)
        deviations[arm] = max(scaled, _LEAST_DEVIATION)
    total = 0.0
    for arm in range(arms):
        out[arm] = 0.0
        if not eligible[arm]:
            continue
        for node in range(_NODES):
            place = _REACH * (2.0 * node / (_NODES - 1.0) - 1.0)
            mass = math.exp(-0.5 * place * place)
            level = means[arm] + place * deviations[arm]
            for other in range(arms):
                if other != arm and eligible[other]:
                    behind = (level - means[other]) / deviations[other]
                    mass *= 0.5 * math.erfc(-behind * math.sqrt(0.5))
            out[arm] += mass
        total += out[arm]
    for arm in range(arms):
        out[arm] /= total


@implement(distribution, LinearThompsonState)
def linear_thompson_distribution(
    state: LinearThompsonState, out: Floats, context: Visitor = None
) -> None:
    everybody = np.ones(out.size, dtype=np.bool_)
    distribution_among(state, everybody, out, context)
