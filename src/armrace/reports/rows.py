"""A comparison's figures as they are written, in the terminal and on the page alike."""

from __future__ import annotations

from typing import NamedTuple

from armrace.formatting import figure, span
from armrace.reports.descriptions import interval
from armrace.reports.highlighting import inks
from armrace.simulation import Comparison

__all__ = ["Standing", "comparison_inks", "reading", "standings"]


class Standing(NamedTuple):
    """One policy's figures as they are written."""

    policy: str
    rank: str
    mean: str
    interval: str
    excess: str
    """By how much its regret exceeds the best policy's on the same rewards, jointly for all."""
    median: str
    p95: str
    rank_p95: str
    max: str
    pseudo_regret: str
    clean_regret: str
    corruption: str


def standings(comparison: Comparison) -> list[Standing]:
    """A row a policy, best first."""
    excesses = _excesses(comparison)
    rows = []
    for row in comparison.table("regret").iter_rows(named=True):
        result = comparison.results[row["policy"]]
        others = ("pseudo_regret", "clean_regret", "corruption")
        rows.append(
            Standing(
                row["policy"],
                str(row["rank"]),
                figure(row["mean"]),
                interval(result, "regret"),
                excesses.get(row["policy"], "best"),
                figure(row["p50"]),
                figure(row["p95"]),
                str(row["rank_p95"]),
                figure(row["max"]),
                *(figure(result.figure(measure).mean) for measure in others),
            )
        )
    return rows


def _excesses(comparison: Comparison) -> dict[str, str]:
    single = next(iter(comparison.results.values())).replications < 2
    return {
        row["policy"]: figure(row["mean"]) if single else span(row["low"], row["high"])
        for row in comparison.differences("regret").iter_rows(named=True)
    }


def comparison_inks(comparison: Comparison) -> dict[str, str]:
    """The colour that each policy has in all plots of the comparison."""
    return inks(list(comparison.results), comparison.table("regret")["policy"].to_list())


def reading(comparison: Comparison) -> str:
    """What the table says, in a sentence."""
    figures = comparison.table("regret")
    if figures.height < 2:
        return ""
    best, worst = figures.row(0, named=True), figures.row(-1, named=True)
    return (
        f"{best['policy']} has the smallest mean regret, {figure(best['mean'])}; "
        f"{worst['policy']} the largest, {figure(worst['mean'])}."
    )
