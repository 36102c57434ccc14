"""The end of a comparison as dots: each policy's mean with its interval, under each attack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from armrace.reports.axes import label_measure, scale_regrets, shorten_ticks
from armrace.reports.plot_style import PAGE_WIDTH, add_legend, is_narrow, new_figure, tidy
from armrace.reports.plots import Plot
from armrace.reports.rows import MEASURE_NAMES, all_styles
from armrace.reports.theme import LIGHT
from armrace.simulation import Comparison

__all__ = ["dots_data", "dots_plot", "draw_dots"]

_ROW = 0.3
_LINEAR_WITHIN = 12.0
"""Means that differ by a smaller factor are drawn on a linear axis."""

_OWN_WORST = "under its own worst attack found"
_SHARED = "under the attack of this comparison"


def dots_plot(comparison: Comparison, worst: Sequence[Comparison] = (), name: str = "end") -> Plot:
    """Describe the figure of the means at the end, one row per policy.

    Args:
        comparison: the figures under one attack.
        worst: comparisons in which every policy has an attack of its own.
        name: the name of the figure, which must be unique on a page.
    """
    measure = MEASURE_NAMES[comparison.measure]
    caption = (
        f"Mean {measure} at the end with its 95% interval, and the 95th percentile of the runs as "
        "a small tick, best policy first. Intervals of two policies that overlap may still differ "
        "clearly, since all policies met the same rewards: the column “above the best” compares "
        "them run by run."
    )
    if worst:
        caption += (
            " Hollow diamonds: each policy under the worst attack that searches have found for it,"
            " with the same budget; a lower bound on its worst case."
        )
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} at the end",
        draw=lambda width: draw_dots(comparison, worst, width),
        data=lambda: dots_data(comparison, worst),
        description=f"Mean {measure} of each policy with its 95% interval. {comparison.verdict()}",
        caption=caption,
    )


def dots_data(comparison: Comparison, worst: Sequence[Comparison] = ()) -> pl.DataFrame:
    """One row per policy and attack: mean, its interval and the 95th percentile."""
    columns = ("policy", "mean", "low", "high", "p95")
    named = [(_SHARED, comparison), *((_OWN_WORST, each) for each in worst)]
    return pl.concat(
        each.table(comparison.measure).select(*columns, attack=pl.lit(words))
        for words, each in named
    )


def draw_dots(
    comparison: Comparison, worst: Sequence[Comparison] = (), width: float = PAGE_WIDTH
) -> Figure:
    """Means as dots, intervals as bars and 95th percentiles as ticks, best policy at the top."""
    data = dots_data(comparison, worst)
    order = comparison.table()["policy"].to_list()
    rows = {label: place for place, label in enumerate(order)}
    legend = 0.5 if worst else 0.0
    drawing, axes = new_figure(width, 0.9 + legend + _ROW * len(order))
    styles = all_styles(comparison)
    shift = 0.17 if worst else 0.0
    for row in data.iter_rows(named=True):
        own = row["attack"] == _OWN_WORST
        height = rows[row["policy"]] + (shift if own else -shift)
        ink = styles[row["policy"]].colour
        axes.plot([row["low"], row["high"]], [height] * 2, color=ink, lw=1.6)
        axes.plot([row["p95"]] * 2, [height - 0.14, height + 0.14], color=ink, lw=1.0)
        fill = LIGHT["paper"] if own else ink
        axes.plot(row["mean"], height, "D" if own else "o", color=ink, mfc=fill, ms=4.5)
    lowest, highest = data["low"].min(), max(data["p95"].max(), data["high"].max())  # type: ignore[type-var]
    if lowest <= 0 or highest < _LINEAR_WITHIN * lowest:  # type: ignore[operator]
        shorten_ticks(axes, "x")
    else:
        scale_regrets(axes, float(lowest), float(highest), "x")  # type: ignore[arg-type]
    axes.set_yticks(np.arange(len(order)), order)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlabel(label_measure(comparison.measure, "mean "))
    tidy(axes)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])
    if worst:
        add_legend(drawing, _legend(is_narrow(axes)))
    return drawing


def _legend(narrow: bool) -> list[Line2D]:
    ink = LIGHT["muted"]
    shared, own = ("this attack", "own worst attack") if narrow else (_SHARED, _OWN_WORST)
    return [
        Line2D([], [], color=ink, marker="o", ms=4.5, lw=1.6, label=shared),
        Line2D([], [], color=ink, marker="D", mfc=LIGHT["paper"], ms=4.5, lw=1.6, label=own),
    ]
