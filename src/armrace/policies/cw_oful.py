"""CW-OFUL: LinUCB whose uncertain samples count less, for a known amount of corruption."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar

from armrace.kernels.generics import NO_FEATURES, ContextShape
from armrace.limits import Limits
from armrace.policies.common.constants import rounded_log
from armrace.policies.linear.models import LinearOptimism, LinearPolicy, make_models
from armrace.specification import Confidence

_NOISE = 0.5
"""Rewards in [0, 1] are sub-Gaussian with this scale."""


class CwOful(LinearPolicy, frozen=True, tag="cw-oful"):
    """As ``linear-ucb``, with a reward's weight ``min(1, trust / width)`` and a wider radius.

    The trust is ``sqrt(d) / (2 corruption)``. With the radius of its theory,
    ``sqrt(dK ln((1 + T)/delta)) / 2 + corruption trust + sqrt(K)``, the regret is of order
    ``dK sqrt(T) + corruption dK`` up to logarithms, with probability ``1 - delta``, if rewards are
    linear and the corruption of the rewards that were seen is at most the one that it is told,
    even if the attacker sees the arm. The price is high: the weights discard most of what the
    first ``corruption^2 / d`` samples say, with or without an attack.

    >>> from armrace.kernels.generics import Context, Ticket, learn
    >>> import numpy as np
    >>> policy = CwOful(corruption=math.sqrt(2), radius=2)
    >>> state = policy.start(2, 1000, ContextShape(dimension=2, leaves=1))
    >>> learn(state, Ticket(arm=0), reward=1.0, context=Context(np.array([1.0, 0.0]), 0))
    >>> state.models.ridge.weights[0].round(6)
    array([0.333333, 0.      ])
    """

    family: ClassVar[str] = "contextual"
    reference: ClassVar[str] = (
        "He, Zhou, Zhang and Gu (2022), Nearly optimal algorithms for linear contextual bandits "
        "with adversarial corruptions"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "Weights and radius agree with restatements of its theorem for one model an arm."
    )

    corruption: Annotated[
        float | None,
        Limits("corruption that it withstands; by default sqrt(T)", 0),
    ] = None
    radius: Annotated[
        float | None,
        Limits("how many widths are added to a prediction; by default that of its theory", 0),
    ] = None
    delta: Confidence = 0.05

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> LinearOptimism:
        corruption = math.sqrt(horizon) if self.corruption is None else self.corruption
        # Against no corruption every reward is trusted.
        trust = _NOISE * math.sqrt(shape.dimension) / corruption if corruption else math.inf
        radius = self.radius
        if radius is None:
            models = shape.models(arms)
            logarithm = shape.dimension * models * rounded_log((1 + horizon) / self.delta)
            bias = _NOISE * math.sqrt(shape.dimension) if corruption else 0.0
            radius = _NOISE * math.sqrt(logarithm) + bias + math.sqrt(models)
        return LinearOptimism(make_models(arms, shape, trust), float(radius))
