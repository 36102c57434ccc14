"""Regret over time: median and 5 to 95% band of each policy."""

from __future__ import annotations

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from armrace.formatting import short
from armrace.reports.drawing import label_ends, new_figure, tidy
from armrace.reports.highlighting import GREY
from armrace.reports.rows import comparison_inks
from armrace.simulation import Comparison, Result

__all__ = ["draw_curves", "quantile_curves"]

_DECADES = 3
"""Before these last ones, hardly anything can be seen on a linear axis of regrets."""


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


def draw_curves(comparison: Comparison, measure: str = "regret") -> Figure:
    """Regret against rounds, the latter on a logarithmic axis; of many, some are grey."""
    drawing, axes = new_figure(9.6, 4.6)
    ends, horizon = [], 1
    for label, ink in comparison_inks(comparison).items():
        result = comparison.results[label]
        frame = quantile_curves(result, measure)
        horizon = result.horizon
        if ink == GREY:
            axes.plot(frame["round"], frame["median"], color=ink, lw=0.8, zorder=1.5)
            continue
        axes.fill_between(frame["round"], frame["low"], frame["high"], color=ink, alpha=0.2, lw=0)
        axes.plot(frame["round"], frame["median"], color=ink, lw=1.8)
        ends.append((float(frame["median"][-1]), label, ink))
    axes.set_xscale("log")
    axes.set_xlim(max(1, horizon / 10**_DECADES), max(2, horizon))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xlabel("rounds (logarithmic)")
    axes.set_ylabel(measure.replace("_", "-"))
    tidy(axes)
    drawing.draw_without_rendering()
    label_ends(axes, horizon, ends)
    return drawing
