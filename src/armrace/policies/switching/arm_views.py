"""Views of the arms of policies that eliminate arms but keep testing them (SAO and SAPO)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.policies.base import ArmView
from armrace.policies.common.counts import Counts
from armrace.policies.races.state import NEVER
from armrace.policies.switching.tested_eliminations import SapoState, has_switched


def view_arms(
    counts: Counts, active: npt.NDArray[np.bool_], eliminated_at: npt.NDArray[np.int64], layer: int
) -> list[ArmView]:
    """Return a layer's view of each arm."""
    return [
        ArmView(
            layer=layer,
            arm=arm,
            assigned=int(counts.assigned[arm]),
            pulls=int(pulls),
            mean=float(counts.sums[arm] / pulls) if pulls else None,
            active=bool(active[arm]),
            eliminated_at=None if eliminated_at[arm] == NEVER else int(eliminated_at[arm]),
            eliminated_by=None if eliminated_at[arm] == NEVER else layer,
        )
        for arm, pulls in enumerate(counts.pulls)
    ]


def view_sapo(state: SapoState, layer: int) -> list[ArmView]:
    """Return SAPO's view of each arm; after its switch, all arms are active again."""
    if has_switched(state):
        arms = state.active.size
        everywhere, never = np.ones(arms, dtype=np.bool_), np.full(arms, NEVER, dtype=np.int64)
        return view_arms(state.counts, everywhere, never, layer)
    return view_arms(state.counts, state.active, state.eliminated_at, layer)
