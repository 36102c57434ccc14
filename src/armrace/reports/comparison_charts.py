"""The figures of a comparison: regret over time, at the end and against corruption; layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.transforms import ScaledTranslation

from armrace.formatting import count, figure, short
from armrace.policies import ArmView
from armrace.reports.colours import GREY, Style
from armrace.reports.drawing import (
    PAGE_WIDTH,
    End,
    Plot,
    add_legend,
    file_name,
    is_narrow,
    label_measure,
    name_lines,
    new_figure,
    scale_budgets,
    scale_regrets,
    shorten_ticks,
    tidy,
)
from armrace.reports.text import MEASURE_NAMES, all_styles, comparison_styles
from armrace.reports.theme import LIGHT
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


def curves_data(comparison: Comparison, measure: str | None = None) -> pl.DataFrame:
    """The numbers that :func:`draw_curves` draws, with the policy in the first column."""
    measure = measure or comparison.measure
    return pl.concat(
        summary_curves(result, measure).select(pl.lit(label).alias("policy"), pl.all())
        for label, result in comparison.results.items()
    )


def curves_plot(comparison: Comparison, name: str = "curves", *, attack: str = "") -> Plot:
    """Describe the measure that ranks over time; ``attack`` says what policies meet, if not one."""
    measure = MEASURE_NAMES[comparison.measure]
    under = f", each policy under {attack}" if attack else ""
    runs = count(next(iter(comparison.results.values())).replications)
    caption = (
        f"Lines are means of the {measure} over {runs} runs; the bars at their ends are 95% "
        "intervals of the mean, and the bands reach from the 5% to the 95% quantile of the runs. "
        "A policy that loses the same amount in every round bends upwards on this axis."
    )
    if GREY in comparison_styles(comparison).values():
        caption += " Grey lines are the other policies of the table."
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} over time{under}",
        draw=lambda width: draw_curves(comparison, width=width),
        data=lambda: curves_data(comparison),
        description=f"{measure.capitalize()} against rounds, one line per policy. "
        f"{comparison.verdict()}",
        caption=caption,
    )


def draw_curves(
    comparison: Comparison, measure: str | None = None, width: float = PAGE_WIDTH
) -> Figure:
    """A new figure of regret against rounds."""
    drawing, axes = new_figure(width, 4.4 if width == PAGE_WIDTH else width)
    draw_curves_on(axes, comparison, measure)
    return drawing


def draw_curves_on(axes: Axes, comparison: Comparison, measure: str | None = None) -> None:
    """Draw regret against rounds, on a logarithmic axis of rounds; of many policies, some grey."""
    measure = measure or comparison.measure
    styles, ends, horizon = comparison_styles(comparison), [], 1
    width = 1.1 if is_narrow(axes) else 1.8
    for label, style in styles.items():
        result = comparison.results[label]
        frame = summary_curves(result, measure)
        horizon, ink = result.horizon, style.colour
        if style == GREY:
            axes.plot(frame["round"], frame["mean"], color=ink, lw=0.8, zorder=1.5)
            last = frame.row(-1, named=True)
            axes.vlines(horizon, last["low"], last["high"], color=ink, lw=1.2, zorder=1.5)
            continue
        axes.fill_between(frame["round"], frame["p05"], frame["p95"], color=ink, alpha=0.14, lw=0)
        axes.plot(frame["round"], frame["mean"], color=ink, ls=style.line, lw=width)
        last = frame.row(-1, named=True)
        axes.vlines(horizon, last["low"], last["high"], color=ink, lw=3.5, clip_on=False, zorder=4)
        ends.append(End(last["mean"], label, style))
    axes.set_xscale("log")
    axes.set_xlim(max(1, horizon / 10**_DECADES), max(2, horizon))
    shorten_ticks(axes, "x", "y")
    axes.set_xlabel("rounds played (logarithmic)")
    axes.set_ylabel(label_measure(measure, broken=is_narrow(axes)))
    tidy(axes)
    name_lines(axes, horizon, ends, others=GREY in styles.values())


_ROW = 0.3
_LINEAR_WITHIN = 12.0
"""Means that differ by a smaller factor are drawn on a linear axis."""

_OWN_WORST, _SHARED, _QUIET = "its own worst attack", "the same attack for all", "no attack"
_MARKERS = {_OWN_WORST: "D", _SHARED: "o", _QUIET: "s"}


def dots_plot(
    comparison: Comparison,
    worst: Sequence[Comparison] = (),
    quiet: Sequence[Comparison] = (),
    *,
    name: str = "end",
) -> Plot:
    """Describe the figure of the means at the end, one row per policy."""
    measure = MEASURE_NAMES[comparison.measure]
    first = next(iter(comparison.results.values()))
    caption = (
        f"Mean of {count(first.replications)} runs with its 95% interval; the tick is the 95th "
        "percentile of the runs."
    )
    return Plot(
        name=name,
        heading=f"{measure.capitalize()} at the end",
        draw=lambda width: draw_dots(comparison, worst, quiet, width),
        data=lambda: dots_data(comparison, worst, quiet),
        description=f"Mean {measure} of each policy with its 95% interval. {comparison.verdict()}",
        caption=caption,
    )


def dots_data(
    comparison: Comparison, worst: Sequence[Comparison] = (), quiet: Sequence[Comparison] = ()
) -> pl.DataFrame:
    """One row per policy and attack: mean, its interval and the 95th percentile."""
    columns = ("policy", "mean", "low", "high", "p95")
    named = [(_QUIET, each) for each in quiet if worst]
    named += [(_SHARED, comparison), *((_OWN_WORST, each) for each in worst)]
    return pl.concat(
        each.table(comparison.measure).select(*columns, attack=pl.lit(words))
        for words, each in named
    )


def draw_dots(
    comparison: Comparison,
    worst: Sequence[Comparison] = (),
    quiet: Sequence[Comparison] = (),
    width: float = PAGE_WIDTH,
) -> Figure:
    """Means as dots, intervals as bars and 95th percentiles as ticks, best policy at the top.

    With ``worst``, policies are ordered by it, and the other attacks are hollow marks.
    """
    data = dots_data(comparison, worst, quiet)
    main, main_attack = (worst[0], _OWN_WORST) if worst else (comparison, _SHARED)
    order = main.table()["policy"].to_list()
    rows = {label: place for place, label in enumerate(order)}
    legend = 0.3 if worst else 0.0
    drawing, axes = new_figure(width, 0.9 + legend + _ROW * len(order))
    styles = all_styles(comparison)
    for row in data.iter_rows(named=True):
        height, ink = rows[row["policy"]], styles[row["policy"]].colour
        filled = row["attack"] == main_attack
        if filled:
            axes.plot([row["low"], row["high"]], [height] * 2, color=ink, lw=1.6)
            axes.plot([row["p95"]] * 2, [height - 0.2, height + 0.2], color=ink, lw=1.0)
        fill, marker = ink if filled else LIGHT["paper"], _MARKERS[row["attack"]]
        axes.plot(row["mean"], height, marker, color=ink, mfc=fill, ms=5.0)
    lowest, highest = data["low"].min(), max(data["p95"].max(), data["high"].max())  # type: ignore[type-var]
    if lowest <= 0 or highest < _LINEAR_WITHIN * lowest:  # type: ignore[operator]
        shorten_ticks(axes, "x")
    else:
        scale_regrets(axes, float(lowest), float(highest), "x")  # type: ignore[arg-type]
    axes.set_yticks(np.arange(len(order)), order)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlabel(label_measure(comparison.measure, "mean "))
    tidy(axes)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])
    if worst:
        add_legend(drawing, _legend(data["attack"].unique(maintain_order=True).to_list()))
    return drawing


def _legend(attacks: Sequence[str]) -> list[Line2D]:
    ink, paper = LIGHT["muted"], LIGHT["paper"]
    return [
        Line2D(
            [], [], color=ink, marker=_MARKERS[each], ms=5.0, lw=1.6 if each == _OWN_WORST else 0,
            mfc=ink if each == _OWN_WORST else paper, label=each,
        )
        for each in reversed(attacks)
    ]  # fmt: skip


_POINTS_APART = 2.6
"""Between bars at the same budget, so that none hides another."""


def sweep_plot(sweeps: Mapping[float, Comparison], styles: Mapping[str, Style]) -> Plot:
    """Describe regret against corruption; ``sweeps`` maps budgets to their comparisons."""
    budgets = sorted(sweeps)
    largest = sweeps[budgets[-1]]
    measure = MEASURE_NAMES[largest.measure]
    attack = display_name(next(iter(largest.results.values())).spec["adversary"]["name"])
    runs = sorted({r.replications for c in sweeps.values() for r in c.results.values()})
    caption = (
        f"Mean {measure} at the end over {' or '.join(map(str, runs))} replications; bars reach "
        "from the 5% to the 95% quantile of the runs. Points at one budget are moved apart so "
        "that their bars can be seen. A robust policy rises slowly and without a jump; policies "
        "that must know the corruption are told the budget."
    )
    if GREY in styles.values():
        caption += " Grey lines are the other policies of the table."
    return Plot(
        name=f"corruption-{file_name(attack)}",
        heading=f"{measure.capitalize()} against corruption: {attack}",
        draw=lambda width: draw_sweep(sweeps, styles, width=width),
        data=lambda: sweep_data(sweeps),
        description=f"Mean {measure} of each policy at the budgets "
        f"{', '.join(map(count, budgets))}.",
        caption=caption,
    )


def sweep_data(sweeps: Mapping[float, Comparison]) -> pl.DataFrame:
    """One row per policy and budget: mean, its 95% interval, and quantiles."""
    rows = []
    for budget in sorted(sweeps):
        comparison = sweeps[budget]
        for label, result in comparison.results.items():
            low, high = mean_interval(result.sample(comparison.measure))
            found = result.figure(comparison.measure)
            rows.append(
                {"policy": label, "budget": budget, "replications": result.replications,
                 "mean": found.mean, "low": low, "high": high, "p05": found.p05, "p95": found.p95}
            )  # fmt: skip
    return pl.DataFrame(rows)


def draw_sweep(
    sweeps: Mapping[float, Comparison],
    styles: Mapping[str, Style],
    measure: str | None = None,
    width: float = PAGE_WIDTH,
) -> Figure:
    """Mean regret at each budget; both axes are logarithmic away from zero.

    Policies that were not run at every budget are left out.
    """
    budgets = sorted(sweeps)
    measure = measure or sweeps[budgets[0]].measure
    drawing, axes = new_figure(width, 4.4 if width == PAGE_WIDTH else width)
    ends, lowest, highest = [], np.inf, -np.inf
    everywhere = [
        label for label in styles if all(label in sweeps[budget].results for budget in budgets)
    ]
    coloured = [label for label in everywhere if styles[label] != GREY]
    for label in everywhere:
        style = styles[label]
        samples = [sweeps[budget].results[label].sample(measure) for budget in budgets]
        means = np.array([sample.mean() for sample in samples])
        low, high = np.array([np.quantile(sample, (0.05, 0.95)) for sample in samples]).T
        lowest, highest = min(lowest, float(low.min())), max(highest, float(high.max()))
        if style == GREY:
            axes.vlines(budgets, low, high, color=style.colour, lw=0.6, zorder=1.4)
            axes.plot(budgets, means, color=style.colour, lw=0.8, zorder=1.5)
            continue
        aside = (coloured.index(label) - (len(coloured) - 1) / 2) * _POINTS_APART / 72
        moved = axes.transData + ScaledTranslation(aside, 0, drawing.dpi_scale_trans)
        axes.vlines(budgets, low, high, color=style.colour, lw=1.1, transform=moved)
        axes.plot(
            budgets, means, color=style.colour, ls=style.line, lw=1.4, marker="o", ms=3.5,
            transform=moved,
        )  # fmt: skip
        ends.append(End(float(means[-1]), label, style))
    scale_budgets(axes, budgets)
    scale_regrets(axes, lowest, highest)
    axes.set_ylim(*_limits(lowest, highest))
    axes.set_ylabel(label_measure(measure, "mean ", broken=is_narrow(axes)))
    tidy(axes)
    name_lines(axes, budgets[-1], ends, others=GREY in styles.values())
    return drawing


def _limits(lowest: float, highest: float) -> tuple[float, float]:
    """The ends of the axis; lines that are moved aside do not set them by themselves."""
    if lowest > 0:
        return 0.85 * lowest, 1.15 * highest
    room = 0.05 * (highest - lowest) or 1.0
    return lowest - room, highest + room


_ARMS_WITH_NAMES = 40
_LEAST_SIZE = 0.7
"""The smallest text in a cell, relative to the figure's; where it does not fit, none is written."""

_WIDTH_OF_LETTER = 0.62
"""Of the size of the text: the mean width of a digit."""


def has_layers(result: Result) -> bool:
    """Whether the policy has several layers."""
    layers = result.race["layer"]
    return bool(layers.len() and layers.n_unique() > 1)


def race_plot(label: str, result: Result) -> Plot:
    """Describe the layers of a race at the end of the first replication."""
    active = result.race.filter(result.race["active"]).height
    return Plot(
        name=f"layers-{file_name(label)}",
        heading=f"The layers of {label}",
        draw=lambda width: draw_race(result, width),
        data=lambda: result.race,
        description=f"Layers by arms of {label}: {active} of {result.race.height} cells are still "
        "active.",
        caption="State at the end of the first replication: estimated mean and number of pulls "
        "of each arm in each layer, the pulls alone where there is little room; red cells are "
        "deleted. An arm that a layer deletes is deleted from all faster layers above it; an empty "
        "layer plays an active arm of the first layer that has one. Layers and arms count from 0 "
        "here; the paper counts layers from 1. The star marks the best arm; true means are below "
        "the names.",
    )


def draw_race(result: Result, width: float = PAGE_WIDTH) -> Figure:
    """Layers by arms at the end of the first replication: mean and pulls in each square."""
    return draw_layers(result.race.to_dicts(), result.means, width)


def draw_layers(
    views: Sequence[dict[str, Any] | ArmView],
    means: npt.NDArray[np.float64] | None = None,
    width: float = PAGE_WIDTH,
    names: Sequence[str] = (),
) -> Figure:
    """Draw the views of all layers of all arms as a matrix."""
    rows = [_as_row(view) for view in views]
    layers = 1 + max(row["layer"] for row in rows)
    arms = 1 + max(row["arm"] for row in rows)
    height = 0.27 if width == PAGE_WIDTH else 0.2
    drawing, axes = new_figure(width, 0.8 + height * layers)
    for row in rows:
        fill = LIGHT["paper"] if row["active"] else LIGHT["deleted"]
        place = (row["arm"], row["layer"])
        axes.add_patch(Rectangle(place, 1, 1, fc=fill, ec=LIGHT["rule-strong"], lw=0.5))
    _write_cells(axes, rows, (width - 0.9) * 72 / arms)
    axes.set_xlim(0, arms)
    axes.set_ylim(layers, 0)
    wide = width == PAGE_WIDTH
    axes.set_yticks(
        np.arange(layers) + 0.5, [f"layer {n}" if wide else str(n) for n in range(layers)]
    )
    if not wide:
        axes.set_ylabel("layer")
    _name_arms(axes, means, names or [f"arm {n}" if wide else str(n) for n in range(arms)])
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.tick_params(labelsize=0.85 * mpl.rcParams["font.size"], labelcolor=LIGHT["ink"])
    axes.spines[:].set_visible(False)
    return drawing


def _as_row(view: dict[str, Any] | ArmView) -> dict[str, Any]:
    if isinstance(view, ArmView):
        return {name: getattr(view, name) for name in ("layer", "arm", "pulls", "mean", "active")}
    return view


def _write_cells(axes: Axes, rows: Sequence[dict[str, Any]], room: float) -> None:
    """Write mean and pulls into the cells, or the pulls alone, or nothing, as they fit."""
    usual = 0.8 * float(mpl.rcParams["font.size"])
    played = [row for row in rows if row["pulls"]]
    texts = [f"{row['mean']:.3f}, {short(row['pulls'])}" for row in played]
    size = _size_that_fits(texts, usual, room)
    if size is None:
        texts = [short(row["pulls"]) for row in played]
        size = _size_that_fits(texts, usual, room)
    if size is None:
        return
    for row, text in zip(played, texts, strict=True):
        ink = LIGHT["ink"] if row["active"] else LIGHT["deleted-ink"]
        axes.text(
            row["arm"] + 0.5, row["layer"] + 0.52, text, ha="center", va="center", fontsize=size,
            color=ink,
        )  # fmt: skip


def _size_that_fits(texts: Sequence[str], usual: float, room: float) -> float | None:
    """Return the size of text at which the longest fits a cell, or None if it is too small."""
    longest = max(map(len, texts), default=0)
    size = min(usual, room / (longest * _WIDTH_OF_LETTER + 0.6))
    return size if size >= _LEAST_SIZE * float(mpl.rcParams["font.size"]) else None


def _name_arms(axes: Axes, means: npt.NDArray[np.float64] | None, names: Sequence[str]) -> None:
    """Name each arm and give its true mean, if there is room and it is known; star the best."""
    arms = len(names)
    best = np.zeros(arms, dtype=np.bool_) if means is None else means == means.max()
    if arms > _ARMS_WITH_NAMES:
        axes.set_xticks([])
        starred = f"; the best is arm {int(np.argmax(best))}" if best.any() else ""
        axes.set_xlabel(f"{arms} arms{starred}")
        return
    # A pair of dollar signs would be read as a formula.
    plain = [name.replace("$", r"\$") for name in names]
    shown = [f"{'★ ' if star else ''}{name}" for star, name in zip(best, plain, strict=True)]
    if means is not None:
        shown = [f"{name}\n{figure(mean)}" for name, mean in zip(shown, means, strict=True)]
    axes.set_xticks(np.arange(arms) + 0.5, shown)
