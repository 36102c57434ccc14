"""The Fast-Slow race: two eliminations, one quick, one robust to a known corruption."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np

from armrace.limits import Limits
from armrace.policies.base import Guarantee
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import paper_rule
from armrace.policies.races.race import Race, make_race
from armrace.specification import Confidence
from armrace.theory import fast_slow_regret, layer_tolerances


class FastSlowRace(RacePolicy, frozen=True, tag="fast-slow-race"):
    """A fast and a slow arm elimination side by side, for a corruption known in advance.

    A round goes to the slow layer with probability ``1/max(C, 1)``, which therefore sees a
    corruption of order ``ln(1/delta)`` whatever the adversary does; what it deletes, the fast
    layer loses too. With ``L = ln(8KT/delta)`` the intervals have half-widths ``sqrt(L/n)`` (fast)
    and ``sqrt(L/n) + 2L/n`` (slow). With probability ``1 - delta`` the regret is of order
    ``sum L/gap`` without corruption and ``K C sum L^2/gap`` with it (Theorem 2; ``armrace.theory``
    has its constants).

    >>> FastSlowRace(corruption=4).start(arms=2, horizon=1000).share
    array([0.75, 0.25])
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Algorithm 1 and Theorem 2 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Algorithm 1 and Theorem 2 were read in the paper; two constants of the proof are "
        "corrected (see the errata)."
    )

    corruption: Annotated[float, Limits("bound on the total corruption, C", 0)] = 100.0
    delta: Confidence = 0.05

    def layer_count(self, arms: int, horizon: int) -> int:
        return 2

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if corruption > self.corruption:
            return None
        bound = fast_slow_regret(gaps, horizon, self.delta, self.corruption)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        log_term = math.log(8 * arms * horizon / self.delta)
        # Algorithm 1 has 1/C, which is no probability below a corruption of 1 (erratum 12).
        told = max(self.corruption, 1.0)
        allowances = [0.0, 2 * log_term]
        return make_race(
            arms,
            np.array([1.0 - 1.0 / told, 1.0 / told]),
            paper_rule(log_term, np.array(allowances)),
            tolerated=np.array(layer_tolerances([0.0, told], allowances)),
        )
