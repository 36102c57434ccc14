"""Robust UCB: upper confidence bounds around estimates made for heavy tails."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from armrace.policies.indices.histories import HistoryPolicy
from armrace.policies.robust_ucb.catoni import CatoniMeans, catoni_index, make_catoni_means
from armrace.policies.robust_ucb.median_of_means import (
    MediansOfMeans,
    make_medians_of_means,
    median_of_means_index,
)
from armrace.policies.robust_ucb.truncated import make_truncated_means, truncated_index

__all__ = ["RobustUcb"]


class RobustUcb(HistoryPolicy, frozen=True, tag="robust-ucb"):
    """Plays the largest upper bound around a mean estimate that outliers move little.

    With confidence ``t^-2``, variance at most ``v = 1/4`` and second moment at most ``u = 1``,
    as on [0, 1], the index is one of

    - ``median-of-means``: the median of the means of ``k = floor(min(1 + 16 ln t, n/2))`` blocks
      plus ``sqrt(12 v (2 + 32 ln t) / n)``; each arm is played twice first;
    - ``truncated``: the mean in which the ``s``-th reward counts only up to
      ``sqrt(u s / (2 ln t))``, as 0 beyond, plus ``4 sqrt(2 u ln t / n)``;
    - ``catoni``: Catoni's M-estimator plus ``2 sqrt(2 v ln t / n)``;
      an arm with fewer than ``8 ln t`` plays goes first.

    Without corruption, and even for heavy tails, the expected regret is of order
    ``sum v ln T / gap`` for ``median-of-means``, at most ``sum (32 u ln T / gap + 5 gap)`` for
    ``truncated``, and of order ``sum (v / gap + gap) ln T`` for ``catoni``. Estimators, widths and
    bounds are as restated by later papers; Catoni's width follows from his bound once an arm has
    its ``8 ln t`` plays, and the cap of ``n/2`` on the blocks is from memory. The estimators
    withstand outliers, not an adversary, and on [0, 1] the wide bonuses of the first two make them
    slow learners. Sums are kept up to date: per round, ``truncated`` costs about what UCB1 does
    and keeps 72 rewards an arm, ``median-of-means`` keeps all rewards (16 bytes each) and sorts
    ``k`` means every ``k`` plays, and ``catoni`` keeps all rewards too and must go through an
    arm's whenever the bounded error of its last solution leaves the largest index undecided:
    beyond ten times UCB1 where arms are close. Rewards beyond the horizon count as plays but are
    no longer kept. While feedback is outstanding, ``n`` in the bonus counts the plays assigned; an
    arm without an estimate has 1 (for ``catoni``, the mean of what rewards it has).

    >>> from armrace.kernels.generics import Ticket, learn
    >>> policy = RobustUcb(estimator="catoni")
    >>> state = policy.start(arms=2, horizon=100)
    >>> for reward in [0.0, 1.0] * 20:
    ...     learn(state, Ticket(arm=0), reward)
    >>> f"{catoni_index(state, 0, logarithm=math.log(50), scale=0.0):.3f}"
    '0.500'
    """

    family: ClassVar[str] = "stochastic"
    reference: ClassVar[str] = (
        "Bubeck, Cesa-Bianchi and Lugosi (2013), Bandits with heavy tail; Catoni (2012)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "All three estimators and their widths agree with later papers that restate them; the "
        "limit on the number of blocks is from memory."
    )

    estimator: Annotated[
        Literal["median-of-means", "truncated", "catoni"], "the robust estimate of a mean"
    ] = "median-of-means"

    def start(self, arms: int, horizon: int) -> Any:
        if self.estimator == "truncated":
            return make_truncated_means(arms)
        if self.estimator == "catoni":
            return make_catoni_means(arms, self.room(horizon))
        return make_medians_of_means(arms, self.room(horizon))

    def upper_bound(self, state: Any, arm: int) -> float:
        logarithm = math.log(state.counts.rounds[0])
        if isinstance(state, CatoniMeans):
            return float(catoni_index(state, arm, logarithm, math.sqrt(2.0 * logarithm)))
        if isinstance(state, MediansOfMeans):
            return float(median_of_means_index(state, arm, logarithm))
        return float(truncated_index(state, arm, 2.0 * logarithm))
