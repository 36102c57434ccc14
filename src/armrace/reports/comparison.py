"""The pages of a comparison and of a grid of them, and their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from armrace.adversaries import ADVERSARIES
from armrace.audit.findings import describe_report
from armrace.errors import InvalidParameter
from armrace.formatting import count, figure, short
from armrace.policies import ArmView
from armrace.red_team.verdict import describe
from armrace.reports import kit
from armrace.reports.charts import (
    Axis,
    Bar,
    Chart,
    Line,
    Panel,
    Plot,
    budget_axis,
    file_name,
    linear_axis,
    log_axis,
    mean_line,
    row_axis,
)
from armrace.reports.text import (
    AUDIT_COLUMNS,
    BUDGET_LABEL,
    HEADLINE_COLUMNS,
    MEASURE_NAMES,
    audit_rows,
    cell_name,
    comparison_styles,
    headlines,
    ledger_columns,
    measure_label,
    never_searched,
    own_worst_verdict,
    parameters,
    refresh_note,
    standings,
)
from armrace.reports.theme import GREY, Style, style_of
from armrace.simulation import Comparison, Result
from armrace.specification import display_name
from armrace.statistics import mean_interval

_DECADES = 3
"""Regrets of earlier decades are too small to be seen on a linear axis."""


def summary_curves(result: Result, measure: str) -> pl.DataFrame:
    """Mean, its 95% interval, and quantiles over the replications at each checkpoint."""
    rows = []
    for (number,), group in result.curves.group_by("round", maintain_order=True):
        sample = group[measure].to_numpy()
        low, high = mean_interval(sample)
        p05, median, p95 = np.quantile(sample, (0.05, 0.5, 0.95)).tolist()
        rows.append((number, float(sample.mean()), low, high, p05, median, p95))
    columns = ("round", "mean", "low", "high", "p05", "median", "p95")
    return pl.DataFrame(rows, schema=columns, orient="row").sort("round")


def curves_panel(comparison: Comparison, measure: str | None = None) -> Panel:
    """Regret against rounds, on a logarithmic axis of rounds; of many policies, some grey."""
    measure, lines, heights = measure or comparison.measure, [], list[float]()
    horizon = max(result.horizon for result in comparison.results.values())
    first = max(1, horizon / 10**_DECADES)
    for label, style in comparison_styles(comparison).items():
        found = summary_curves(comparison.results[label], measure)
        shown = found.filter(pl.col("round") >= min(first, found["round"].max()))
        end = (shown["low"][-1], shown["high"][-1])
        heights += [*shown["mean"], *end]
        grey = style == GREY
        quantiles = ([], []) if grey else (shown["p05"].to_list(), shown["p95"].to_list())
        heights += [*quantiles[0], *quantiles[1]]
        lines.append(
            Line(
                "" if grey else label, style.ink, shown["round"].to_list(),
                shown["mean"].to_list(), *quantiles, band=True, end=end, dashes=style.dashes,
                width=0.8 if grey else 1.9,
            )
        )  # fmt: skip
    rounds = log_axis("rounds played (logarithmic)", first, max(2, horizon))
    room = 0.03 * (max(heights) - min(heights)) or 0.5
    height = linear_axis(measure_label(measure), min(heights) - room, max(heights) + room)
    return Panel(rounds, height, lines)


def curves_plot(comparison: Comparison, name: str = "curves", *, attack: str = "") -> Plot:
    """Describe the measure that ranks over time; ``attack`` says what policies meet, if not one."""
    measure = MEASURE_NAMES[comparison.measure]
    under = f", each policy under {attack}" if attack else ""
    runs = count(next(iter(comparison.results.values())).replications)

    def data() -> pl.DataFrame:
        return pl.concat(
            summary_curves(result, comparison.measure).select(
                pl.lit(label).alias("policy"), pl.all()
            )
            for label, result in comparison.results.items()
        )

    return Plot(
        name=name,
        heading=f"{measure.capitalize()} over time{under}",
        chart=Chart([curves_panel(comparison)]),
        data=data,
        description=f"{measure.capitalize()} against rounds, one line per policy. "
        f"{comparison.verdict()}",
        caption=f"Lines are means of the {measure} over {runs} runs; the bars at their ends are "
        "95% intervals of the mean, and the bands reach from the 5% to the 95% quantile of the "
        "runs. A policy that loses the same amount in every round bends upwards on this axis."
        + grey_words(comparison_styles(comparison)),
    )


def grey_words(styles: Mapping[str, Style], words: str = "policies of the table") -> str:
    """Say in a caption what grey lines are, if there are any."""
    return f" Grey lines are the other {words}." if GREY in styles.values() else ""


_ROW = 27.0
_LINEAR_WITHIN = 12.0
"""Means that differ by a smaller factor are drawn on a linear axis."""

_OWN_WORST, _SHARED, _QUIET = "its own worst attack", "the same attack for all", "no attack"
_MARKERS: dict[str, Any] = {_OWN_WORST: "D", _SHARED: "o", _QUIET: "s"}


def dots_plot(
    comparison: Comparison,
    worst: Sequence[Comparison] = (),
    quiet: Sequence[Comparison] = (),
    *,
    name: str = "end",
) -> Plot:
    """Describe the figure of the means at the end, one row per policy, the best at the top.

    With ``worst``, policies are ordered by it, and the other attacks are hollow marks.
    """
    named = [(_QUIET, each) for each in quiet if worst]
    named += [(_SHARED, comparison), *((_OWN_WORST, each) for each in worst)]
    data = pl.concat(
        each.table(comparison.measure).select(
            "policy", "mean", "low", "high", "p95", attack=pl.lit(words)
        )
        for words, each in named
    )
    main, main_attack = (worst[0], _OWN_WORST) if worst else (comparison, _SHARED)
    order = main.table()["policy"].to_list()
    bars = []
    for row in data.iter_rows(named=True):
        place, ink = order.index(row["policy"]), style_of(row["policy"]).ink
        bar = Bar(place, ink, row["mean"], marker=_MARKERS[row["attack"]], hollow=True)
        if row["attack"] == main_attack:
            ends = {"low": row["low"], "high": row["high"], "quantile": row["p95"]}
            bar = bar._replace(hollow=False, **ends)
        bars.append(bar)
    keys = [
        Line(words, "muted", (), (), marker=_MARKERS[words], hollow=words != main_attack,
             width=1.6 if words == main_attack else 0)
        for words, _ in reversed(named)
    ]  # fmt: skip
    measure = MEASURE_NAMES[comparison.measure]
    runs = next(iter(comparison.results.values())).replications
    axis = _means_axis(data, measure_label(comparison.measure, "mean "))
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} at the end",
        chart=Chart(
            [Panel(axis, row_axis(order), bars=bars)],
            height=56 + _ROW * len(order),
            keys=keys if worst else None,
        ),
        data=lambda: data,
        description=f"Mean {measure} of each policy with its 95% interval. {comparison.verdict()}",
        caption=f"Mean of {count(runs)} runs with its 95% interval; the tick is the 95th "
        "percentile of the runs.",
    )


def _means_axis(data: pl.DataFrame, label: str) -> Axis:
    """An axis that is logarithmic if the means are far apart."""
    values = data.select("mean", "low", "high", "p95").to_numpy()
    lowest, highest = float(values.min()), float(values.max())
    if (lowest > 0 and highest >= _LINEAR_WITHIN * lowest) or highest >= 1e5 > lowest:
        return log_axis(label, 0.85 * lowest if lowest > 0 else lowest, 1.15 * highest)
    room = 0.04 * (highest - lowest) or 0.5
    return linear_axis(label, lowest - room, highest + room)


_APART = 4.0
"""Pixels between bars at the same budget, so that none hides another."""


def sweep_plot(sweeps: Mapping[float, Comparison], styles: Mapping[str, Style]) -> Plot:
    """Describe regret against corruption; ``sweeps`` maps budgets to their comparisons.

    Policies that were not run at every budget are left out of the drawing.
    """
    budgets = sorted(sweeps)
    largest = sweeps[budgets[-1]]
    measure = largest.measure
    rows = []
    for budget in budgets:
        for label, result in sweeps[budget].results.items():
            low, high = mean_interval(result.sample(measure))
            found = result.figure(measure)
            rows.append(
                {"policy": label, "budget": budget, "replications": result.replications,
                 "mean": found.mean, "low": low, "high": high, "p05": found.p05, "p95": found.p95}
            )  # fmt: skip
    data = pl.DataFrame(rows)
    everywhere = [each for each in styles if all(each in sweeps[b].results for b in budgets)]
    coloured = [label for label in everywhere if styles[label] != GREY]
    lines, ends = [], list[float]()
    for label in everywhere:
        own, style = data.filter(pl.col("policy") == label), styles[label]
        grey = style == GREY
        quantiles = own.select("budget", "mean", low="p05", high="p95")
        line = mean_line(label, style, "budget", quantiles, least=None)
        if not grey:
            line = line._replace(aside=_APART * (coloured.index(label) - (len(coloured) - 1) / 2))
        ends += [*own["p05"], *own["p95"]]
        lines.append(line)
    words = MEASURE_NAMES[measure]
    attack = display_name(next(iter(largest.results.values())).spec["adversary"]["name"])
    runs = map(str, data["replications"].unique().sort())
    room = 0.05 * (max(ends) - min(ends)) or 1.0
    low, high = (
        (0.85 * min(ends), 1.15 * max(ends)) if min(ends) > 0
        else (min(ends) - room, max(ends) + room)
    )  # fmt: skip
    scaled = "logarithmic except at 0" if budgets[0] == 0 else "logarithmic"
    panel = Panel(
        budget_axis(f"{BUDGET_LABEL}, {scaled}", budgets),
        log_axis(measure_label(measure, "mean "), low, high),
        lines,
    )
    return Plot(
        name=f"corruption-{file_name(attack)}",
        heading=f"{words.capitalize()} against corruption: {attack}",
        chart=Chart([panel]),
        data=lambda: data,
        description=f"Mean {words} of each policy at the budgets {', '.join(map(count, budgets))}.",
        caption=f"Mean {words} at the end over {' or '.join(runs)} replications; bars reach "
        "from the 5% to the 95% quantile of the runs. Points at one budget are moved apart so "
        "that their bars can be seen. A robust policy rises slowly and without a jump; policies "
        "that must know the corruption are told the budget." + grey_words(styles),
    )


_ARMS_WITH_NAMES = 40


def has_layers(result: Result) -> bool:
    """Whether the policy has several layers."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def race_plot(label: str, result: Result) -> Plot:
    """Describe the layers of a race at the end of the first replication."""
    active = result.race.filter(result.race["active"]).height
    views, best = result.race.to_dicts(), result.means.max()
    names = [
        f"{'★ ' if mean == best else ''}arm {arm}, mean {figure(mean)}"
        for arm, mean in enumerate(result.means)
    ]

    def draw(width: float) -> Any:
        from armrace.reports.figures import Tile, draw_tiles

        tiles = [
            Tile(
                view["layer"], view["arm"], "paper" if view["active"] else "deleted",
                (f"{view['mean']:.3f}, {short(view['pulls'])}", short(view["pulls"]))
                if view["pulls"] else (),
                "ink" if view["active"] else "deleted-ink",
            )
            for view in views
        ]  # fmt: skip
        layers = 1 + max(tile.row for tile in tiles)
        heads = [
            (arm + 0.5, f"{'★ ' if mean == best else ''}{arm}\n{figure(mean)}")
            for arm, mean in enumerate(result.means if len(names) <= _ARMS_WITH_NAMES else ())
        ]
        rows = [f"layer {layer}" for layer in range(layers)]
        return draw_tiles(tiles, rows, heads, len(names), width)

    return Plot(
        name=f"layers-{file_name(label)}",
        heading=f"The layers of {label}",
        chart=None,
        data=lambda: result.race,
        description=f"Layers by arms of {label}: {active} of {result.race.height} cells are still "
        "active.",
        caption="State at the end of the first replication: estimated mean and number of pulls "
        "of each arm in each layer; red cells are "
        "deleted. An arm that a layer deletes is deleted from all faster layers above it; an empty "
        "layer plays an active arm of the first layer that has one. Layers and arms count from 0 "
        "here; the paper counts layers from 1. The star marks the best arm; true means are below "
        "the names.",
        html=layers_table(views, names),
        draw=draw,
    )


def layers_table(views: Sequence[dict[str, Any] | ArmView], names: Sequence[str]) -> Markup:
    """A row for each layer with the mean and the pulls of every arm; deleted cells are red."""
    rows: dict[int, list[Markup]] = {}
    for view in views:
        found = view if isinstance(view, dict) else {f: getattr(view, f) for f in _FIELDS}
        text = f"{found['mean']:.3f}, {short(found['pulls'])}" if found["pulls"] else ""
        shown = kit.cell(text, "layer" if found["active"] else "layer deleted")
        rows.setdefault(found["layer"], []).append(shown)
    body = [kit.row(str(layer), cells) for layer, cells in sorted(rows.items())]
    return kit.table(["layer", *names], body, "Layers by arms", "layers")


_FIELDS = ("layer", "arm", "pulls", "mean", "active")


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
    "dynamic_regret": "sum over rounds of the gap between the best mean of the round and the mean "
    "of the arm played",
}


def meanings(*comparisons: Comparison) -> Markup:
    """Explain the columns, beginning with the measure that ranks, and what attacks see."""
    measure = comparisons[0].measure
    ranked = MEASURE_NAMES[measure]
    others = [other for other in ledger_columns(*comparisons) if other != measure]
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
        known = ledger_columns(comparison).items()
        columns |= {key: name for key, name in known if key != comparison.measure}
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
