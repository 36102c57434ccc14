"""Policies, attacks, cells and settings as text, for the terminal and for the pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.environments import ENVIRONMENTS
from armrace.formatting import count, span
from armrace.simulation import Result, Scenario
from armrace.statistics import mean_interval

__all__ = [
    "cell_name",
    "interval",
    "means_of",
    "parameters",
    "setting",
]


def interval(result: Result, measure: str) -> str:
    """The 95% interval of a mean; a single run has none."""
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
    name = str(specification["name"])
    return f"{name} ({', '.join(given)})" if given else name


def means_of(result: Result) -> npt.NDArray[np.float64]:
    """The true mean of each arm."""
    return ENVIRONMENTS.make(result.spec["environment"]).mean_rewards(result.horizon)


def cell_name(spec: Mapping[str, Any]) -> str:
    """Attack and budget of an experiment.

    >>> cell_name({"adversary": {"name": "zero-best"}, "budget": 1000.0})
    'zero-best, budget 1,000'
    """
    return f"{parameters(spec['adversary'])}, budget {count(spec['budget'])}"


def setting(*scenarios: Scenario) -> str:
    """Arms, attacks and length in a line, of scenarios that differ in attack and budget."""
    first = scenarios[0]
    attacks = dict.fromkeys(parameters(each.adversary.to_builtins()) for each in scenarios)
    budgets = dict.fromkeys(count(each.budget) for each in scenarios)
    return (
        f"{count(first.environment.arms)} {first.environment.tag()} arms; attack "
        f"{', '.join(attacks)}; budget {' or '.join(budgets)}; "
        f"{count(first.replications)} x {count(first.horizon)} rounds"
    )
