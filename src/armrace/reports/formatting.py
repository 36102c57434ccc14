"""How figures are written, in the terminal and on the page alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.simulation import Result, Scenario
from armrace.statistics import mean_interval

__all__ = [
    "cell_name",
    "count",
    "figure",
    "interval",
    "means_of",
    "parameters",
    "setting",
    "short",
]


def figure(number: float) -> str:
    """A figure with as many decimals as it deserves.

    >>> figure(98153.7), figure(-12.34), figure(0.5), figure(-0.0)
    ('98,154', '-12.3', '0.5', '0')
    """
    if number == 0:
        return "0"
    if abs(number) >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def count(number: float) -> str:
    """A count or budget, in full.

    >>> count(4_000_000), count(0.25)
    ('4,000,000', '0.25')
    """
    return f"{int(number):,}" if number == int(number) else f"{number:g}"


def short(number: float) -> str:
    """A count in little room.

    >>> short(950), short(12_345), short(3_400_000)
    ('950', '12.3k', '3.4M')
    """
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{letter}"
    return f"{number:g}"


def interval(result: Result, measure: str) -> str:
    """The 95% interval of a mean; a single run has none."""
    if result.replications < 2:
        return "-"
    low, high = mean_interval(result.sample(measure))
    return f"{figure(low)} to {figure(high)}"


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
    return result.means


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
