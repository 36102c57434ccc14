"""Regret against corruption in a plan: one line per policy, with a cross where it is lost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from armrace.formatting import count, short
from armrace.planning import Plan, Question, budget_levels
from armrace.reports.axes import floor_regrets, label_measure, scale_budgets, scale_regrets
from armrace.reports.colours import GREY, Style
from armrace.reports.plot_style import PAGE_WIDTH, End, is_narrow, name_lines, new_figure, tidy
from armrace.reports.plots import Plot
from armrace.reports.theme import LIGHT
from armrace.statistics import mean_interval

__all__ = ["draw_survival", "survival_data", "survival_plot"]

_LEAST = 1.0
"""Smaller regrets are drawn at this height, since a logarithmic axis has no zero."""


def survival_plot(plan: Plan, styles: Mapping[str, Style]) -> Plot:
    """Describe the figure of a plan."""
    caption = (
        f"Mean pseudo-regret of {count(plan.question.replications)} runs with its 95% interval, "
        "against the budget C, under the attack that costs most there; both axes are logarithmic "
        "except at C = 0. A cross "
        "marks the budget at which the policy is lost; larger ones are not tried with it, except "
        "the suspected one."
    )
    if GREY in styles.values():
        caption += " Grey: policies that do not settle on the right arm even without attack."
    return Plot(
        name="survival",
        heading="Regret against corruption",
        draw=lambda width: draw_survival(plan, styles, width),
        data=lambda: survival_data(plan),
        description="Mean pseudo-regret of each policy against the corruption budget.",
        caption=caption,
    )


def survival_data(plan: Plan) -> pl.DataFrame:
    """One row per policy and budget: the mean under the costliest attack, and its interval."""
    worst = (
        plan.cells.sort("regret", descending=True)
        .unique(["policy", "budget"], keep="first", maintain_order=True)
        .sort("policy", "budget")
    )
    ends = [mean_interval(np.array(sample)) for sample in worst["regrets"]]
    return worst.select(
        "policy", "budget", "attack", "runs", mean="regret",
        low=pl.Series([low for low, _ in ends], dtype=pl.Float64),
        high=pl.Series([high for _, high in ends], dtype=pl.Float64),
    )  # fmt: skip


def draw_survival(plan: Plan, styles: Mapping[str, Style], width: float = PAGE_WIDTH) -> Figure:
    """Mean pseudo-regret under the costliest attack; a cross marks where a policy is lost."""
    drawing, axes = new_figure(width, 4.8 if width == PAGE_WIDTH else 1.15 * width)
    worst = survival_data(plan).with_columns(pl.col("mean", "low", "high").clip(lower_bound=_LEAST))
    lost_at = dict(plan.table.select("policy", "lost_at").iter_rows())
    for name, style in styles.items():
        _draw(axes, worst.filter(pl.col("policy") == name), style, lost_at[name])
    scale_regrets(axes, float(worst["low"].to_numpy().min()), float(worst["high"].to_numpy().max()))
    floor_regrets(axes, worst["mean"].to_list(), worst["low"].to_list())
    _mark_budgets(axes, worst["budget"].unique().sort().to_list(), plan.question)
    axes.set_ylabel(label_measure("pseudo_regret", "mean ", broken=is_narrow(axes)))
    tidy(axes)
    last = worst.sort("budget").group_by("policy").last()
    ends = [
        End(mean, name, styles[name], budget)
        for name, budget, mean in last.select("policy", "budget", "mean").iter_rows()
        if styles[name] != GREY
    ]
    name_lines(axes, float(worst["budget"].to_numpy().max()), ends, others=GREY in styles.values())
    return drawing


def _draw(axes: Axes, own: pl.DataFrame, style: Style, lost_at: float | None) -> None:
    ink, order = style.colour, 1.5 if style == GREY else 2
    mean, low, high = own["mean"], own["low"], own["high"]
    axes.errorbar(
        own["budget"], mean, yerr=(mean - low, high - mean), color=ink, ls=style.line, lw=1.5,
        marker="o", ms=3, elinewidth=1.0, capsize=2, zorder=order,
    )  # fmt: skip
    if lost_at is None:
        return
    lost = own.filter(pl.col("budget") == lost_at)
    axes.plot(lost["budget"], lost["mean"], color=ink, lw=0, marker="x", ms=9, mew=2, zorder=3)


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
        axes.axvline(suspected, color=LIGHT["muted"], lw=0.9, ls="--", zorder=1)
        axes.annotate(
            f"suspected: {short(suspected)}", (suspected, 1), xycoords=("data", "axes fraction"),
            xytext=(0, 3), textcoords="offset points", fontsize="small", color=LIGHT["muted"],
            ha="center",
        )  # fmt: skip
