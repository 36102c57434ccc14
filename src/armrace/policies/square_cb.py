"""SquareCB: draw arms in inverse proportion to how far their prediction lies behind."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
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
    vector_of,
)
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.linear.models import LinearModels, LinearPolicy, make_models, predicted


@forwards(assign, learn)
class SquareCbState(NamedTuple):
    """Models, and the scratch space in which probabilities are computed."""

    models: LinearModels
    rate: float
    scratch: Floats


class SquareCb(LinearPolicy, frozen=True, tag="square-cb"):
    """Draws an arm with probability ``1 / (K + g (best prediction - prediction))``.

    The rest goes to the arm of the best prediction, ``g = rate sqrt(t + 1)`` in round ``t``, and
    predictions are linear, by ridge regression. Without corruption the regret is of order
    ``sqrt(K T R)``, where ``R`` is the regret of the regression.

    >>> state = SquareCb(rate=10).start(arms=3, horizon=100)
    >>> state.models.ridge.weights[:, 0] = 0.5, 0.4, 0.2
    >>> weights = np.empty(3)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.583333, 0.25    , 0.166667])
    """

    family: ClassVar[str] = "contextual"
    draws_by_weights: ClassVar[bool] = True
    learns_from_others: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Foster and Rakhlin (2020), Beyond UCB: optimal and efficient contextual bandits with "
        "regression oracles"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = "The formula of the probabilities; no print was compared."

    rate: Annotated[float, Limits("how fast exploration ends", 0, 10**6)] = 10.0

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> SquareCbState:
        models = make_models(arms, shape)
        return SquareCbState(models, float(self.rate), np.zeros(arms))


@inlined
def _weights(state: SquareCbState, eligible: Eligible, context: Visitor) -> Floats:
    """The probabilities among the eligible arms, as if there were no others, in scratch space."""
    weights, vector = state.scratch, vector_of(context)
    best, count = -1, 0
    for arm in range(weights.size):
        weights[arm] = 0.0
        if eligible is None or eligible[arm]:
            weights[arm] = predicted(state.models.ridge, arm, vector)
            count += 1
            if best < 0 or weights[arm] > weights[best]:
                best = arm
    largest, rest = weights[best], 1.0
    sharpness = state.rate * math.sqrt(state.models.counts.rounds[0] + 1.0)
    for arm in range(weights.size):
        if arm != best and (eligible is None or eligible[arm]):
            weights[arm] = 1.0 / (count + sharpness * (largest - weights[arm]))
            rest -= weights[arm]
    weights[best] = rest
    return weights


@implement(distribution, SquareCbState)
def square_cb_distribution(state: SquareCbState, out: Floats, context: Visitor = None) -> None:
    weights = _weights(state, None, context)
    for arm in range(out.size):
        out[arm] = weights[arm]


@implement(distribution_among, SquareCbState)
def square_cb_distribution_among(
    state: SquareCbState,
    eligible: npt.NDArray[np.bool_],
    out: Floats,
    context: Visitor = None,
) -> None:
    weights = _weights(state, eligible, context)
    for arm in range(out.size):
        out[arm] = weights[arm]


@implement(choose, SquareCbState)
def square_cb_choose(
    state: SquareCbState, stream: Stream, eligible: Eligible = None, context: Visitor = None
) -> Ticket:
    return choose_by_weights(_weights(state, eligible, context), 1.0, stream, None)
