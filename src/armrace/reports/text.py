"""Figures and descriptions of results as text, for the terminal and for pages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from armrace.formatting import count, figure, listed, percent, span
from armrace.red_team.library import was_searched
from armrace.reports.theme import Style, choose_styles
from armrace.simulation import Comparison, Result, Scenario
from armrace.simulation.experiment import refresh_words
from armrace.specification import display_name
from armrace.statistics import mean_interval


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


MEASURE_NAMES = {
    "pseudo_regret": "pseudo-regret",
    "regret": "regret",
    "clean_regret": "clean regret",
    "corruption": "attack spent",
    "dynamic_regret": "dynamic regret",
}
"""The ledger's measures as headings."""


def ledger_columns(*comparisons: Comparison) -> dict[str, str]:
    """Return the ledger's measures that comparisons have, with their headings."""
    held = [set(result.measures) for each in comparisons for result in each.results.values()]
    return {name: words for name, words in MEASURE_NAMES.items() if all(name in s for s in held)}


BUDGET_LABEL = "budget C in rewards"


def measure_label(measure: str, kind: str = "") -> str:
    """Return the label of an axis, with its unit.

    >>> measure_label("pseudo_regret", "mean ")
    'mean pseudo-regret (in rewards)'
    """
    return f"{kind}{MEASURE_NAMES[measure]} (in rewards)"


LEADERBOARD_COLUMNS = {
    "attacked": "attacked",
    "quiet": "quiet",
    "tail": "p95, attacked",
    "worst": "worst cell",
    "rank": "mean rank",
    "wins": "cells won",
    "cells": "cells played",
}
"""The columns of the arena's leaderboard, and their headings."""


def standings(comparison: Comparison) -> list[dict[str, str]]:
    """Each policy's figures as text, ordered by the mean of the comparison's measure.

    ``excess`` is the difference to the best policy on the same rewards; these intervals hold
    jointly.
    """
    excesses = _excesses(comparison)
    rows = []
    for row in comparison.table().iter_rows(named=True):
        result = comparison.results[row["policy"]]
        rows.append(
            {
                "policy": row["policy"],
                "interval": interval(result, comparison.measure),
                "excess": excesses.get(row["policy"], "best"),
                "rank_p95": str(row["rank_p95"]),
                "median": figure(row["p50"]),
                **{name: figure(row[name]) for name in ("mean", "p95", "max")},
                **{name: figure(result.figure(name).mean) for name in ledger_columns(comparison)},
            }
        )
    return rows


HEADLINE_COLUMNS = ("policy", "own worst attack", "p95", "same attack for all", "no attack")
"""The headings of :func:`headlines`."""


def headlines(
    worst: Comparison, shared: Comparison, quiet: Comparison | None
) -> list[tuple[str, ...]]:
    """What each policy loses under its own worst attack, under the shared one and under none."""

    def mean(comparison: Comparison | None, label: str) -> str:
        return figure(comparison.results[label].figure(worst.measure).mean) if comparison else "-"

    return [
        (
            row["policy"],
            f"{figure(row['mean'])} +/- {half_width(worst, row['policy'])}",
            figure(row["p95"]),
            mean(shared, row["policy"]),
            mean(quiet, row["policy"]),
        )
        for row in worst.table().iter_rows(named=True)
    ]


def half_width(comparison: Comparison, label: str) -> str:
    """Half the 95% interval of a policy's mean; a dash for a single run, which has none."""
    result = comparison.results[label]
    if result.replications < 2:
        return "-"
    low, high = mean_interval(result.sample(comparison.measure))
    return figure((high - low) / 2)


def own_worst_verdict(worst: Comparison, quiet: Comparison | None) -> str:
    """Say in one sentence which policies lose least and most, each under its own worst attack."""
    means = dict(worst.table().select("policy", "mean").iter_rows())
    best, last = (list(means)[place] for place in (0, -1))
    tied = worst.tied()
    equals = f" ({listed(tied)} cannot be told apart from it)" if tied else ""
    first = worst.results[best]
    all_lost = first.horizon * float(first.means.max() - first.means.min())
    scale = f" of the {figure(all_lost)} rewards that can be lost"
    words = f"Under the worst attack known for each policy, {best} loses {figure(means[best])}"
    words += scale if worst.measure == "pseudo_regret" else ""
    if last != best:
        words += f", the least{equals}, and {last} {figure(means[last])}"
        if quiet is not None:
            calm = (quiet.results[label].figure(worst.measure).mean for label in (best, last))
            words += f"; without an attack they lose {' and '.join(map(figure, calm))}"
    return f"{words}."


def _excesses(comparison: Comparison) -> dict[str, str]:
    single = next(iter(comparison.results.values())).replications < 2
    return {
        row["policy"]: figure(row["mean"]) if single else span(row["low"], row["high"])
        for row in comparison.differences().iter_rows(named=True)
    }


def comparison_styles(comparison: Comparison) -> dict[str, Style]:
    """The style of each policy in the plots of the comparison."""
    return choose_styles(list(comparison.results), comparison.table()["policy"].to_list())


AUDIT_COLUMNS = {
    "alarmed": "runs with\nan alarm",
    "disagreement": "layers\ndisagree",
    "change": "change\nover time",
    "waves": "in waves",
    "failed": "layer\nfailed",
    "mean": "certified,\nmean",
    "max": "certified,\nmax",
    "corruption": "attack\nspent",
    "exceeded": "certified\ntoo much",
}
"""The columns of :func:`audit_rows` after the policy, and their headings."""


def audit_rows(results: Mapping[str, Result]) -> list[tuple[str, ...]]:
    """The name of each policy that was audited, and the texts of :data:`AUDIT_COLUMNS`."""
    rows = []
    for label, result in results.items():
        found = result.audit_summary()
        if found is not None:
            runs, alarms = found.replications, found.alarms
            layered = "layers" in found.first.looked_at
            texts = {
                "alarmed": _share(found.alarmed, runs),
                "disagreement": _share(alarms["disagreement"], runs, layered),
                "change": _share(alarms["change"], runs),
                "waves": _share(alarms["waves"], runs),
                "failed": _share(alarms["failed-layer"], runs, layered),
                "mean": figure(found.certificate.mean),
                "max": figure(found.certificate.max),
                "corruption": figure(result.figure("corruption").mean),
                "exceeded": _share(found.exceeded, runs),
            }
            rows.append((label, *(texts[name] for name in AUDIT_COLUMNS)))
    return rows


def _share(count: int, total: int, applies: bool = True) -> str:
    return percent(count / total) if applies else "-"
