"""A comparison's figures as text, for the terminal and for the page."""

from __future__ import annotations

from typing import NamedTuple

from armrace.formatting import figure, span
from armrace.reports.colours import Style, choose_styles, style_of
from armrace.reports.descriptions import interval
from armrace.simulation import Comparison

__all__ = [
    "LEADERBOARD_COLUMNS",
    "MEASURE_NAMES",
    "Standing",
    "all_styles",
    "comparison_styles",
    "reading",
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


def reading(comparison: Comparison) -> str:
    """Say in one sentence what the range of the means is."""
    figures = comparison.table()
    if figures.height < 2:
        return ""
    best, worst = figures.row(0, named=True), figures.row(-1, named=True)
    return (
        f"The mean {MEASURE_NAMES[comparison.measure]} ranges from {figure(best['mean'])} "
        f"({best['policy']}) to {figure(worst['mean'])} ({worst['policy']})."
    )
