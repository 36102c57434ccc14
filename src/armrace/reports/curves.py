"""Regret over time: the mean of each policy, and the band from the 5% to the 95% quantile."""

from __future__ import annotations

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from armrace.formatting import count
from armrace.reports.axes import label_measure, shorten_ticks
from armrace.reports.colours import GREY
from armrace.reports.plot_style import PAGE_WIDTH, End, is_narrow, name_lines, new_figure, tidy
from armrace.reports.plots import Plot
from armrace.reports.rows import MEASURE_NAMES, comparison_styles
from armrace.simulation import Comparison, Result
from armrace.statistics import mean_interval

__all__ = ["curves_data", "curves_plot", "draw_curves", "draw_curves_on", "summary_curves"]

_DECADES = 3
"""Regrets of earlier decades are too small to be seen on a linear axis."""


def summary_curves(result: Result, measure: str) -> pl.DataFrame:
    """Mean, its 95% interval, and quantiles over the replications at each checkpoint."""
    rows = []
    for (number,), group in result.curves.group_by("round", maintain_order=True):
        sample = group[measure].to_numpy()
        low, high = mean_interval(sample)
        p05, median, p95 = np.quantile(sample, (0.05, 0.5, 0.95)).tolist()
        rows.append((number, float(sample.mean()), low, high, p05, median, p95))
    columns = ("round", "mean", "low", "high", "p05", "median", "p95")
    return pl.DataFrame(rows, schema=columns, orient="row").sort("round")


def curves_data(comparison: Comparison, measure: str | None = None) -> pl.DataFrame:
    """The numbers that :func:`draw_curves` draws, with the policy in the first column."""
    measure = measure or comparison.measure
    return pl.concat(
        summary_curves(result, measure).select(pl.lit(label).alias("policy"), pl.all())
        for label, result in comparison.results.items()
    )


def curves_plot(comparison: Comparison, name: str = "curves", *, attack: str = "") -> Plot:
    """Describe the measure that ranks over time; ``attack`` says what policies meet, if not one."""
    measure = MEASURE_NAMES[comparison.measure]
    under = f", each policy under {attack}" if attack else ""
    runs = count(next(iter(comparison.results.values())).replications)
    caption = (
        f"Lines are means of the {measure} over {runs} runs; the bars at their ends are 95% "
        "intervals of the mean, and the bands reach from the 5% to the 95% quantile of the runs. "
        "A policy that loses the same amount in every round bends upwards on this axis."
    )
    if GREY in comparison_styles(comparison).values():
        caption += " Grey lines are the other policies of the table."
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} over time{under}",
        draw=lambda width: draw_curves(comparison, width=width),
        data=lambda: curves_data(comparison),
        description=f"{measure.capitalize()} against rounds, one line per policy. "
        f"{comparison.verdict()}",
        caption=caption,
    )


def draw_curves(
    comparison: Comparison, measure: str | None = None, width: float = PAGE_WIDTH
) -> Figure:
    """A new figure of regret against rounds."""
    drawing, axes = new_figure(width, 4.4 if width == PAGE_WIDTH else width)
    draw_curves_on(axes, comparison, measure)
    return drawing


def draw_curves_on(axes: Axes, comparison: Comparison, measure: str | None = None) -> None:
    """Draw regret against rounds, on a logarithmic axis of rounds; of many policies, some grey."""
    measure = measure or comparison.measure
    styles, ends, horizon = comparison_styles(comparison), [], 1
    width = 1.1 if is_narrow(axes) else 1.8
    for label, style in styles.items():
        result = comparison.results[label]
        frame = summary_curves(result, measure)
        horizon, ink = result.horizon, style.colour
        if style == GREY:
            axes.plot(frame["round"], frame["mean"], color=ink, lw=0.8, zorder=1.5)
            last = frame.row(-1, named=True)
            axes.vlines(horizon, last["low"], last["high"], color=ink, lw=1.2, zorder=1.5)
            continue
        axes.fill_between(frame["round"], frame["p05"], frame["p95"], color=ink, alpha=0.14, lw=0)
        axes.plot(frame["round"], frame["mean"], color=ink, ls=style.line, lw=width)
        last = frame.row(-1, named=True)
        axes.vlines(horizon, last["low"], last["high"], color=ink, lw=3.5, clip_on=False, zorder=4)
        ends.append(End(last["mean"], label, style))
    axes.set_xscale("log")
    axes.set_xlim(max(1, horizon / 10**_DECADES), max(2, horizon))
    shorten_ticks(axes, "x", "y")
    axes.set_xlabel("rounds played (logarithmic)")
    axes.set_ylabel(label_measure(measure, broken=is_narrow(axes)))
    tidy(axes)
    name_lines(axes, horizon, ends, others=GREY in styles.values())
