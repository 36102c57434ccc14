"""KL-UCB: the largest mean that the rewards of an arm do not yet rule out."""

from __future__ import annotations

from typing import Annotated, ClassVar

from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy
from armrace.policies.indices.kl_indices import KlIndices, kl_index, make_kl_indices


class KlUcb(CountingPolicy, frozen=True, tag="kl-ucb"):
    """Plays the arm with the largest ``q`` such that ``n kl(mean, q) <= ln t + c ln ln t``.

    ``kl`` is the divergence of Bernoulli laws, ``n`` the plays of the arm and ``t`` the number
    of the round; ``ln ln t`` counts as 0 where it is negative. Each arm is played once first,
    ties go to the lowest index (indices within 1e-12 are tied). Without corruption the regret is
    asymptotically the least possible on Bernoulli arms, ``sum gap ln T / kl(mean, best mean)``.
    The theorems hold for ``c`` of 3 and above; the authors suggest 0 in practice (both checked
    against the paper). Being deterministic, it is easily fooled by an adversary. While feedback is
    outstanding, ``n`` counts the plays assigned, and an arm whose first reward has not come has
    the mean 1/2.

    >>> import math
    >>> from armrace.policies.common.divergence import upper_kl
    >>> f"{upper_kl(0.9, math.log(1000) / 20):.6f}"
    '0.998761'
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Garivier and Cappé (2011), The KL-UCB algorithm for bounded stochastic bandits and "
        "beyond; Cappé, Garivier, Maillard, Munos and Stoltz (2013)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 1 of the COLT paper, page 5: the theorems need `c` of at least 3, practice "
        "prefers 0."
    )

    c: Annotated[float, Limits("factor of the iterated logarithm; the proof takes 3", 0, 1e6)] = 0.0

    def start(self, arms: int, horizon: int) -> KlIndices:
        return make_kl_indices(
            arms, float(self.c), floor=0.0, ceiling=1.0, turned=False, counts_present=True
        )

    def upper_bound(self, state: KlIndices, arm: int) -> float:
        return float(kl_index(state, arm, int(state.counts.rounds[0])))
