"""The page of a plan: recommendation, table, regret against corruption, all figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from armrace.formatting import count, days_in_figures, days_in_words, figure, percent, short
from armrace.planning import Plan, Question, budget_levels
from armrace.planning.plans import COVERED
from armrace.reports.colours import GREY, Style, choose_styles
from armrace.reports.drawing import (
    PAGE_WIDTH,
    End,
    Plot,
    floor_regrets,
    is_narrow,
    label_measure,
    name_lines,
    new_figure,
    plot_section,
    scale_budgets,
    scale_regrets,
    tidy,
)
from armrace.reports.kit import (
    document,
    fold,
    header,
    line_mark,
    meanings_list,
    rerun_section,
    row,
    section,
    table,
)
from armrace.reports.theme import LIGHT
from armrace.statistics import mean_interval

_COLUMNS = {
    "policy": "",
    "lost a day": "mean pseudo-regret without attack, in clicks per day: the price of robustness "
    "when it is not needed",
    "decided": "after how many days 95% of the runs, without attack, gave 90% of their plays to "
    "one arm until the end; a dash if fewer did",
    "survives": "the largest C tried at which, as at all smaller ones, at least 95% of the runs "
    "(a simple share) ended right under every attack: in the last part of the run, a quarter to "
    "44% of it, more than half of the plays went to the best arm or to one closer to it than "
    "the gap; a dash if that failed even without attack",
    "right at C": "runs that ended right at the suspected C, under the worst attack by this count",
    "lost a day at C": "mean pseudo-regret at the suspected C, under the attack that costs most",
    "decided at C": "as decided, at the suspected C, under the attack that delays most; the "
    "decision may be a wrong one",
    "proven": f"what the policy is proven to lose at most in all, at the suspected C and under "
    f"{COVERED}",
}


def render_plan(plan: Plan, command: str = "") -> str:
    """Render the page as HTML."""
    question = plan.to_builtins()["question"]
    seed = f"{question['replications']} replications of each; seed {question['seed']}."
    sections = [
        header("A plan", plan.recommendation, f"{plan_setting(plan.question)} {seed}"),
        section("Policies", [plan_table(plan), _meanings()]),
        *map(plot_section, plan_plots(plan)),
        _figures_section(plan),
        rerun_section(
            command, "from armrace.planning import plan; plan(**specification)", [question]
        ),
    ]
    return document("a plan", sections)


def plan_plots(plan: Plan) -> list[Plot]:
    """All figures of a plan."""
    return [survival_plot(plan, _styles(plan))]


def plan_setting(question: Question) -> str:
    """Describe the question, and what the suspected corruption means."""
    best = max(question.means)
    words = (
        f"{len(question.means)} arms, the best with a mean of {best:g}; "
        f"{figure(question.traffic)} decisions a day for "
        f"{days_in_words(question.days_of(question.horizon))}: T = {count(question.horizon)}. "
    )
    if question.is_cut:
        words += (
            f"Of the {days_in_words(question.days)} asked for, only these are simulated; more "
            "rounds may be allowed, up to 10,000,000. "
        )
    if not question.suspected:
        return words + "No feedback is suspected of being forged."
    clicks = question.suspected / (best * question.horizon) if best else 0.0
    return words + (
        f"Suspected: {percent(question.forged)} of all rounds forged, which is C = "
        f"{figure(question.suspected)}, as many as {percent(clicks)} of the clicks that the best "
        "arm would get in these rounds."
    )


def plan_cells(plan: Plan) -> list[tuple[str, ...]]:
    """The table's rows as text, for the terminal and for the page."""
    return [
        (
            row["policy"],
            figure(row["cost_a_day"]),
            _days(row["decision_days"]),
            _or_dash(row["survives"], count),
            _of_runs(row["suspected_right"], row["runs"]),
            _or_dash(row["suspected_cost_a_day"], figure),
            _days(row["suspected_decision_days"]),
        )
        for row in plan.table.iter_rows(named=True)
    ]


def _or_dash(value: Any, shown: Callable[[Any], str]) -> str:
    return "-" if value is None else shown(value)


def _of_runs(right: int | None, runs: int) -> str:
    return _or_dash(right, lambda number: f"{number}/{runs}")


def _days(days: float | None) -> str:
    return _or_dash(days, days_in_figures)


def _styles(plan: Plan) -> dict[str, Style]:
    """The style of each policy; those that fail without attack have one point, and are grey."""
    slow = pl.col("survives").is_null()
    fit = plan.table.filter(~slow)["policy"].to_list()
    return {**dict.fromkeys(plan.table.filter(slow)["policy"], GREY), **choose_styles(fit, fit)}


def plan_table(plan: Plan) -> Markup:
    """One row per policy, marked with the line that it has in the plot."""
    styles = _styles(plan)
    rows = []
    for found, cells in zip(plan.table.iter_rows(named=True), plan_cells(plan), strict=True):
        name = found["policy"]
        rows.append(row(name, (*cells[1:], found["proven"]), line_mark(styles[name])))
    return table(list(_COLUMNS), rows, "Policies")


def _meanings() -> Markup:
    return meanings_list((name, f"{text}.") for name, text in _COLUMNS.items() if text)


def _figures_section(plan: Plan) -> Markup:
    columns = ("policy", "attack", "C", "spent", "right", "mean", "p95", "max", "decided (95%)")
    rows = [
        row(
            found["policy"],
            (
                found["attack"],
                count(found["budget"]),
                figure(found["corruption"]),
                f"{found['right']}/{found['runs']}",
                figure(found["regret"]),
                figure(found["regret_p95"]),
                figure(found["regret_max"]),
                _or_dash(found["decision_p95"], figure),
            ),
        )
        for found in plan.cells.sort("policy", "budget", maintain_order=True).iter_rows(named=True)
    ]
    summary = (
        "Each policy under each attack at each budget: corruption spent, runs that ended right, "
        "pseudo-regret, rounds until a decision"
    )
    listed = table(columns, rows, "Each policy under each attack")
    return section("All figures", [fold(summary, listed)])


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
        _draw_policy(axes, worst.filter(pl.col("policy") == name), style, lost_at[name])
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


def _draw_policy(axes: Axes, own: pl.DataFrame, style: Style, lost_at: float | None) -> None:
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
