"""The base class of the race policies: one class of state, and one way to inspect it."""

from __future__ import annotations

from collections.abc import Sequence

from armrace.policies.base import ArmView, Policy
from armrace.policies.races.race import NEVER, Race, evidence, interval

__all__ = ["RacePolicy"]


class RacePolicy(Policy, frozen=True):
    """A policy whose state is a race; fast layers come first."""

    def inspect(self, state: Race) -> Sequence[ArmView]:
        layers, arms = state.pulls.shape
        return [_view(state, layer, arm) for layer in range(layers) for arm in range(arms)]


def _view(state: Race, layer: int, arm: int) -> ArmView:
    pulls = int(state.pulls[layer, arm])
    mean = float(state.sums[layer, arm] / pulls) if pulls else None
    seen, total, squares, due = evidence(state, layer, arm)
    lower = upper = None
    if seen:
        lower, upper = map(float, interval(state, layer, seen, total, squares, due))
    when, by = int(state.eliminated_at[layer, arm]), int(state.eliminated_by[layer, arm])
    return ArmView(
        layer=layer,
        arm=arm,
        assigned=int(state.assigned[layer, arm]),
        pulls=pulls,
        mean=mean,
        lower=lower,
        upper=upper,
        active=bool(state.active[layer, arm]),
        eliminated_at=None if when == NEVER else when,
        eliminated_by=None if by == NEVER else by,
    )
