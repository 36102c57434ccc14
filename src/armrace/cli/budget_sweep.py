"""Regret against corruption: the same comparison again at smaller and larger budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import typer

from armrace.cli.comparison_request import Request
from armrace.cli.execution import INTERRUPTED, run_cells

if TYPE_CHECKING:
    from armrace.simulation import Comparison

__all__ = ["budgets_around", "can_be_swept", "sweep"]

_FACTORS = (1 / 16, 1 / 4, 4)
_SHARE_OF_REPLICATIONS = 4
"""The sweep has this many times fewer replications than the comparison: it shows the trend."""


def can_be_swept(request: Request) -> bool:
    """Whether there is exactly one attack and it has a budget."""
    story = request.scenario
    return not request.is_grid and story.adversary.tag() != "none" and story.budget > 0


def budgets_around(budget: float) -> list[float]:
    """No budget, a few smaller ones and a larger one.

    >>> budgets_around(4000)
    [0.0, 250.0, 1000.0, 16000.0]
    """
    return [0.0, *(float(budget * factor) for factor in _FACTORS)]


def sweep(request: Request, known: dict[float, Comparison]) -> dict[float, Comparison]:
    """Run the same comparison at the budgets that are not known yet, with fewer replications.

    All policies are played, even those that the plot leaves out. A distribution that is costly to
    compute is not refreshed in every round for attacks that read it.
    """
    from armrace.simulation import Comparison

    asked = request.scenario.replications
    fewer = min(asked, max(2, asked // _SHARE_OF_REPLICATIONS))
    quick = msgspec.structs.replace(request.scenario, replications=fewer)
    budgets = [each for each in budgets_around(quick.budget) if each not in known]
    cells = [
        quick.experiments(request.policies, budget=each, seed=request.seed, refreshed=True)
        for each in budgets
    ]
    results = run_cells(cells, request.workers, request.executor, request.folder)
    if results[0][0].interrupted:
        raise typer.Exit(INTERRUPTED)
    compared = [Comparison(each, request.measure) for each in results]
    return {**known, **dict(zip(budgets, compared, strict=True))}
