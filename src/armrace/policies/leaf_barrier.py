"""The recommended policy, once for each segment of visitors."""

from __future__ import annotations

from typing import ClassVar

from armrace.kernels.generics import NO_FEATURES, ContextShape
from armrace.kernels.leaves import Leaves, make_leaves
from armrace.policies.common.counts import LeafPolicy
from armrace.policies.leaders.barrier import FirstScale, Optimism, ScaleGrowth
from armrace.policies.optimistic_log_barrier import OptimisticLogBarrier


class LeafBarrier(LeafPolicy, frozen=True, tag="leaf-barrier"):
    """An ``optimistic-log-barrier`` in each leaf, which learns from that leaf's visitors alone.

    Forged feedback costs ``2 C`` in total, however it is spread over the leaves, and every leaf
    that is visited costs what exploring costs once: for ``n`` visited leaves the expected regret
    against the best arm of each leaf is at most ``2 C + n G + A^2 + A sqrt(2 C + n G)``, with
    ``A`` the sum over leaves of what it is in the theorem of the policy. The leaves themselves may
    be forged. With one leaf it is ``optimistic-log-barrier``, bit for bit.

    >>> from armrace.kernels.generics import Context, Ticket, assign, distribution, learn
    >>> import numpy as np
    >>> state = LeafBarrier().start(2, 100, ContextShape(dimension=1, leaves=2))
    >>> here, there = Context(np.ones(1), 0), Context(np.ones(1), 1)
    >>> ticket = assign(state, Ticket(arm=0, probability=0.5), here)
    >>> learn(state, ticket, reward=0.0, context=here)
    >>> weights = np.empty(2)
    >>> distribution(state, weights, here)
    >>> weights.round(6)
    array([0.42576, 0.57424])
    >>> distribution(state, weights, there)
    >>> weights.round(6)
    array([0.5, 0.5])
    """

    draws_by_weights: ClassVar[bool] = True
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = "Its theorem is proved on the theory page."

    optimism: Optimism = 0.5
    first_scale: FirstScale = 2.0
    scale_growth: ScaleGrowth = 0.25

    def start(self, arms: int, horizon: int, shape: ContextShape = NO_FEATURES) -> Leaves:
        inside = OptimisticLogBarrier(
            optimism=self.optimism, first_scale=self.first_scale, scale_growth=self.scale_growth
        )
        return make_leaves(inside.start(arms, horizon), shape.leaves)
