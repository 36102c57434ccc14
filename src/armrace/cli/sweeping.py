"""Regret against corruption: the same comparison again at smaller and larger budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import typer

from armrace.cli.requests import Request
from armrace.cli.running import run_batches

if TYPE_CHECKING:
    from armrace.simulation import Comparison

__all__ = ["budgets_around", "can_be_swept", "sweep"]

_FACTORS = (1 / 16, 1 / 4, 4)
_SHARE_OF_REPLICATIONS = 4


def can_be_swept(request: Request) -> bool:
    """Whether the budget means anything: there is one attack, and it has one."""
    story = request.scenario
    return not request.is_grid and story.adversary.tag() != "none" and story.budget > 0


def budgets_around(budget: float) -> list[float]:
    """No budget, a few smaller ones and a larger one.

    >>> budgets_around(4000)
    [0.0, 250.0, 1000.0, 16000.0]
    """
    return [0.0, *(float(budget * factor) for factor in _FACTORS)]


def worth_sweeping(request: Request, comparison: Comparison) -> list[str]:
    """The policies that stand out in the plots, but for those that the attack makes too slow.

    An attack that looks at the learner's distribution has it computed in every round; where that
    takes an integral, as Thompson sampling's does, a sweep would take minutes.
    """
    from armrace.policies import POLICIES
    from armrace.reports.highlighting import GREY
    from armrace.reports.rows import comparison_inks

    looks = request.scenario.adversary.sees_weights
    shown = [
        str(comparison.results[label].spec["policy"]["name"])
        for label, ink in comparison_inks(comparison).items()
        if ink != GREY
    ]
    return [name for name in shown if POLICIES.find(name).exact_tickets or not looks]


def sweep(request: Request, comparison: Comparison) -> dict[float, Comparison]:
    """A comparison a budget, with fewer replications; none at all if interrupted."""
    from armrace.simulation import Comparison

    policies = worth_sweeping(request, comparison)
    if not policies:
        return {}
    asked = request.scenario.replications
    fewer = min(asked, max(2, asked // _SHARE_OF_REPLICATIONS))
    quick = msgspec.structs.replace(request.scenario, replications=fewer)
    budgets = budgets_around(quick.budget)
    batches = [quick.experiments(policies, budget=b, seed=request.seed) for b in budgets]
    results = run_batches(batches, request.workers, request.executor, request.folder)
    if results[0][0].interrupted:
        raise typer.Exit(130)
    found = dict(zip(budgets, map(Comparison, results), strict=True))
    return {**found, quick.budget: comparison}
