"""Regret against corruption: the mean of each policy at each budget, and its quantiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from matplotlib.figure import Figure
from matplotlib.transforms import ScaledTranslation

from armrace.formatting import count
from armrace.reports.axes import label_measure, scale_budgets, scale_regrets
from armrace.reports.colours import GREY, Style
from armrace.reports.plot_style import PAGE_WIDTH, End, is_narrow, name_lines, new_figure, tidy
from armrace.reports.plots import Plot, file_name
from armrace.reports.rows import MEASURE_NAMES
from armrace.simulation import Comparison
from armrace.specification import display_name
from armrace.statistics import mean_interval

__all__ = ["draw_sweep", "sweep_data", "sweep_plot"]

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

    Args:
        sweeps: maps budgets to their comparisons.
        styles: the style of each policy that may be drawn.
        measure: the measure; by default that of the comparisons.
        width: of the figure, in inches.
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
