"""The page of ``armrace redteam``: the worst attack found at each budget, and their curve."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from armrace.formatting import count, figure, percent, short, span
from armrace.red_team.verdict import CAUTION, Verdict
from armrace.reports.colours import style_of
from armrace.reports.layout import data_block, document, figure_section, table
from armrace.reports.plot_style import PAGE_WIDTH, new_figure, own_style, tidy
from armrace.reports.rows import MEASURE_NAMES

__all__ = ["COLUMNS", "draw_worst", "render_redteam", "verdict_cells"]

COLUMNS = (
    "budget",
    "mean",
    "95% interval",
    "p95",
    "max",
    "spent",
    "best built-in",
    "its mean",
    "factor",
    "searched / held-out",
)
_HEIGHT = 4.2


def verdict_cells(verdict: Verdict) -> list[str]:
    """Return the figures of one budget, one for each of ``COLUMNS``."""
    found, rival = verdict.held_out, verdict.builtin_held_out
    return [
        figure(verdict.target.budget),
        figure(found.mean),
        span(found.low, found.high),
        figure(found.p95),
        figure(found.max),
        figure(found.spent),
        verdict.builtin.tag(),
        figure(rival.mean),
        f"{verdict.factor:.2f}",
        f"{verdict.selection:.2f}",
    ]


def render_redteam(verdicts: Sequence[Verdict], command: str) -> str:
    """Render the page as HTML; the verdicts differ in the budget alone."""
    with own_style():
        curve = _curve_section(verdicts) if len(verdicts) > 1 else ""
    sections = [
        _header(verdicts),
        _table_section(verdicts),
        curve,
        *map(_attack_section, verdicts),
        _rerun_section(command),
    ]
    return document(f"worst attacks on {verdicts[0].target.policy.tag()}", sections)


def draw_worst(verdicts: Sequence[Verdict]) -> Figure:
    """Draw the worst regret found against the budget, with the lines 2C and "all lost"."""
    drawing, axes = new_figure(PAGE_WIDTH, _HEIGHT)
    target = verdicts[0].target
    budgets = [verdict.target.budget for verdict in verdicts]
    means = [verdict.held_out.mean for verdict in verdicts]
    style = style_of(target.policy.tag())
    below = [v.held_out.mean - v.held_out.low for v in verdicts]
    above = [v.held_out.high - v.held_out.mean for v in verdicts]
    axes.errorbar(
        budgets,
        means,
        yerr=(below, above),
        color=style.colour,
        marker="o",
        ms=4,
        lw=1.8,
        label="worst found, mean",
    )
    tails = [verdict.held_out.p95 for verdict in verdicts]
    axes.plot(budgets, tails, color=style.colour, ls=":", lw=1.4, label="worst found, p95")
    rivals = [verdict.builtin_held_out.mean for verdict in verdicts]
    axes.plot(budgets, rivals, color="#777777", ls="--", lw=1.2, label="best built-in, mean")
    if target.measure == "pseudo_regret":
        doubled = [2 * budget for budget in budgets]
        axes.plot(budgets, doubled, color="#222222", lw=0.9, label="2C")
        axes.axhline(target.all_lost(), color="#a00000", lw=0.9, label="all lost")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(budgets))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("budget C")
    axes.set_ylabel(MEASURE_NAMES[target.measure])
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    return drawing


def _header(verdicts: Sequence[Verdict]) -> str:
    target, searched = verdicts[0].target, verdicts[0].search
    lines = "".join(f"<p>{escape(verdict.sentence())}</p>" for verdict in verdicts)
    setting = (
        f"{count(target.horizon)} rounds; effort {searched.effort}: "
        f"{count(sum(v.search.replications for v in verdicts))} replications of "
        f"{count(sum(v.search.candidates for v in verdicts))} attacks; seed {searched.seed}. "
        "Searching, selecting and confirming use different seeds, and the attack is fixed before "
        "it is confirmed."
    )
    return (
        f"<header><h1>Worst attacks on {escape(target.policy.tag())}</h1>{lines}"
        f'<p class="setting">{escape(setting)}</p></header>'
    )


def _table_section(verdicts: Sequence[Verdict]) -> str:
    rows = []
    for verdict in verdicts:
        first, *others = verdict_cells(verdict)
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        rows.append(f'<tr><th scope="row">{first}</th>{cells}</tr>')
    words = (
        f"Figures on held-out seeds; {CAUTION}. The factor compares with the best built-in attack "
        "on the same seeds; searched / held-out shows how much luck the search had picked."
    )
    return f"<section><h2>Figures</h2>{table(COLUMNS, rows)}<p>{escape(words)}</p></section>"


def _curve_section(verdicts: Sequence[Verdict]) -> str:
    measure = MEASURE_NAMES[verdicts[0].target.measure]
    budgets = ", ".join(figure(verdict.target.budget) for verdict in verdicts)
    return figure_section(
        f"Worst {measure} against the budget",
        draw_worst(verdicts),
        "worst",
        f"Mean {measure} under the worst attack found at the budgets {budgets}.",
        "Bars are 95% intervals of the mean. A policy that is robust stays near the line 2C: who "
        "makes two arms look exchanged costs the learner C on the way in and C on the way out.",
    )


def _attack_section(verdict: Verdict) -> str:
    name = f"The attack with a budget of {figure(verdict.target.budget)}"
    spent = percent(min(1.0, verdict.held_out.spent / verdict.target.budget))
    return (
        f"<section><h2>{escape(name)}</h2><p>{escape(verdict.description)} "
        f"It spent {spent} of the budget.</p>"
        f'<pre class="command"><code>{escape(verdict.command)}</code></pre>'
        f"<details><summary>As data</summary>{data_block(verdict.attack.to_builtins())}</details>"
        "</section>"
    )


def _rerun_section(command: str) -> str:
    return (
        "<section><h2>Search again</h2><p>The same verdict, bit for bit, on any machine:</p>"
        f'<pre class="command"><code>{escape(command)}</code></pre></section>'
    )
