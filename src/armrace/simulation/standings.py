"""What the arena's figures say: relative regret, the leaderboard, and where each policy fails."""

from __future__ import annotations

from typing import Any

import polars as pl

from armrace.formatting import figure

__all__ = ["CELL", "leaderboard", "relative_regret", "verdict", "worst_cases"]

CELL = ("environment", "attack", "budget")
"""The columns that tell a cell."""


def relative_regret(figures: pl.DataFrame, measure: str = "pseudo_regret_mean") -> pl.DataFrame:
    """The figures with each policy's regret divided by that of the cell's best policy.

    A best regret below 1 counts as 1, so that a lucky zero does not make all others infinite.
    """
    best = pl.col(measure).min().over(CELL)
    return figures.with_columns(relative=pl.col(measure) / best.clip(lower_bound=1.0))


def leaderboard(figures: pl.DataFrame) -> pl.DataFrame:
    """Policies by their typical regret relative to the best, without and under attack.

    ``quiet`` and ``attacked`` are geometric means of the relative pseudo-regret over the cells
    without and with attack; ``tail`` is the same of its 95th percentile under attack; ``worst``
    is the largest of all; ``rank`` is the mean rank over the cells; ``wins`` counts cells where
    nobody is better. Policies that sat out some ``cells`` come last: their means are of others.
    """
    tails = relative_regret(figures, "pseudo_regret_p95").select(*CELL, "policy", tail="relative")
    regret = pl.col("pseudo_regret_mean")
    ranked = (
        relative_regret(figures)
        .join(tails, on=[*CELL, "policy"])
        .with_columns(rank=regret.rank().over(CELL), first=regret == regret.min().over(CELL))
    )
    quiet = pl.col("budget") == 0
    return (
        ranked.group_by("policy")
        .agg(
            attacked=_geometric_mean(pl.col("relative").filter(~quiet)),
            quiet=_geometric_mean(pl.col("relative").filter(quiet)),
            tail=_geometric_mean(pl.col("tail").filter(~quiet)),
            worst=pl.col("relative").max(),
            rank=pl.col("rank").mean(),
            wins=pl.col("first").sum(),
            cells=pl.len(),
        )
        .sort(pl.col("cells") < pl.col("cells").max(), "attacked", "policy")
    )


def _geometric_mean(values: pl.Expr) -> pl.Expr:
    return values.clip(lower_bound=1.0).log().mean().exp()


def worst_cases(figures: pl.DataFrame) -> pl.DataFrame:
    """For each policy the cell in which it does worst, relative to the best there."""
    best = pl.col("policy").sort_by("pseudo_regret_mean").first().over(CELL)
    columns = ["policy", *CELL, "pseudo_regret_mean", "relative", "best"]
    return (
        relative_regret(figures)
        .with_columns(best=best)
        .sort("relative", "policy", descending=[True, False])
        .unique("policy", keep="first", maintain_order=True)
        .select(columns)
        .sort("relative", "policy")
    )


def verdict(board: pl.DataFrame) -> str:
    """In words: who leads under attack and who without, among those that played every cell."""
    complete = board.filter(pl.col("cells") == pl.col("cells").max())
    attacked, quiet, tail = (_first(complete, name) for name in ("attacked", "quiet", "tail"))
    words = (
        f"Under attack {attacked['policy']} leads: its pseudo-regret is typically "
        f"{figure(attacked['attacked'])} times that of the best policy of the cell, and "
        f"{figure(attacked['worst'])} times at worst. Without attack {quiet['policy']} does, with "
        f"{figure(quiet['quiet'])} times."
    )
    if tail["policy"] != attacked["policy"]:
        words += f" By the 95th percentile under attack it is {tail['policy']}."
    absent = board.filter(pl.col("cells") < pl.col("cells").max())["policy"].to_list()
    if absent:
        words += f" Not judged, since they sat out some cells: {', '.join(absent)}."
    return words


def _first(board: pl.DataFrame, column: str) -> dict[str, Any]:
    return board.sort(column).row(0, named=True)
