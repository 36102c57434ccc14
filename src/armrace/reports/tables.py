"""The table of a comparison as HTML, ordered by the measure that ranks."""

from __future__ import annotations

from armrace.reports.descriptions import parameters
from armrace.reports.layout import line_mark, row, table
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

_BEST = '<td data-value="0">best</td>'
"""The best policy exceeds itself by nothing, which is where its row is sorted."""


def comparison_table(comparison: Comparison, label: str = "Figures at the end") -> str:
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
        name = standing.policy
        cells = [getattr(standing, key) for key in columns]
        cells = [_BEST if cell == "best" else cell for cell in cells]
        title = parameters(comparison.results[name].spec["policy"])
        rows.append(row(name, cells, line_mark(styles[name]), title))
    return table(["policy", *columns.values()], rows, label)
