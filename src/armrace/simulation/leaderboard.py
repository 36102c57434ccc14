"""The arena's leaderboard: regret relative to the best policy, and where each policy fails."""

from __future__ import annotations

from typing import Any

import polars as pl

from armrace.formatting import figure

CELL = ("environment", "attack", "budget")
"""The columns that identify a cell."""


def relative_regret(figures: pl.DataFrame, measure: str = "pseudo_regret_mean") -> pl.DataFrame:
    """Divide each policy's regret by that of the best policy of the cell.

    A best regret below 1 counts as 1, so that a regret of 0 by chance does not make all others
    infinite.
    """
    best = pl.col(measure).min().over(CELL)
    return figures.with_columns(relative=pl.col(measure) / best.clip(lower_bound=1.0))


def leaderboard(figures: pl.DataFrame) -> pl.DataFrame:
    """Policies by their typical regret relative to the best, without and under attack.

    ``quiet`` and ``attacked`` are geometric means of the relative pseudo-regret over the cells
    without and with attack; ``tail`` is the same of its 95th percentile under attack; ``worst``
    is the largest of all; ``rank`` is the mean rank over the cells; ``wins`` counts cells where
    no policy is better. Policies that are missing from some ``cells`` come last, since their
    means are over fewer cells.
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
    """Return for each policy the cell with the largest regret relative to the best policy there."""
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


def verdict(board: pl.DataFrame, *, smoke_test: bool = False) -> str:
    """Name the leaders among the policies that played every cell; nothing for a smoke test."""
    if smoke_test:
        return (
            f"This is a smoke test: {max(board['cells'].to_list())} cells were played, with too "
            "few rounds to rank the policies."
        )
    complete = board.filter(pl.col("cells") == pl.col("cells").max())
    attacked, quiet, tail = (_first(complete, name) for name in ("attacked", "quiet", "tail"))
    words = (
        f"Under attack {attacked['policy']} leads: its pseudo-regret is typically "
        f"{figure(attacked['attacked'])} times that of the best policy of the cell, and "
        f"{figure(attacked['worst'])} times at worst. Without attack {quiet['policy']} leads, with "
        f"{figure(quiet['quiet'])} times."
    )
    if tail["policy"] != attacked["policy"]:
        words += f" By the 95th percentile under attack, {tail['policy']} leads."
    absent = board.filter(pl.col("cells") < pl.col("cells").max())["policy"].to_list()
    if absent:
        words += f" Not judged, since some of their cells are missing: {', '.join(absent)}."
    return words


def _first(board: pl.DataFrame, column: str) -> dict[str, Any]:
    return board.sort(column).row(0, named=True)
