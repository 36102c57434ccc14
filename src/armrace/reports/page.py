"""The page of a comparison: one HTML file with everything inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from armrace.errors import InvalidParameter
from armrace.formatting import count
from armrace.reports.audits import audit_section
from armrace.reports.corruption import sweep_plot
from armrace.reports.curves import curves_plot
from armrace.reports.descriptions import cell_name, parameters
from armrace.reports.dots import dots_plot
from armrace.reports.layout import document, header, rerun_section, table
from armrace.reports.plots import Plot, plot_figure, plot_section
from armrace.reports.race import has_layers, race_plot
from armrace.reports.rows import comparison_styles, own_worst_verdict
from armrace.reports.sections import (
    cell_section,
    figures_section,
    meanings,
    own_worst_section,
    verdict_of,
)
from armrace.reports.tables import comparison_table, headline_table
from armrace.simulation import Comparison, Result

__all__ = ["comparison_plots", "grid_plots", "render_grid", "render_report"]


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
        f"{count(len(first.means))} arms; {parameters(first.spec['adversary'])}, budget "
        f"{count(first.spec['budget'])}; {_length(first)}."
    )
    plots = {plot.name: plot for plot in comparison_plots(comparison, sweeps, worst)}
    layers = [plot for name, plot in plots.items() if name.startswith("layers-")]
    shown = [plot for plot in plots.values() if plot not in layers]
    quiet, others = (sweeps or {}).get(0.0), [*worst, *(sweeps or {}).values()]
    said = own_worst_verdict(worst[0], quiet) if worst else verdict_of(comparison)
    figures = (
        headline_table(worst[0], comparison, quiet)
        if worst
        else comparison_table(comparison, "What each policy loses", few=True)
    )
    sections = [
        header(title, said, setting, _interruption(first)),
        f"<section>{plot_figure(shown[0])}{figures}</section>",
        f"<section><h2>What was compared</h2><p>{escape(summary)}</p></section>" if summary else "",
        *map(own_worst_section, worst),
        figures_section(comparison, others, verdict_of(comparison) if worst else ""),
        audit_section(comparison),
        *map(plot_section, shown[1:]),
        *(plot_section(plot, folded=True) for plot in layers),
        _rerun_section(command, [comparison]),
    ]
    return document(title, sections)


def comparison_plots(
    comparison: Comparison,
    sweeps: Mapping[float, Comparison] | None = None,
    worst: Sequence[Comparison] = (),
) -> list[Plot]:
    """All figures of a comparison; the arguments are those of :func:`render_report`."""
    quiet = [sweeps[0.0]] if sweeps and 0.0 in sweeps else []
    curves = (
        curves_plot(worst[0], attack="its own worst attack") if worst else curves_plot(comparison)
    )
    plots = [dots_plot(comparison, worst, quiet), curves]
    if sweeps and any(sweeps):
        plots.append(sweep_plot(sweeps, comparison_styles(comparison)))
    layered = {label: r for label, r in comparison.results.items() if has_layers(r)}
    return [*plots, *(race_plot(label, result) for label, result in layered.items())]


def render_grid(cells: Sequence[Comparison], title: str, summary: str, command: str) -> str:
    """Render the page of several attacks or budgets: one section each, and the budget sweep.

    Args:
        cells: one comparison for each attack and budget.
        title: the heading.
        summary: the story below it.
        command: the command line that runs the comparisons again.
    """
    first = _first(cells[0])
    attacks = dict.fromkeys(parameters(_first(cell).spec["adversary"]) for cell in cells)
    setting = f"{summary} Attacks: {', '.join(attacks)}; {_length(first)}.".lstrip()
    sections = [
        header(title, "", setting, _interruption(first)),
        _overview(cells),
        *map(plot_section, _sweep_plots(cells)),
        *(cell_section(cell, position) for position, cell in enumerate(cells)),
        f"<section>{meanings(*cells)}</section>",
        _rerun_section(command, cells),
    ]
    return document(title, sections)


def grid_plots(cells: Sequence[Comparison]) -> list[Plot]:
    """All figures of a grid of attacks and budgets."""
    plots = [dots_plot(cell, name=f"end-{position}") for position, cell in enumerate(cells)]
    plots += [curves_plot(cell, f"curves-{position}") for position, cell in enumerate(cells)]
    return [*_sweep_plots(cells), *plots]


def _sweep_plots(cells: Sequence[Comparison]) -> list[Plot]:
    styles = comparison_styles(cells[0])
    return [sweep_plot(each, styles) for each in _by_attack(cells) if any(each)]


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
    listed = table(("attack", "verdict"), rows, "At a glance")
    return f"<section><h2>At a glance</h2>{listed}</section>"


def _first(comparison: Comparison) -> Result:
    return next(iter(comparison.results.values()))


def _length(result: Result) -> str:
    return (
        f"{count(result.replications)} replications of {count(result.horizon)} rounds; seed "
        f"{result.spec['seed']}"
    )


def _interruption(result: Result) -> str:
    if not result.interrupted:
        return ""
    return f"Interrupted after {result.replications} of {result.spec['replications']} replications."


def _rerun_section(command: str, cells: Sequence[Comparison]) -> str:
    try:
        specs = [cell.spec for cell in cells]
        return rerun_section(command, "armrace.compare(**specification)", specs)
    except InvalidParameter:  # policies met different attacks
        specs = [result.spec for cell in cells for result in cell.results.values()]
        return rerun_section(command, "armrace.simulate(**specification)", specs)
