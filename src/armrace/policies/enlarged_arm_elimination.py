"""Active arm elimination with room for a known corruption in its intervals (Theorem 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np

from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import KL_JEFFREYS, make_rule, paper_rule
from armrace.policies.races.race import Race, make_race
from armrace.specification import Confidence
from armrace.theory import known_corruption_regret


class EnlargedArmElimination(RacePolicy, frozen=True, tag="enlarged-arm-elimination"):
    """Active arm elimination whose intervals leave room for a corruption known in advance.

    The interval after ``n`` pulls is ``mean +- (sqrt(ln(2KT/delta) / n) + C/n)``. If the adversary
    spends at most ``C``, the regret is of order ``sum over arms of (ln(KT/delta) + C) / gap`` with
    probability ``1 - delta`` (Theorem 1; ``armrace.theory`` works out its constants from the
    paper's two lemmas). The ``C`` is paid even if nothing was corrupted.

    No mean of ``n`` rewards can be moved by more than ``C/n``, whoever knows what. So the bound
    also holds against an attacker who **sees the arm**, with the changes that were seen as ``C``:
    this is the idea of SE-WR (Wang et al. 2025), whose constants were not read. The same makes it
    an algorithm that names the best arm, see :func:`armrace.identify`; with the ``interval``
    ``kl-jeffreys`` it needs fewer plays for that.

    >>> state = EnlargedArmElimination(corruption=20, delta=0.1).start(arms=2, horizon=1000)
    >>> state.rule.allowance
    array([20.])
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Theorem 1 of Lykouris, Mirrokni and Paes Leme (2018); SE-WR of Wang, Zuo, Liu, Lui and "
        "Hajiesmaili (2025), Stochastic bandits robust to adversarial attacks"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Theorem 1 was read in the paper; the statement of its second lemma holds, its last "
        "display does not (see the errata), and `armrace.theory` has the constants."
    )

    corruption: Annotated[float, Limits("bound on the total corruption, C", 0)] = 100.0
    delta: Confidence = 0.05

    interval: Annotated[
        Literal["paper", "kl-jeffreys"],
        "how intervals are computed; the second holds for any horizon, and is narrower",
    ] = "paper"

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if corruption > self.corruption or self.interval != "paper":
            return None
        bound = known_corruption_regret(gaps, horizon, self.delta, self.corruption)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        allowance = np.array([float(self.corruption)])
        if self.interval == "paper":
            rule = paper_rule(math.log(2 * arms * horizon / self.delta), allowance)
        else:  # a mixture holds for both ends and all numbers of rewards: one event for each arm
            log_terms = np.array([math.log(arms / self.delta)])
            rule = make_rule(KL_JEFFREYS, log_terms, log_terms.copy(), allowance)
        return make_race(arms, np.ones(1), rule, tolerated=allowance.copy())
