"""LinUCB: play the arm whose linear prediction could be largest."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.kernels.generics import NO_FEATURES, ContextShape
from armrace.limits import Limits
from armrace.policies.linear.models import LinearOptimism, LinearPolicy, make_models


class LinearUcb(LinearPolicy, frozen=True, tag="linear-ucb"):
    """Plays the arm with the largest ``x' theta + radius sqrt(x' A^-1 x)``.

    For each arm, ``A = I + sum x x'`` over its plays and ``theta = A^-1 sum y x``: ridge
    regression of the rewards ``y`` on the visitors' vectors ``x``. Without corruption and with
    linear rewards its regret is of order ``d sqrt(T)`` (with a radius of that theory, which is
    larger and explores for longer). Being deterministic, it is easily fooled: an arm whose
    prediction has been spoilt is not played again, and nothing corrects it.

    >>> from armrace.kernels.generics import Context, Ticket, decide, learn
    >>> from armrace.policies.linear.models import optimistic_score
    >>> import numpy as np
    >>> state = LinearUcb().start(2, 1000, ContextShape(dimension=2, leaves=1))
    >>> context = Context(np.array([1.0, 0.0]), 0)
    >>> learn(state, Ticket(arm=0), reward=1.0, context=context)
    >>> print(f"{optimistic_score(state, 0, context):.9f}")
    1.207106781
    """

    family: ClassVar[str] = "contextual"
    reference: ClassVar[str] = (
        "Li, Chu, Langford and Schapire (2010), A contextual-bandit approach to personalized news "
        "article recommendation (the disjoint form)"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = (
        "Ridge regression and its width, as everywhere in the literature; no print was compared."
    )

    radius: Annotated[float, Limits("how many widths are added to a prediction", 0, 1000)] = 1.0

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> LinearOptimism:
        return LinearOptimism(make_models(arms, shape), float(self.radius))
