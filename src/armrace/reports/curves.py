"""Regret over time: the median of each policy and the band from the 5% to the 95% quantile."""

from __future__ import annotations

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from armrace.formatting import short
from armrace.reports.colours import GREY
from armrace.reports.plot_style import PAGE_WIDTH, End, is_narrow, name_lines, new_figure, tidy
from armrace.reports.rows import MEASURE_NAMES, comparison_styles
from armrace.simulation import Comparison, Result

__all__ = ["curves_data", "draw_curves", "draw_curves_on", "quantile_curves"]

_DECADES = 3
"""Regrets of earlier decades are too small to be seen on a linear axis."""


def quantile_curves(result: Result, measure: str) -> pl.DataFrame:
    """Quantiles over the replications at each checkpoint."""
    figures = pl.col(measure)
    return (
        result.curves.group_by("round")
        .agg(
            low=figures.quantile(0.05, "linear"),
            median=figures.median(),
            high=figures.quantile(0.95, "linear"),
        )
        .sort("round")
    )


def curves_data(comparison: Comparison, measure: str | None = None) -> pl.DataFrame:
    """The numbers that :func:`draw_curves` draws, with the policy in the first column."""
    measure = measure or comparison.measure
    return pl.concat(
        quantile_curves(result, measure).select(pl.lit(label).alias("policy"), pl.all())
        for label, result in comparison.results.items()
    )


def draw_curves(
    comparison: Comparison, measure: str | None = None, width: float = PAGE_WIDTH
) -> Figure:
    """A new figure of regret against rounds."""
    drawing, axes = new_figure(width, 4.6 if width == PAGE_WIDTH else 0.85 * width)
    draw_curves_on(axes, comparison, measure)
    return drawing


def draw_curves_on(axes: Axes, comparison: Comparison, measure: str | None = None) -> None:
    """Draw regret against rounds, on a logarithmic axis of rounds; of many policies, some grey."""
    measure = measure or comparison.measure
    styles, ends, horizon = comparison_styles(comparison), [], 1
    width = 1.1 if is_narrow(axes) else 1.8
    for label, style in styles.items():
        result = comparison.results[label]
        frame = quantile_curves(result, measure)
        horizon, ink = result.horizon, style.colour
        if style == GREY:
            axes.plot(frame["round"], frame["median"], color=ink, lw=0.8, zorder=1.5)
            continue
        axes.fill_between(frame["round"], frame["low"], frame["high"], color=ink, alpha=0.2, lw=0)
        axes.plot(frame["round"], frame["median"], color=ink, ls=style.line, lw=width)
        ends.append(End(float(frame["median"][-1]), label, style))
    axes.set_xscale("log")
    axes.set_xlim(max(1, horizon / 10**_DECADES), max(2, horizon))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xlabel("rounds (logarithmic)")
    axes.set_ylabel(MEASURE_NAMES[measure])
    tidy(axes)
    name_lines(axes, horizon, ends, others=GREY in styles.values())
