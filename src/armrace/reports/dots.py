"""The end of a comparison as dots: each policy's mean with its interval, under each attack."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from armrace.formatting import count
from armrace.reports.axes import label_measure, scale_regrets, shorten_ticks
from armrace.reports.plot_style import PAGE_WIDTH, add_legend, new_figure, tidy
from armrace.reports.plots import Plot
from armrace.reports.rows import MEASURE_NAMES, all_styles
from armrace.reports.theme import LIGHT
from armrace.simulation import Comparison

__all__ = ["dots_data", "dots_plot", "draw_dots"]

_ROW = 0.3
_LINEAR_WITHIN = 12.0
"""Means that differ by a smaller factor are drawn on a linear axis."""

_OWN_WORST, _SHARED, _QUIET = "its own worst attack", "the same attack for all", "no attack"
_MARKERS = {_OWN_WORST: "D", _SHARED: "o", _QUIET: "s"}


def dots_plot(
    comparison: Comparison,
    worst: Sequence[Comparison] = (),
    quiet: Sequence[Comparison] = (),
    *,
    name: str = "end",
) -> Plot:
    """Describe the figure of the means at the end, one row per policy.

    Args:
        comparison: the figures under one attack.
        worst: comparisons in which every policy has an attack of its own.
        quiet: comparisons without an attack, shown beside those of ``worst``.
        name: the name of the figure, which must be unique on a page.
    """
    measure = MEASURE_NAMES[comparison.measure]
    first = next(iter(comparison.results.values()))
    caption = (
        f"Mean of {count(first.replications)} runs with its 95% interval; the tick is the 95th "
        "percentile of the runs."
    )
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} at the end",
        draw=lambda width: draw_dots(comparison, worst, quiet, width),
        data=lambda: dots_data(comparison, worst, quiet),
        description=f"Mean {measure} of each policy with its 95% interval. {comparison.verdict()}",
        caption=caption,
    )


def dots_data(
    comparison: Comparison, worst: Sequence[Comparison] = (), quiet: Sequence[Comparison] = ()
) -> pl.DataFrame:
    """One row per policy and attack: mean, its interval and the 95th percentile."""
    columns = ("policy", "mean", "low", "high", "p95")
    named = [(_QUIET, each) for each in quiet if worst]
    named += [(_SHARED, comparison), *((_OWN_WORST, each) for each in worst)]
    return pl.concat(
        each.table(comparison.measure).select(*columns, attack=pl.lit(words))
        for words, each in named
    )


def draw_dots(
    comparison: Comparison,
    worst: Sequence[Comparison] = (),
    quiet: Sequence[Comparison] = (),
    width: float = PAGE_WIDTH,
) -> Figure:
    """Means as dots, intervals as bars and 95th percentiles as ticks, best policy at the top.

    With ``worst``, policies are ordered by it, and the other attacks are hollow marks.
    """
    data = dots_data(comparison, worst, quiet)
    main, main_attack = (worst[0], _OWN_WORST) if worst else (comparison, _SHARED)
    order = main.table()["policy"].to_list()
    rows = {label: place for place, label in enumerate(order)}
    legend = 0.3 if worst else 0.0
    drawing, axes = new_figure(width, 0.9 + legend + _ROW * len(order))
    styles = all_styles(comparison)
    for row in data.iter_rows(named=True):
        height, ink = rows[row["policy"]], styles[row["policy"]].colour
        filled = row["attack"] == main_attack
        if filled:
            axes.plot([row["low"], row["high"]], [height] * 2, color=ink, lw=1.6)
            axes.plot([row["p95"]] * 2, [height - 0.2, height + 0.2], color=ink, lw=1.0)
        fill, marker = ink if filled else LIGHT["paper"], _MARKERS[row["attack"]]
        axes.plot(row["mean"], height, marker, color=ink, mfc=fill, ms=5.0)
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
        add_legend(drawing, _legend(data["attack"].unique(maintain_order=True).to_list()))
    return drawing


def _legend(attacks: Sequence[str]) -> list[Line2D]:
    ink, paper = LIGHT["muted"], LIGHT["paper"]
    return [
        Line2D(
            [], [], color=ink, marker=_MARKERS[each], ms=5.0, lw=1.6 if each == _OWN_WORST else 0,
            mfc=ink if each == _OWN_WORST else paper, label=each,
        )
        for each in reversed(attacks)
    ]  # fmt: skip
