"""The table of a comparison as HTML, ordered by the measure that ranks."""

from __future__ import annotations

from armrace.reports.descriptions import parameters
from armrace.reports.layout import line_mark, row, table
from armrace.reports.rows import (
    HEADLINE_COLUMNS,
    MEASURE_NAMES,
    comparison_styles,
    headlines,
    standings,
)
from armrace.simulation import Comparison

__all__ = ["comparison_table", "headline_table"]

_RANKED = {
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


_FEW = ("mean", "interval", "excess", "p95")


def headline_table(worst: Comparison, shared: Comparison, quiet: Comparison | None) -> str:
    """What each policy loses under its own worst attack, under the shared one and under none."""
    styles = comparison_styles(shared)
    rows = [
        row(policy, cells, line_mark(styles[policy]))
        for policy, *cells in headlines(worst, shared, quiet)
    ]
    return table(HEADLINE_COLUMNS, rows, "What each policy loses", "headline")


def comparison_table(
    comparison: Comparison, label: str = "Figures at the end", *, few: bool = False
) -> str:
    """One row per policy, marked with its line in the plots; ``few`` columns fit every screen."""
    styles = comparison_styles(comparison)
    ranked = MEASURE_NAMES[comparison.measure]
    columns = {key: heading.format(measure=ranked) for key, heading in _RANKED.items()}
    if few:
        columns = {key: columns[key] for key in _FEW}
    else:
        columns |= {key: name for key, name in MEASURE_NAMES.items() if key != comparison.measure}
    rows = []
    for standing in standings(comparison):
        name = standing.policy
        cells = [getattr(standing, key) for key in columns]
        cells = [_BEST if cell == "best" else cell for cell in cells]
        title = parameters(comparison.results[name].spec["policy"])
        rows.append(row(name, cells, line_mark(styles[name]), title))
    return table(["policy", *columns.values()], rows, label)
