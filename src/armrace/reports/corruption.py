"""Regret against corruption: the mean of each policy at each budget, with 95% intervals."""

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

from armrace.reports.drawing import colour, dashes, label_ends, new_figure, tidy
from armrace.reports.formatting import count, short
from armrace.simulation import Comparison
from armrace.statistics import mean_interval

__all__ = ["draw_sweep"]

_LINEAR_BELOW = 1000.0


def draw_sweep(sweeps: Mapping[float, Comparison], measure: str = "regret") -> Figure:
    """Mean regret at each budget; both axes are logarithmic away from zero."""
    budgets = sorted(sweeps)
    drawing, axes = new_figure(9.6, 4.6)
    ends, lowest = [], np.inf
    for position, label in enumerate(sweeps[budgets[0]].results):
        samples = [sweeps[budget].results[label].sample(measure) for budget in budgets]
        means = np.array([sample.mean() for sample in samples])
        errors = np.array([mean_interval(sample)[1] - sample.mean() for sample in samples])
        ink = colour(position)
        axes.errorbar(
            budgets, means, errors, color=ink, ls=dashes(position), lw=1.6, marker="o", ms=4,
            capsize=3,
        )  # fmt: skip
        ends.append((float(means[-1]), label, ink))
        lowest = min(lowest, float((means - errors).min()))
    _scale_budgets(axes, budgets)
    _scale_regrets(axes, lowest)
    axes.set_ylabel(f"mean {measure.replace('_', '-')}")
    tidy(axes)
    drawing.draw_without_rendering()
    label_ends(axes, budgets[-1], ends)
    return drawing


def _scale_budgets(axes: Axes, budgets: list[float]) -> None:
    first = next(budget for budget in budgets if budget > 0)
    axes.set_xscale("symlog", linthresh=first, linscale=0.5)
    axes.set_xlim(-0.05 * first, 1.1 * budgets[-1])
    axes.xaxis.set_major_locator(FixedLocator(budgets))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter([count(budget) for budget in budgets]))
    axes.set_xlabel("budget of the attack (logarithmic, but for 0)")


def _scale_regrets(axes: Axes, lowest: float) -> None:
    """Logarithmic, but linear around 0 where regrets are negative."""
    if lowest > 0:
        axes.set_yscale("log")
    else:
        axes.set_yscale("symlog", linthresh=_LINEAR_BELOW)
        powers = _LINEAR_BELOW * 10.0 ** np.arange(12)  # matplotlib's own ticks collide around 0
        axes.yaxis.set_major_locator(FixedLocator([*-powers[::-1], 0, *powers]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
