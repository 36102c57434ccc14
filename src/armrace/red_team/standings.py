"""Policies by what they lose under their own worst attacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from armrace.formatting import figure

__all__ = ["WORST_CELL", "WORST_COLUMNS", "worst_frame", "worst_standings", "worst_verdict"]

WORST_CELL = ("environment", "budget")
"""The columns that identify a cell: every policy has its own attack there."""

WORST_COLUMNS = {
    "mean": "worst found, mean",
    "tail": "worst found, p95",
    "per_budget": "most per unit of budget",
    "mostly_lost": "cells mostly lost",
    "cells": "cells searched",
}
"""The columns of the standings, and their headings."""

_HELD_OUT = ("mean", "stderr", "low", "high", "p95")


def worst_frame(verdicts: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row for each verdict of a campaign."""
    return pl.DataFrame(
        [
            {
                "environment": found["environment_name"],
                "budget": float(found["budget"]),
                "policy": found["policy_name"],
                "attack": found["attack"]["name"],
                **{name: float(found["held_out"][name]) for name in _HELD_OUT},
                "largest": float(found["held_out"]["max"]),
                "replications": found["held_out"]["replications"],
                "all_lost": float(found["all_lost"]),
                "builtin": found["best_builtin"]["attack"]["name"],
                "builtin_mean": float(found["best_builtin"]["held_out"]["mean"]),
                "description": found["description"],
            }
            for found in verdicts
        ]
    )


def worst_standings(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per policy, those first that lose least under their own worst attack.

    ``mean`` and ``tail`` are geometric means over the cells of the mean and of the 95th
    percentile, each divided by the least of any policy there; ``per_budget`` is the largest
    mean in units of the budget; ``mostly_lost`` counts the cells in which, on average, more
    than half of all that could be lost was lost, and more than three times the budget. Policies
    that are missing from some cells come last.
    """
    return (
        frame.with_columns(
            mean_ratio=pl.col("mean") / pl.col("mean").min().over(WORST_CELL),
            tail_ratio=pl.col("p95") / pl.col("p95").min().over(WORST_CELL),
        )
        .group_by("policy")
        .agg(
            mean=pl.col("mean_ratio").log().mean().exp(),
            tail=pl.col("tail_ratio").log().mean().exp(),
            per_budget=(pl.col("mean") / pl.col("budget")).max(),
            mostly_lost=_is_mostly_lost().sum(),
            cells=pl.len(),
        )
        .sort(pl.col("cells") < pl.col("cells").max(), "mean", "policy")
    )


def _is_mostly_lost() -> pl.Expr:
    # With a budget that is large next to all there is to lose, every policy loses most of it.
    by_little = pl.col("mean") > 3 * pl.col("budget")
    return (pl.col("mean") > pl.col("all_lost") / 2) & by_little


def worst_verdict(board: pl.DataFrame) -> str:
    """Name the leader, and the policies that lose nearly all somewhere."""
    first = board.row(0, named=True)
    words = (
        f"Each under its own worst attack found, {first['policy']} loses least: typically "
        f"{figure(first['mean'])} times the least of any policy in a cell."
    )
    lost = board.filter(pl.col("mostly_lost") > 0)["policy"].to_list()
    if lost:
        words += (
            " These lose more than half of all there is in at least one cell, with a small budget: "
            f"{', '.join(lost)}."
        )
    return f"{words} These are lower bounds on the worst case."
