"""Active arm elimination: pull the active arms in turn, delete the ones that are clearly worse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from armrace.policies.base import Guarantee
from armrace.policies.races import RacePolicy
from armrace.policies.races.intervals import paper_rule
from armrace.policies.races.race import Race, make_race
from armrace.specification import Confidence
from armrace.theory import known_corruption_regret


class ActiveArmElimination(RacePolicy, frozen=True, tag="active-arm-elimination"):
    """Pulls active arms in turn and deletes those whose interval lies below another's.

    The interval after ``n`` pulls is ``mean +- sqrt(ln(2KT/delta) / n)``. Without corruption the
    regret is of order ``sum over arms of ln(KT/delta) / gap`` with probability ``1 - delta``: this
    is Theorem 1 of Lykouris, Mirrokni and Paes Leme with ``C = 0``, whose constants
    ``armrace.theory`` works out from the paper's two lemmas. An adversary who spoils the first
    O(log T) rewards of the best arm has it deleted for good.

    >>> state = ActiveArmElimination(delta=0.1).start(arms=2, horizon=1000)
    >>> f"{state.rule.log_lower[0]:.5f}"
    '10.59663'
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "Even-Dar, Mannor and Mansour (2006), Action elimination and stopping conditions; "
        "section 3 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Width and deletion rule were read in section 3 of the paper; the constants of the "
        "bound are worked out by `armrace.theory` from its two lemmas."
    )

    delta: Confidence = 0.05

    def guarantee(self, gaps: Sequence[float], horizon: int, corruption: float) -> Guarantee | None:
        if corruption > 0:
            return None
        bound = known_corruption_regret(gaps, horizon, self.delta)
        return Guarantee(bound.pseudo_regret, self.delta)

    def start(self, arms: int, horizon: int) -> Race:
        log_term = math.log(2 * arms * horizon / self.delta)
        return make_race(arms, np.ones(1), paper_rule(log_term, np.zeros(1)), tolerated=np.zeros(1))
