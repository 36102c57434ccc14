"""The race: layered active arm elimination, its intervals, and how rounds are skipped.

Start with :mod:`armrace.policies.races.textbook`. :class:`RacePolicy` is the base class of the race
policies, which share one class of state and one way to inspect it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

from armrace.policies.base import ArmView, Policy
from armrace.policies.races import patience as patience  # what a race learns is implemented there
from armrace.policies.races.race import NEVER, Race, interval


class RacePolicy(Policy, frozen=True):
    """A policy whose state is a race; fast layers come first."""

    draws_by_weights: ClassVar[bool] = True
    learns_from_others: ClassVar[bool] = True

    def inspect(self, state: Race) -> Sequence[ArmView]:
        layers, arms = state.pulls.shape
        # As lists: a page looks at hundreds of cells, and records cost 20 times as much to read.
        sums, pulls, assigned = state.sums.tolist(), state.pulls.tolist(), state.assigned.tolist()
        pooled = bool(state.pooled[0])
        evidence = [
            _with_slower(values, pooled)
            for values in (pulls, sums, state.cells.squares.tolist(), assigned)
        ]
        active = state.active.tolist()
        when, by = state.eliminated_at.tolist(), state.eliminated_by.tolist()

        def view(layer: int, arm: int) -> ArmView:
            seen, total, squares, due = (values[layer][arm] for values in evidence)
            lower = upper = None
            if seen:
                # Recomputed, because the ends in the state may be out of date while a layer is
                # patient.
                ends = interval(state, layer, seen, total, squares, due - seen)
                lower, upper = map(float, ends)
            count = pulls[layer][arm]
            return ArmView(
                layer=layer,
                arm=arm,
                assigned=assigned[layer][arm],
                pulls=count,
                mean=sums[layer][arm] / count if count else None,
                lower=lower,
                upper=upper,
                active=bool(active[layer][arm]),
                eliminated_at=None if when[layer][arm] == NEVER else when[layer][arm],
                eliminated_by=None if by[layer][arm] == NEVER else by[layer][arm],
                evidence=seen,
                evidence_mean=total / seen if seen else None,
            )

        return [view(layer, arm) for layer in range(layers) for arm in range(arms)]


def _with_slower(values: list[list[Any]], pooled: bool) -> list[list[Any]]:
    """Add to the numbers of each layer those of all slower ones, in the order of compiled code."""
    if not pooled:
        return values
    return [
        [reduce(operator.add, column) for column in zip(*values[layer:], strict=True)]
        for layer in range(len(values))
    ]
