"""The arena's regret against corruption: one row of panels per environment, one per attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    NullFormatter,
    NullLocator,
)

from armrace.formatting import short
from armrace.reports.colours import GREY, Style
from armrace.reports.plot_style import label_decades, tidy

__all__ = ["draw_budgets"]

_WIDTH, _ROW = 9.6, 2.1


def draw_budgets(
    figures: pl.DataFrame, attacks: Sequence[str], styles: Mapping[str, Style]
) -> Figure:
    """Mean pseudo-regret at the budgets 0, T^(1/2) and T^(3/4), on logarithmic axes."""
    environments = figures["environment"].unique(maintain_order=True).to_list()
    drawing = Figure(figsize=(_WIDTH, 0.6 + _ROW * len(environments)), layout="constrained")
    FigureCanvasAgg(drawing)
    grid = drawing.subplots(
        len(environments), len(attacks), sharex=True, sharey="row", squeeze=False
    )
    for row, environment in enumerate(environments):
        inside = figures.filter(pl.col("environment") == environment)
        for column, attack in enumerate(attacks):
            axes = grid[row][column]
            _draw(axes, inside.filter(pl.col("attack").is_in([attack, "none"])), styles)
            if row == 0:
                axes.set_title(attack, fontsize=10)
        grid[row][0].set_ylabel(environment, fontsize=10)
        regrets = inside["pseudo_regret_mean"].clip(lower_bound=1.0).to_numpy()
        label_decades(grid[row][0], regrets.min(), regrets.max())
    lines = [
        Line2D([], [], color=style.colour, ls=style.line, label=name)
        for name, style in styles.items()
        if style != GREY
    ]
    if GREY in styles.values():
        lines.append(Line2D([], [], color=GREY.colour, lw=0.8, label="others"))
    drawing.legend(handles=lines, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return drawing


def _draw(axes: Axes, cells: pl.DataFrame, styles: Mapping[str, Style]) -> None:
    for policy, style in styles.items():
        own = cells.filter(pl.col("policy") == policy).sort("budget")
        regret = own["pseudo_regret_mean"].clip(lower_bound=1.0)
        line = {"lw": 0.7, "zorder": 1.5} if style == GREY else {"lw": 1.6, "marker": "o", "ms": 3}
        axes.plot(own["budget"], regret, color=style.colour, ls=style.line, **line)
    budgets = cells["budget"].unique().sort().to_list()
    smallest = next((budget for budget in budgets if budget > 0), 1.0)
    axes.set_xscale("symlog", linthresh=smallest, linscale=0.5)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(budgets))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter([short(budget) for budget in budgets]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=8)
    tidy(axes)
