"""The arena's regret against corruption: one panel per environment, one line per policy."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from armrace.formatting import count
from armrace.reports.axes import (
    BUDGET_LABEL,
    floor_regrets,
    label_measure,
    scale_budgets,
    scale_regrets,
)
from armrace.reports.colours import GREY, Style
from armrace.reports.plot_style import PAGE_WIDTH, add_legend, empty_figure, legend_lines, tidy
from armrace.reports.plots import Plot
from armrace.statistics.summaries import mean_margin

__all__ = ["attack_plot", "draw_panels", "worst_plot"]

_LEAST = 1.0
"""Smaller regrets are drawn at this height, since a logarithmic axis has no zero."""

_GREY_LINES = " Grey lines are the other policies of the leaderboard."


def attack_plot(figures: pl.DataFrame, attack: str, styles: Mapping[str, Style]) -> Plot:
    """Describe regret against the budget of one attack of the arena."""
    data = _with_intervals(
        figures.filter(pl.col("attack").is_in([attack, "none"])).select(
            "environment", "policy", "budget", "replications",
            mean="pseudo_regret_mean", stderr="pseudo_regret_stderr",
        )
    )  # fmt: skip
    return Plot(
        name=f"budgets-{attack}",
        heading=f"Regret against corruption: {attack}",
        draw=lambda width: draw_panels(data, styles, width),
        data=lambda: data,
        description=f"Mean pseudo-regret against the budget of {attack}, one panel per "
        "environment.",
        caption=f"Mean pseudo-regret of {_runs(data)} runs with 95% intervals against the budget, "
        "both logarithmic "
        "except at a budget of 0; each panel has its own scale. Where a line jumps, the attack has "
        "misled the policy for good." + (_GREY_LINES if GREY in styles.values() else ""),
    )


def worst_plot(worst: pl.DataFrame, styles: Mapping[str, Style]) -> Plot:
    """Describe the worst regret found against the budget."""
    data = worst.select("environment", "policy", "budget", "mean", "stderr", "low", "high")
    return Plot(
        name="worst-found",
        heading="The worst attack found against each policy",
        draw=lambda width: draw_panels(data, styles, width),
        data=lambda: data,
        description="Mean pseudo-regret of each policy under its own worst attack found, against "
        "the budget, one panel per environment.",
        caption=f"Mean pseudo-regret of {_runs(worst)} runs with 95% intervals on held-out seeds, "
        "each policy under the "
        "worst attack that a search found against it; both axes are logarithmic."
        + (_GREY_LINES if GREY in styles.values() else ""),
    )


def _runs(data: pl.DataFrame) -> str:
    """How many runs there are, which may differ from cell to cell."""
    return " or ".join(map(count, data["replications"].unique().sort()))


def _with_intervals(data: pl.DataFrame) -> pl.DataFrame:
    """Add the ends of Student's 95% interval; a single run has none."""
    factors = {runs: mean_margin(1.0, runs) for runs in data["replications"].unique()}
    half = pl.col("stderr") * pl.col("replications").replace_strict(
        factors, return_dtype=pl.Float64
    )
    return data.with_columns(low=pl.col("mean") - half, high=pl.col("mean") + half)


def draw_panels(
    data: pl.DataFrame, styles: Mapping[str, Style], width: float = PAGE_WIDTH
) -> Figure:
    """Draw means with intervals at each budget, a panel for each environment."""
    environments = data["environment"].unique(maintain_order=True).to_list()
    columns = min(len(environments), 3 if width == PAGE_WIDTH else 2)
    rows = -(-len(environments) // columns)
    height = 2.4 if width == PAGE_WIDTH else 1.6
    drawing = empty_figure(width, 0.9 + height * rows)
    grid = drawing.subplots(rows, columns, squeeze=False).ravel()
    for axes, environment in zip(grid, environments, strict=False):
        _draw(axes, data.filter(pl.col("environment") == environment), styles)
        axes.set_title(environment)
    for axes in grid[len(environments) :]:
        axes.remove()
    drawing.supxlabel(BUDGET_LABEL, fontsize=grid[0].xaxis.label.get_size())
    for axes in grid[::columns]:
        axes.set_ylabel(label_measure("pseudo_regret", "mean ", broken=True))
    add_legend(drawing, legend_lines(styles), above=True)
    return drawing


def _draw(axes: Axes, cells: pl.DataFrame, styles: Mapping[str, Style]) -> None:
    for policy, style in styles.items():
        own = cells.filter(pl.col("policy") == policy).sort("budget")
        mean, low, high = (own[name].clip(lower_bound=_LEAST) for name in ("mean", "low", "high"))
        if style == GREY:
            axes.vlines(own["budget"], low, high, color=style.colour, lw=0.5, zorder=1.4)
            axes.plot(own["budget"], mean, color=style.colour, lw=0.7, zorder=1.5)
            continue
        axes.errorbar(
            own["budget"], mean, yerr=(mean - low, high - mean), color=style.colour, ls=style.line,
            lw=1.4, marker="o", ms=2.6, elinewidth=0.9, capsize=1.5,
        )  # fmt: skip
    budgets = cells["budget"].unique().sort().to_list()
    if any(budgets):
        scale_budgets(axes, budgets, labelled=False)
    means = cells["mean"].clip(lower_bound=_LEAST).to_list()
    scale_regrets(axes, min(means), max(means))
    floor_regrets(axes, means, cells["low"].clip(lower_bound=_LEAST).to_list())
    tidy(axes)
