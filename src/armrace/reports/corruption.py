"""Regret against corruption: the mean of each policy at each budget, and its quantiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    NullFormatter,
    NullLocator,
)

from armrace.formatting import count, short
from armrace.reports.colours import GREY, Style
from armrace.reports.plot_style import PAGE_WIDTH, End, label_decades, name_lines, new_figure, tidy
from armrace.reports.rows import MEASURE_NAMES
from armrace.simulation import Comparison

__all__ = ["draw_sweep", "scale_budgets", "scale_regrets"]

_LINEAR_BELOW = 1000.0


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
    drawing, axes = new_figure(width, 4.6 if width == PAGE_WIDTH else 0.85 * width)
    ends, lowest, highest = [], np.inf, -np.inf
    for label, style in styles.items():
        if any(label not in sweeps[budget].results for budget in budgets):
            continue
        samples = [sweeps[budget].results[label].sample(measure) for budget in budgets]
        means = np.array([sample.mean() for sample in samples])
        low, high = np.array([np.quantile(sample, (0.05, 0.95)) for sample in samples]).T
        lowest, highest = min(lowest, float(low.min())), max(highest, float(high.max()))
        if style == GREY:
            axes.plot(budgets, means, color=style.colour, lw=0.8, zorder=1.5)
            continue
        axes.vlines(budgets, low, high, color=style.colour, lw=1.2)
        axes.plot(budgets, means, color=style.colour, ls=style.line, lw=1.6, marker="o", ms=4)
        ends.append(End(float(means[-1]), label, style))
    scale_budgets(axes, budgets)
    scale_regrets(axes, lowest, highest)
    axes.set_ylabel(f"mean {MEASURE_NAMES[measure]}")
    tidy(axes)
    name_lines(axes, budgets[-1], ends, others=GREY in styles.values())
    return drawing


def scale_budgets(axes: Axes, budgets: list[float]) -> None:
    """Make the axis of budgets logarithmic except around 0, the first budget."""
    first = next(budget for budget in budgets if budget > 0)
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.05 * first, 1.1 * budgets[-1])
    axes.xaxis.set_major_locator(FixedLocator(budgets))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter([count(budget) for budget in budgets]))
    axes.set_xlabel("budget of the attack (logarithmic except at 0)")


def scale_regrets(axes: Axes, lowest: float, highest: float) -> None:
    """Make the axis of regrets logarithmic, or linear around 0 if some regrets are negative."""
    if lowest > 0:
        axes.set_yscale("log")
        label_decades(axes, lowest, highest)
    else:
        axes.set_yscale("symlog", linthresh=_LINEAR_BELOW)
        powers = _LINEAR_BELOW * 10.0 ** np.arange(12)  # matplotlib's own ticks collide around 0
        axes.yaxis.set_major_locator(FixedLocator([*-powers[::-1], 0, *powers]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
