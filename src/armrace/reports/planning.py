"""The page of a plan: recommendation, table, regret against corruption, all figures."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import polars as pl

from armrace.formatting import count, days_in_figures, days_in_words, figure, percent
from armrace.planning import Plan, Question
from armrace.reports.colours import GREY, Style, choose_styles
from armrace.reports.layout import data_block, document, figure_section, line_mark, table
from armrace.reports.plot_style import own_style
from armrace.reports.survival import draw_survival

__all__ = ["plan_cells", "plan_setting", "render_plan"]

_COLUMNS = {
    "policy": "",
    "lost a day": "mean pseudo-regret without attack, in clicks per day: the price of robustness "
    "when it is not needed",
    "decided": "after how many days 95% of the runs, without attack, gave 90% of their plays to "
    "one arm until the end; a dash if fewer did",
    "survives": "the largest C tried at which, as at all smaller ones, at least 95% of the runs "
    "(a simple share) ended right under every attack: in the last part of the run, a quarter to "
    "44% of it, more than half of the plays went to the best arm or to one that lacks less than "
    "the gap; a dash if that failed even without attack",
    "right at C": "runs that ended right at the suspected C, under the worst attack by this count",
    "lost a day at C": "mean pseudo-regret at the suspected C, under the attack that costs most",
    "decided at C": "as decided, at the suspected C, under the attack that delays most; the "
    "decision may be a wrong one",
    "proven": "the largest C at which a theorem of the paper guarantees, for any attack, that the "
    "policy loses less than the best arm that is not good enough would if it was always "
    "played; a dash if there is none",
}


def render_plan(plan: Plan, command: str) -> str:
    """Render the page as HTML."""
    styles = _styles(plan)
    with own_style():
        sections = [
            _header(plan),
            _table_section(plan, styles),
            _plot_section(plan, styles),
            _figures_section(plan),
            _rerun_section(plan, command),
        ]
    return document("a plan", sections)


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


def _header(plan: Plan) -> str:
    words = "".join(f"<p>{escape(part)}</p>" for part in plan.recommendation.split("\n\n"))
    return (
        f"<header><h1>A plan</h1>{words}"
        f'<p class="setting">{escape(plan_setting(plan.question))}</p></header>'
    )


def _table_section(plan: Plan, styles: dict[str, Style]) -> str:
    rows = []
    for row, cells in zip(plan.table.iter_rows(named=True), plan_cells(plan), strict=True):
        name, proven = row["policy"], _or_dash(row["guaranteed"], count)
        mark = line_mark(styles[name])
        figures = "".join(f"<td>{escape(cell)}</td>" for cell in (*cells[1:], proven))
        rows.append(f'<tr><th scope="row">{mark}{escape(cells[0])}</th>{figures}</tr>')
    meanings = "".join(
        f"<dt>{name}</dt><dd>{text}.</dd>" for name, text in _COLUMNS.items() if text
    )
    return (
        f"<section><h2>Policies</h2>{table(list(_COLUMNS), rows)}"
        f'<dl class="note">{meanings}</dl></section>'
    )


def _plot_section(plan: Plan, styles: dict[str, Style]) -> str:
    caption = (
        "Mean pseudo-regret over the whole run against the budget C, under the attack that costs "
        "most there; both axes are logarithmic except at C = 0. A cross marks the budget at which "
        "the policy is lost; larger ones are not tried with it, except the suspected one."
    )
    if GREY in styles.values():
        caption += " Grey: policies that do not settle on the right arm even without attack."
    return figure_section(
        "Regret against corruption", draw_survival(plan, styles), "survival",
        "Mean pseudo-regret of each policy against the corruption budget.", caption,
    )  # fmt: skip


def _figures_section(plan: Plan) -> str:
    columns = ("policy", "attack", "C", "spent", "right", "mean", "p95", "max", "decided (95%)")
    rows = [
        f'<tr><th scope="row">{escape(row["policy"])}</th>'
        f"<td>{escape(row['attack'])}</td><td>{count(row['budget'])}</td>"
        f"<td>{figure(row['corruption'])}</td><td>{row['right']}/{row['runs']}</td>"
        f"<td>{figure(row['regret'])}</td><td>{figure(row['regret_p95'])}</td>"
        f"<td>{figure(row['regret_max'])}</td><td>{_or_dash(row['decision_p95'], figure)}</td></tr>"
        for row in plan.figures.sort("policy", "budget", maintain_order=True).iter_rows(named=True)
    ]
    return (
        "<section><h2>All figures</h2><details><summary>Each policy under each attack at each "
        "budget: corruption spent, runs that ended right, pseudo-regret, rounds until a decision"
        f"</summary>{table(columns, rows)}</details></section>"
    )


def _rerun_section(plan: Plan, command: str) -> str:
    return (
        "<section><h2>Run it again</h2><p>The same figures, bit for bit, on any machine:</p>"
        f'<pre class="command"><code>{escape(command)}</code></pre>'
        "<p>or in Python, as <code>plan(**question)</code> of <code>armrace.planning</code>, with"
        f"</p>{data_block(plan.to_builtins()['question'])}</section>"
    )
