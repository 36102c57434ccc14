"""The table of a comparison as HTML, the smallest mean regret first."""

from __future__ import annotations

from html import escape

from armrace.reports.descriptions import parameters
from armrace.reports.layout import table
from armrace.reports.rows import comparison_inks, standings
from armrace.simulation import Comparison

__all__ = ["comparison_table"]

_COLUMNS = {
    "policy": "policy",
    "rank": "rank",
    "mean": "mean regret",
    "interval": "95% interval",
    "excess": "above the best",
    "median": "median",
    "p95": "p95",
    "rank_p95": "rank by p95",
    "max": "max",
    "pseudo_regret": "pseudo-regret",
    "clean_regret": "clean regret",
    "corruption": "attack spent",
}


def comparison_table(comparison: Comparison) -> str:
    """One row a policy, with the colour that its lines have."""
    colours = comparison_inks(comparison)
    rows = []
    for standing in standings(comparison):
        label = standing.policy
        title = escape(parameters(comparison.results[label].spec["policy"]), quote=True)
        mark = f'<span style="background:{colours[label]}"></span>'
        name = f'<th scope="row" title="{title}">{mark}{escape(label)}</th>'
        rows.append(f"<tr>{name}{''.join(f'<td>{cell}</td>' for cell in standing[1:])}</tr>")
    return table(list(_COLUMNS.values()), rows)
