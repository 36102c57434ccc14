"""The pages of a comparison and of a grid of them: one HTML file with everything inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from armrace.adversaries import ADVERSARIES
from armrace.audit.findings import describe_report
from armrace.errors import InvalidParameter
from armrace.formatting import count
from armrace.red_team.verdict import describe
from armrace.reports import kit
from armrace.reports.charts import Plot
from armrace.reports.comparison_plots import (
    curves_plot,
    dots_plot,
    has_layers,
    race_plot,
    sweep_plot,
)
from armrace.reports.text import (
    AUDIT_COLUMNS,
    HEADLINE_COLUMNS,
    MEASURE_NAMES,
    audit_rows,
    cell_name,
    comparison_styles,
    headlines,
    never_searched,
    own_worst_verdict,
    parameters,
    refresh_note,
    standings,
)
from armrace.simulation import Comparison, Result


def render_report(
    comparison: Comparison,
    title: str,
    summary: str = "",
    command: str = "",
    sweeps: Mapping[float, Comparison] | None = None,
    worst: Sequence[Comparison] = (),
) -> str:
    """Render the page of one attack as HTML."""
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
        kit.header(title, said, setting, _interruption(first)),
        Markup("<section>{}{}</section>").format(kit.plot_figure(shown[0]), figures),
        kit.section("What was compared", [kit.paragraphs([summary])]) if summary else "",
        *map(own_worst_section, worst),
        figures_section(comparison, others, verdict_of(comparison) if worst else ""),
        audit_section(comparison),
        *map(kit.plot_section, shown[1:]),
        *(kit.plot_section(plot, folded=True) for plot in layers),
        _rerun_section(command, [comparison]),
    ]
    return kit.document(title, sections)


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
    """Render the page of several attacks or budgets: one section each, and the budget sweep."""
    first = _first(cells[0])
    attacks = dict.fromkeys(parameters(_first(cell).spec["adversary"]) for cell in cells)
    setting = f"{summary} Attacks: {', '.join(attacks)}; {_length(first)}.".lstrip()
    sections = [
        kit.header(title, "", setting, _interruption(first)),
        _overview(cells),
        *map(kit.plot_section, _sweep_plots(cells)),
        *(cell_section(cell, position) for position, cell in enumerate(cells)),
        Markup("<section>{}</section>").format(meanings(*cells)),
        _rerun_section(command, cells),
    ]
    return kit.document(title, sections)


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
    for each in cells:
        spec = _first(each).spec
        found.setdefault(parameters(spec["adversary"]), {})[float(spec["budget"])] = each
    return [budgets for budgets in found.values() if len(budgets) > 1]


def _overview(cells: Sequence[Comparison]) -> Markup:
    link = Markup('<a href="#cell-{}">{}</a>')
    rows = [
        (link.format(position, cell_name(_first(each).spec)), kit.cell(each.verdict()))
        for position, each in enumerate(cells)
    ]
    return kit.section("At a glance", [kit.listing(("attack", "verdict"), rows, "At a glance")])


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


def _rerun_section(command: str, cells: Sequence[Comparison]) -> Markup:
    try:
        specs = [cell.spec for cell in cells]
        return kit.rerun_section(command, "armrace.compare(**specification)", specs)
    except InvalidParameter:  # policies met different attacks
        specs = [result.spec for cell in cells for result in cell.results.values()]
        return kit.rerun_section(command, "armrace.simulate(**specification)", specs)


_MEANINGS = {
    "pseudo_regret": "sum over rounds of the gap between the best mean and the mean of the arm "
    "played; an attack changes it only through the choices of the policy",
    "regret": "what the best fixed arm would have collected under attack, minus what the policy "
    "collected under attack; an attack can lower it by lowering all rewards, and it is negative "
    "for a policy that beats every single arm",
    "clean_regret": "as regret, on the rewards before corruption",
    "corruption": "sum over rounds of the largest change to any arm; mean over the runs",
}


def meanings(*comparisons: Comparison) -> Markup:
    """Explain the columns, beginning with the measure that ranks, and what attacks see."""
    measure = comparisons[0].measure
    ranked = MEASURE_NAMES[measure]
    others = [other for other in _MEANINGS if other != measure]
    terms = {
        ranked: f"ranks the policies: {_MEANINGS[measure]}",
        "above the best": f"difference in {ranked} to the best policy on the same rewards, "
        "replication by replication; these intervals hold jointly with 95%",
        "rank by p95": "the order by the 95th percentile over the replications: which policies "
        "are safe, rather than good on average",
        **{MEASURE_NAMES[other]: _MEANINGS[other] for other in others},
    }
    if note := refresh_note(*comparisons):
        terms["attack"] = note.removesuffix(".")
    return kit.meanings_list((name, f"{text}.") for name, text in terms.items())


def verdict_of(comparison: Comparison) -> str:
    """What the comparison shows, in words; empty for a single policy."""
    return comparison.verdict() if len(comparison.results) > 1 else ""


def figures_section(comparison: Comparison, others: Sequence[Comparison], verdict: str) -> Markup:
    """All figures under the attack that policies share, a verdict unless it is empty, and columns.

    The explanation of the columns also covers ``others``, which the page shows elsewhere.
    """
    attack = cell_name(next(iter(comparison.results.values())).spec)
    figures = comparison_table(comparison)
    explained = meanings(comparison, *others)
    return kit.section(
        f"All policies under {attack}",
        [kit.paragraphs([verdict]), figures, _notes(comparison), explained],
    )


def _notes(comparison: Comparison) -> Markup:
    told = [label for label, r in comparison.results.items() if "corruption" in r.spec["policy"]]
    return kit.note(f"Told the budget in advance: {', '.join(told)}." if told else "")


def own_worst_section(comparison: Comparison) -> Markup:
    """Each policy under the worst of the attacks that were tried on it."""
    rows = [
        (label, kit.cell(_attack_in_words(result))) for label, result in comparison.results.items()
    ]
    words = (
        "Each policy meets the attack that costs it most of those that were tried on it: the "
        "worst that searches have found for it in similar settings, and some others, all with the "
        "same budget and on the same rewards. A worse attack may exist; armrace redteam searches "
        "for one in exactly this setting."
    )
    label = "Figures under each policy's own worst attack"
    parts = [
        kit.paragraphs([words]),
        comparison_table(comparison, label),
        kit.note(never_searched(comparison)),
        kit.fold(
            "What the attacks do", kit.listing(("policy", "attack"), rows, "What the attacks do")
        ),
    ]
    return kit.section("Each policy under its own worst attack", parts)


def _attack_in_words(result: Result) -> str:
    return describe(ADVERSARIES.make(result.spec["adversary"]))


def cell_section(comparison: Comparison, position: int) -> Markup:
    """One attack at one budget of a grid: figures, and the plots folded away."""
    first = next(iter(comparison.results.values()))
    name = cell_name(first.spec)
    plots = (
        dots_plot(comparison, name=f"end-{position}"),
        curves_plot(comparison, f"curves-{position}"),
    )
    parts = [
        kit.paragraphs([verdict_of(comparison)]),
        comparison_table(comparison, f"Figures: {name}"),
        _notes(comparison),
        audit_section(comparison, level=3),
        *(kit.plot_section(plot, 3, folded=True) for plot in plots),
    ]
    return kit.section(name, parts, id=f"cell-{position}")


_RANKED = {
    "mean": "mean {measure}",
    "interval": "95% interval",
    "excess": "above the best",
    "median": "median",
    "p95": "p95",
    "rank_p95": "rank by p95",
    "max": "max",
}

_BEST = Markup('<td data-value="0">best</td>')
"""The best policy exceeds itself by nothing, which is where its row is sorted."""


_FEW = ("mean", "interval", "excess", "p95")


def headline_table(worst: Comparison, shared: Comparison, quiet: Comparison | None) -> Markup:
    """What each policy loses under its own worst attack, under the shared one and under none."""
    styles = comparison_styles(shared)
    rows = [
        kit.row(policy, cells, kit.line_mark(styles[policy]))
        for policy, *cells in headlines(worst, shared, quiet)
    ]
    return kit.table(HEADLINE_COLUMNS, rows, "What each policy loses", "headline")


def comparison_table(
    comparison: Comparison, label: str = "Figures at the end", *, few: bool = False
) -> Markup:
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
        name = standing["policy"]
        texts = [standing[key] for key in columns]
        cells = [_BEST if text == "best" else text for text in texts]
        title = parameters(comparison.results[name].spec["policy"])
        rows.append(kit.row(name, cells, kit.line_mark(styles[name]), title))
    return kit.table(["policy", *columns.values()], rows, label)


def audit_section(comparison: Comparison, level: int = 2) -> Markup:
    """A table of all policies, and the sentences of the audit of each one's first run."""
    rows = audit_rows(comparison.results)
    if not rows:
        return Markup()
    first = next(iter(comparison.results.values())).audits[0]
    columns = ["policy", *(heading.replace("\n", " ") for heading in AUDIT_COLUMNS.values())]
    parts = [kit.paragraphs([describe_report(first.level)]), kit.listing(columns, rows, "Audits")]
    for label, result in comparison.results.items():
        summary = f"What the audit of {label} says in the first replication"
        parts.append(kit.fold(summary, kit.items(str(result.audits[0]).splitlines())))
    return kit.section("What the feedback shows of the attack", parts, level)
