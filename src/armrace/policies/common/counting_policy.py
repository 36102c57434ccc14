"""The base class of policies whose state counts plays and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from armrace.policies.base import ArmView, Policy
from armrace.policies.common.counts import Counts


class CountingPolicy(Policy, frozen=True):
    """A policy of one layer whose state has ``counts``."""

    def upper_bound(self, state: Any, arm: int) -> float | None:
        """The arm's index, for a policy that has one.

        Args:
            state: a state with ``counts``.
            arm: the arm.
        """
        return None

    def inspect(self, state: Any) -> Sequence[ArmView]:
        counts: Counts = state.counts
        return [
            ArmView(
                layer=0,
                arm=arm,
                assigned=int(counts.assigned[arm]),
                pulls=int(pulls),
                mean=float(counts.sums[arm] / pulls) if pulls else None,
                upper=self.upper_bound(state, arm) if pulls else None,
            )
            for arm, pulls in enumerate(counts.pulls)
        ]
