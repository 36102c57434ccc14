"""Descriptions of policies, attacks and experiments as text, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armrace.formatting import count, span
from armrace.red_team.library import was_searched
from armrace.simulation import Comparison, Result, Scenario
from armrace.simulation.experiment import refresh_words
from armrace.specification import display_name
from armrace.statistics import mean_interval

__all__ = [
    "cell_name",
    "interval",
    "never_searched",
    "own_worst_name",
    "parameters",
    "refresh_note",
    "setting",
]


def interval(result: Result, measure: str) -> str:
    """The 95% interval of a mean; a dash for a single run, which has none."""
    if result.replications < 2:
        return "-"
    low, high = mean_interval(result.sample(measure))
    return span(low, high)


def parameters(specification: Mapping[str, Any]) -> str:
    """A policy or attack with the parameters that are set.

    >>> parameters({"name": "outage", "arm": None, "first": 0})
    'outage (first=0)'
    """
    given = [f"{k}={v}" for k, v in specification.items() if k != "name" and v is not None]
    name = display_name(str(specification["name"]))
    return f"{name} ({', '.join(given)})" if given else name


def refresh_note(*comparisons: Comparison) -> str:
    """Say what an attack sees of policies whose distribution is costly; empty if there are none."""
    refreshed = {
        label: float(result.spec["refresh"])
        for comparison in comparisons
        for label, result in comparison.results.items()
        if "refresh" in result.spec
    }
    return refresh_words(list(refreshed), max(refreshed.values(), default=0.0))


def cell_name(spec: Mapping[str, Any]) -> str:
    """Attack and budget of an experiment.

    >>> cell_name({"adversary": {"name": "zero-best"}, "budget": 1000.0})
    'zero-best, budget 1,000'
    """
    return f"{parameters(spec['adversary'])}, budget {count(spec['budget'])}"


def own_worst_name(comparison: Comparison) -> str:
    """The name of a comparison in which every policy has an attack of its own."""
    first = next(iter(comparison.results.values()))
    runs = f"{count(first.replications)} runs"
    return f"each under its own worst attack, budget {count(first.spec['budget'])}, {runs}"


def never_searched(comparison: Comparison) -> str:
    """Say which policies have no attack that was searched for them; empty if all have."""
    names = {
        label: display_name(r.spec["policy"]["name"]) for label, r in comparison.results.items()
    }
    labels = [label for label, name in names.items() if not was_searched(name)]
    if not labels:
        return ""
    return (
        "No search has been made for these, so attacks on others were tried, and theirs may be "
        f"mild: {', '.join(labels)}."
    )


def setting(*scenarios: Scenario) -> str:
    """Describe arms, attacks and length of scenarios that differ in attack or budget."""
    first = scenarios[0]
    attacks = dict.fromkeys(parameters(each.adversary.to_builtins()) for each in scenarios)
    budgets = dict.fromkeys(count(each.budget) for each in scenarios)
    return (
        f"{count(first.environment.arms)} {first.environment.tag()} arms; attack "
        f"{', '.join(attacks)}; budget {' or '.join(budgets)}; "
        f"{count(first.replications)} x {count(first.horizon)} rounds"
    )
