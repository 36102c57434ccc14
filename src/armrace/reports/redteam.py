"""The page of ``armrace redteam``: the worst attack found at each budget, and their curve."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from armrace.formatting import count, figure, percent, span
from armrace.red_team.verdict import CAUTION, Verdict
from armrace.reports.layout import data_block, document, fold, header, rerun_section, row, table
from armrace.reports.plots import Plot, plot_section
from armrace.reports.worst_attacks import held_out_plot, worst_curve_plot

__all__ = ["COLUMNS", "redteam_plots", "redteam_specification", "render_redteam", "verdict_cells"]

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


def verdict_cells(verdict: Verdict) -> list[str]:
    """Return the figures of one budget, one for each of ``COLUMNS``."""
    found, rival = verdict.held_out, verdict.builtin_held_out
    return [
        figure(verdict.target.budget),
        figure(found.mean),
        span(found.low, found.high),
        figure(found.p95),
        figure(found.max),
        figure(verdict.charged),
        verdict.builtin.tag(),
        figure(rival.mean),
        f"{verdict.factor:.2f}",
        f"{verdict.selection:.2f}",
    ]


def render_redteam(verdicts: Sequence[Verdict], command: str = "") -> str:
    """Render the page as HTML; the verdicts differ in the budget alone."""
    name = verdicts[0].target.policy.tag()
    curve = [worst_curve_plot(verdicts)] if len(verdicts) > 1 else []
    sections = [
        header(
            f"Worst attacks on {name}",
            "\n\n".join(verdict.sentence() for verdict in verdicts),
            _setting(verdicts),
        ),
        *map(plot_section, curve),
        _table_section(verdicts),
        *(_attack_section(verdict) for verdict in verdicts),
        rerun_section(
            command,
            "armrace.redteam(**specification)",
            [redteam_specification(verdict) for verdict in verdicts],
            heading="Search again",
            words="The same verdicts, bit for bit, on any machine",
        ),
    ]
    return document(f"worst attacks on {name}", sections)


def redteam_specification(verdict: Verdict) -> dict[str, Any]:
    """Return the arguments of ``armrace.redteam`` that give this verdict."""
    target, search = verdict.target, verdict.search
    return {
        "policy": target.policy.to_builtins(),
        "environment": target.environment.to_builtins(),
        "budget": target.budget,
        "horizon": target.horizon,
        "effort": search.effort,
        "objective": target.objective,
        "measure": target.measure,
        "account": target.account,
        "seed": search.seed,
        **({"searcher": search.searcher} if search.searcher != "evolution" else {}),
        **({"families": list(search.families)} if search.families else {}),
        **({"attacks": list(search.attacks)} if search.attacks else {}),
    }


def redteam_plots(verdicts: Sequence[Verdict]) -> list[Plot]:
    """All figures of searches that differ in the budget alone."""
    curve = [worst_curve_plot(verdicts)] if len(verdicts) > 1 else []
    return [*curve, *map(held_out_plot, verdicts)]


def _setting(verdicts: Sequence[Verdict]) -> str:
    target, searched = verdicts[0].target, verdicts[0].search
    model = f"; {target.model()}" if target.sees_arm else ""
    return (
        f"{count(target.horizon)} rounds{model}; effort {searched.effort}: "
        f"{count(sum(v.search.replications for v in verdicts))} replications of "
        f"{count(sum(v.search.candidates for v in verdicts))} attacks; seed {searched.seed}. "
        "Searching, selecting and confirming use different seeds, and the attack is fixed before "
        "it is confirmed."
    )


def _table_section(verdicts: Sequence[Verdict]) -> str:
    rows = [row(first, others) for first, *others in map(verdict_cells, verdicts)]
    words = (
        f"Figures on held-out seeds; {CAUTION}. The factor compares with the best built-in attack "
        "on the same seeds. Searched / held-out divides what the search saw of the attack by what "
        "it achieved on held-out seeds: the part above 1 was luck."
    )
    listed = table(COLUMNS, rows, "Figures at each budget")
    return f'<section><h2>Figures</h2>{listed}<p class="note">{escape(words)}</p></section>'


def _attack_section(verdict: Verdict) -> str:
    name = f"The attack with a budget of {figure(verdict.target.budget)}"
    spent = percent(min(1.0, verdict.charged / verdict.target.budget))
    seen = ", counted by what was seen" if verdict.target.sees_arm else ""
    command = f'<pre class="command"><code>{escape(verdict.command)}</code></pre>'
    return (
        f"<section><h2>{escape(name)}</h2><p>{escape(verdict.description)} "
        f"It spent {spent} of the budget{seen}.</p>"
        f"{command if verdict.command else ''}"
        f"{fold('The attack as data', data_block(verdict.attack.to_builtins()))}"
        f"{plot_section(held_out_plot(verdict), 3)}</section>"
    )
