"""Regret against corruption: the same comparison again at smaller and larger budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import typer

from armrace.cli.planning import Plan
from armrace.cli.running import run

if TYPE_CHECKING:
    from armrace.simulation import Comparison

__all__ = ["budgets_around", "can_be_swept", "sweep"]

_FACTORS = (1 / 16, 1 / 4, 4)
_SHARE_OF_REPLICATIONS = 4


def can_be_swept(plan: Plan) -> bool:
    """Whether the budget means anything: there is an attack, and it has one."""
    return plan.scenario.adversary.tag() != "none" and plan.scenario.budget > 0


def budgets_around(budget: float) -> list[float]:
    """No budget, a few smaller ones and a larger one.

    >>> budgets_around(4000)
    [0.0, 250.0, 1000.0, 16000.0]
    """
    return [0.0, *(float(budget * factor) for factor in _FACTORS)]


def sweep(plan: Plan) -> dict[float, Comparison]:
    """A comparison a budget, with fewer replications; none at all if interrupted."""
    from armrace.simulation import Comparison

    asked = plan.scenario.replications
    fewer = min(asked, max(2, asked // _SHARE_OF_REPLICATIONS))
    quick = msgspec.structs.replace(plan.scenario, replications=fewer)
    budgets = budgets_around(quick.budget)
    batches = [quick.experiments(plan.policies, budget=b, seed=plan.seed) for b in budgets]
    results = run([experiment for batch in batches for experiment in batch], plan.workers)
    if results[0].interrupted:
        raise typer.Exit(130)
    remaining = iter(results)
    return {
        budget: Comparison([next(remaining) for _ in batch])
        for budget, batch in zip(budgets, batches, strict=True)
    }
