"""The table of a comparison as HTML, ordered by the measure that ranks."""

from __future__ import annotations

from html import escape

from armrace.reports.descriptions import parameters
from armrace.reports.layout import line_mark, table
from armrace.reports.rows import MEASURE_NAMES, comparison_styles, standings
from armrace.simulation import Comparison

__all__ = ["comparison_table"]

_RANKED = {
    "rank": "rank",
    "mean": "mean {measure}",
    "interval": "95% interval",
    "excess": "above the best",
    "median": "median",
    "p95": "p95",
    "rank_p95": "rank by p95",
    "max": "max",
}


def comparison_table(comparison: Comparison) -> str:
    """One row per policy, marked with the line that it has in the plots."""
    styles = comparison_styles(comparison)
    others = {key: name for key, name in MEASURE_NAMES.items() if key != comparison.measure}
    ranked = MEASURE_NAMES[comparison.measure]
    columns = {
        **{key: heading.format(measure=ranked) for key, heading in _RANKED.items()},
        **others,
    }
    rows = []
    for standing in standings(comparison):
        label = standing.policy
        title = escape(parameters(comparison.results[label].spec["policy"]), quote=True)
        name = f'<th scope="row" title="{title}">{line_mark(styles[label])}{escape(label)}</th>'
        cells = "".join(f"<td>{getattr(standing, key)}</td>" for key in columns)
        rows.append(f"<tr>{name}{cells}</tr>")
    return table(["policy", *columns.values()], rows)
