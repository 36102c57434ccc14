"""Regret against corruption in a plan: one line per policy, with a cross where it is lost."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from armrace.formatting import short
from armrace.planning import Plan, Question, budget_levels
from armrace.reports.colours import GREY, Style
from armrace.reports.corruption import scale_budgets, scale_regrets
from armrace.reports.plot_style import new_figure, tidy

__all__ = ["draw_survival"]

_LEAST = 1.0
"""Smaller regrets are drawn at this height, since a logarithmic axis has no zero."""


def draw_survival(plan: Plan, styles: Mapping[str, Style]) -> Figure:
    """Mean pseudo-regret under the costliest attack; a cross marks where a policy is lost."""
    drawing, axes = new_figure(9.6, 4.8)
    regret = pl.col("regret").max().clip(lower_bound=_LEAST)
    worst = plan.figures.group_by("policy", "budget").agg(regret=regret).sort("budget")
    lost_at = dict(plan.table.select("policy", "lost_at").iter_rows())
    for name, style in styles.items():
        _draw(axes, worst.filter(pl.col("policy") == name), style, lost_at[name])
    regrets = worst["regret"].to_numpy()
    scale_regrets(axes, float(regrets.min()), float(regrets.max()))
    _mark_budgets(axes, worst["budget"].unique().sort().to_list(), plan.question)
    axes.set_ylabel("mean pseudo-regret")
    tidy(axes)
    lines = [
        Line2D([], [], color=style.colour, ls=style.line, label=name)
        for name, style in styles.items()
        if style != GREY
    ]
    if GREY in styles.values():
        lines.append(Line2D([], [], color=GREY.colour, label="others"))
    lines.append(Line2D([], [], color="#333333", marker="x", lw=0, label="lost"))
    drawing.legend(handles=lines, loc="outside upper center", ncols=5, frameon=False, fontsize=9)
    return drawing


def _draw(axes: Axes, own: pl.DataFrame, style: Style, lost_at: float | None) -> None:
    ink, order = style.colour, 1.5 if style == GREY else 2
    budgets, regrets = own["budget"], own["regret"]
    axes.plot(budgets, regrets, color=ink, ls=style.line, lw=1.6, marker="o", ms=3, zorder=order)
    if lost_at is None:
        return
    lost = own.filter(pl.col("budget") == lost_at)
    axes.plot(lost["budget"], lost["regret"], color=ink, lw=0, marker="x", ms=9, mew=2, zorder=3)


def _mark_budgets(axes: Axes, budgets: list[float], question: Question) -> None:
    """Label the round budgets on the axis, and mark the suspected one by a vertical line."""
    if not any(budgets):
        axes.xaxis.set_major_locator(FixedLocator([0.0]))
        axes.xaxis.set_minor_locator(NullLocator())
        return
    scale_budgets(axes, budgets)
    levels = [0.0, *budget_levels(question.horizon, 0.0)]
    labelled = [budget for budget in budgets if budget in levels]
    axes.xaxis.set_major_locator(FixedLocator(labelled))
    axes.xaxis.set_major_formatter(FixedFormatter([short(budget) for budget in labelled]))
    suspected = question.suspected
    if suspected:
        axes.axvline(suspected, color="#777777", lw=0.9, ls="--", zorder=1)
        axes.annotate(
            f"suspected: {short(suspected)}", (suspected, 1), xycoords=("data", "axes fraction"),
            xytext=(0, 3), textcoords="offset points", fontsize=9, color="#555555", ha="center",
        )  # fmt: skip
