"""A comparison's figures as text, for the terminal and for the page."""

from __future__ import annotations

from typing import NamedTuple

from armrace.formatting import figure, listed, span
from armrace.reports.colours import Style, choose_styles, style_of
from armrace.reports.descriptions import interval
from armrace.simulation import Comparison
from armrace.statistics import mean_interval

__all__ = [
    "HEADLINE_COLUMNS",
    "LEADERBOARD_COLUMNS",
    "MEASURE_NAMES",
    "Standing",
    "all_styles",
    "comparison_styles",
    "half_width",
    "headlines",
    "own_worst_verdict",
    "standings",
]

MEASURE_NAMES = {
    "pseudo_regret": "pseudo-regret",
    "regret": "regret",
    "clean_regret": "clean regret",
    "corruption": "attack spent",
}
"""The ledger's measures as headings."""

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


class Standing(NamedTuple):
    """One policy's figures as text; the ranked measure first, then the means of all measures."""

    policy: str
    rank: str
    mean: str
    interval: str
    excess: str
    """Difference to the best policy on the same rewards; the intervals hold jointly."""
    median: str
    p95: str
    rank_p95: str
    max: str
    pseudo_regret: str
    regret: str
    clean_regret: str
    corruption: str


def standings(comparison: Comparison) -> list[Standing]:
    """One row per policy, ordered by the mean of the comparison's measure."""
    excesses = _excesses(comparison)
    rows = []
    for row in comparison.table().iter_rows(named=True):
        result = comparison.results[row["policy"]]
        rows.append(
            Standing(
                row["policy"],
                str(row["rank"]),
                figure(row["mean"]),
                interval(result, comparison.measure),
                excesses.get(row["policy"], "best"),
                figure(row["p50"]),
                figure(row["p95"]),
                str(row["rank_p95"]),
                figure(row["max"]),
                *(figure(result.figure(measure).mean) for measure in MEASURE_NAMES),
            )
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


def all_styles(comparison: Comparison) -> dict[str, Style]:
    """The style of each policy where all can be in colour, such as rows of their own."""
    return {label: style_of(label) for label in comparison.results}
