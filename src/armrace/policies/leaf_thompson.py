"""Thompson sampling, once for each segment of visitors."""

from __future__ import annotations

from typing import ClassVar

from armrace.kernels.generics import NO_FEATURES, ContextShape
from armrace.kernels.leaves import Leaves, make_leaves
from armrace.policies.common.counts import LeafPolicy
from armrace.policies.thompson import Thompson


class LeafThompson(LeafPolicy, frozen=True, tag="leaf-thompson"):
    """``thompson`` in each leaf, which learns from that leaf's visitors alone.

    This is what services for experiments ship as contextual bandits. Without corruption it loses
    least where contexts are a few segments; a thousand forged rewards among a hundred thousand
    make it lose more than playing at random.

    >>> from armrace.kernels.generics import Context, distribution
    >>> import numpy as np
    >>> state = LeafThompson().start(2, 100, ContextShape(dimension=1, leaves=2))
    >>> state.stack.successes[1, 0] = 1.0
    >>> weights = np.empty(2)
    >>> distribution(state, weights, Context(np.ones(1), 1))
    >>> weights.round(6)
    array([0.666667, 0.333333])
    """

    exact_tickets: ClassVar[bool] = False
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = "A state of Thompson sampling for each leaf."

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> Leaves:
        return make_leaves(Thompson().start(arms, horizon), shape.leaves)
