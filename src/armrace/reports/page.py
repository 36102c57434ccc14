"""The page of a comparison: one HTML file with everything inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from armrace.formatting import count
from armrace.reports.audits import audit_section
from armrace.reports.descriptions import cell_name, parameters
from armrace.reports.layout import data_block, document, table
from armrace.reports.plot_style import own_style
from armrace.reports.race import has_layers
from armrace.reports.rows import comparison_styles
from armrace.reports.sections import (
    cell_section,
    curves_section,
    meanings,
    own_worst_section,
    race_section,
    sweep_section,
    verdict_and_table,
)
from armrace.simulation import Comparison, Result

__all__ = ["render_grid", "render_report", "specification"]


def render_report(
    comparison: Comparison,
    title: str,
    summary: str = "",
    command: str = "",
    sweeps: Mapping[float, Comparison] | None = None,
    worst: Sequence[Comparison] = (),
) -> str:
    """Render the page of one attack as HTML.

    Args:
        comparison: the figures.
        title: the heading.
        summary: the story below it.
        command: the command line that runs the comparison again, if there is one.
        sweeps: maps other budgets to the comparison at that budget.
        worst: comparisons in which every policy has an attack of its own.
    """
    first = _first(comparison)
    setting = (
        f"Attack {parameters(first.spec['adversary'])} with a budget of "
        f"{count(first.spec['budget'])}; {_length(first)}."
    )
    figures = (
        f"<h2>Figures at the end</h2>{verdict_and_table(comparison)}{meanings(comparison.measure)}"
    )
    with own_style():
        sections = [
            _header(title, summary, setting, first),
            f"<section>{figures}</section>",
            *map(own_worst_section, worst),
            audit_section(comparison),
            curves_section(comparison),
            sweep_section(sweeps, comparison_styles(comparison)) if sweeps else "",
            *(race_section(label, r) for label, r in comparison.results.items() if has_layers(r)),
            _rerun_section(command, specification(comparison)),
        ]
    return document(title, sections)


def render_grid(cells: Sequence[Comparison], title: str, summary: str, command: str) -> str:
    """Render the page of several attacks or budgets: one section each, and the budget sweep."""
    first = _first(cells[0])
    attacks = dict.fromkeys(parameters(_first(cell).spec["adversary"]) for cell in cells)
    setting = f"Attacks: {', '.join(attacks)}; {_length(first)}."
    with own_style():
        sections = [
            _header(title, summary, setting, first),
            _overview(cells),
            *(sweep_section(each, comparison_styles(cells[0])) for each in _by_attack(cells)),
            *(cell_section(cell, position) for position, cell in enumerate(cells)),
            f"<section><h2>What the columns mean</h2>{meanings(cells[0].measure)}</section>",
            _rerun_section(command, *map(specification, cells)),
        ]
    return document(title, sections)


def _by_attack(cells: Sequence[Comparison]) -> list[dict[float, Comparison]]:
    """For each attack that has several budgets, the comparison at each of them."""
    found: dict[str, dict[float, Comparison]] = {}
    for cell in cells:
        spec = _first(cell).spec
        found.setdefault(parameters(spec["adversary"]), {})[float(spec["budget"])] = cell
    return [budgets for budgets in found.values() if len(budgets) > 1]


def _overview(cells: Sequence[Comparison]) -> str:
    rows = []
    for position, cell in enumerate(cells):
        name = escape(cell_name(_first(cell).spec))
        words = escape(cell.verdict())
        rows.append(
            f'<tr><th scope="row"><a href="#cell-{position}">{name}</a></th>'
            f'<td class="words">{words}</td></tr>'
        )
    return f"<section><h2>At a glance</h2>{table(('attack', 'verdict'), rows)}</section>"


def _first(comparison: Comparison) -> Result:
    return next(iter(comparison.results.values()))


def _length(result: Result) -> str:
    return (
        f"{count(result.replications)} replications of {count(result.horizon)} rounds; seed "
        f"{result.spec['seed']}"
    )


def _header(title: str, summary: str, setting: str, result: Result) -> str:
    lines = [
        f"<header><h1>{escape(title)}</h1>",
        f"<p>{escape(summary)}</p>" if summary else "",
        f'<p class="setting">{escape(setting)}</p>',
    ]
    if result.interrupted:
        lines.append(
            f'<p class="warning">Interrupted after {result.replications} of '
            f"{result.spec['replications']} replications.</p>"
        )
    return "\n".join([*lines, "</header>"])


def _rerun_section(command: str, *specifications: dict[str, object]) -> str:
    line = f'<pre class="command"><code>{escape(command)}</code></pre><p>or in Python, as '
    return (
        "<section><h2>Run it again</h2><p>The same figures, bit for bit, on any machine: "
        f"{'</p>' + line if command else ''}"
        "<code>armrace.compare(**specification)</code>, with</p>"
        f"{''.join(map(data_block, specifications))}</section>"
    )


def specification(comparison: Comparison) -> dict[str, object]:
    """The arguments of ``armrace.compare`` that make this comparison."""
    results = list(comparison.results.values())
    shared = {k: v for k, v in results[0].spec.items() if k not in {"name", "policy"}}
    return {"policies": [result.spec["policy"] for result in results], **shared}
