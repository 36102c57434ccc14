"""The axes of regrets and budgets: scales, ticks and labels with their units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from armrace.formatting import short
from armrace.reports.plot_style import is_narrow
from armrace.reports.rows import MEASURE_NAMES

__all__ = [
    "BUDGET_LABEL",
    "floor_regrets",
    "label_measure",
    "scale_budgets",
    "scale_regrets",
    "shorten_ticks",
]

BUDGET_LABEL = "budget C of the attack (in rewards)"

_LINEAR_BELOW = 1000.0
_FEW_DECADES = 200.0


def label_measure(measure: str, kind: str = "", *, broken: bool = False) -> str:
    """Return the label of an axis, with its unit.

    Args:
        measure: the measure of the ledger.
        kind: what stands before its name.
        broken: whether the unit is on a line of its own, where the axis is short.

    >>> label_measure("pseudo_regret", "mean ")
    'mean pseudo-regret (in rewards)'
    """
    gap = "\n" if broken else " "
    return f"{kind}{MEASURE_NAMES[measure]}{gap}(in rewards)"


def shorten_ticks(axes: Axes, *sides: Literal["x", "y"]) -> None:
    """Write the numbers of the axes in as few characters as possible."""
    for side in sides:
        axis = axes.xaxis if side == "x" else axes.yaxis
        axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axis.set_minor_formatter(NullFormatter())


def scale_budgets(axes: Axes, budgets: Sequence[float], labelled: bool = True) -> None:
    """Make the axis of budgets logarithmic except around 0, if 0 is one of them.

    Args:
        axes: the axes.
        budgets: the budgets in ascending order; at least one is above 0.
        labelled: whether the axis gets its label.
    """
    first = next(budget for budget in budgets if budget > 0)
    if budgets[0] > 0:
        axes.set_xscale("log")
        axes.set_xlim(0.8 * first, 1.35 * budgets[-1])
    else:
        axes.set_xscale("symlog", linthresh=first, linscale=0.5)
        axes.set_xlim(-0.3 * first, 1.35 * budgets[-1])
    axes.xaxis.set_major_locator(FixedLocator(list(budgets)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FixedFormatter([short(budget) for budget in budgets]))
    if labelled:
        logarithmic = "logarithmic except at 0" if budgets[0] == 0 else "logarithmic"
        axes.set_xlabel(BUDGET_LABEL if is_narrow(axes) else f"{BUDGET_LABEL[:-1]}, {logarithmic})")


def floor_regrets(axes: Axes, means: Sequence[float], lows: Sequence[float]) -> None:
    """End a logarithmic axis of regrets below the means.

    The interval of a few runs may reach below 0, where a logarithmic axis has no place; such a bar
    then leaves the axes at the bottom, instead of pressing all means to the top.
    """
    least = min(means)
    axes.set_ylim(bottom=max(0.9 * min(lows), 0.4 * least))


def scale_regrets(axes: Axes, lowest: float, highest: float, side: Literal["x", "y"] = "y") -> None:
    """Make the axis of regrets logarithmic, or linear around 0 if some regrets are negative.

    Labels are at 1, 2 and 5 of each decade where the regrets span few decades.

    Args:
        axes: the axes.
        lowest: the smallest regret that is drawn.
        highest: the largest regret that is drawn.
        side: which axis shows regrets.
    """
    axis, set_scale = (
        (axes.xaxis, axes.set_xscale) if side == "x" else (axes.yaxis, axes.set_yscale)
    )
    if lowest > 0:
        set_scale("log")
        if highest < _FEW_DECADES * lowest:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    else:
        set_scale("symlog", linthresh=_LINEAR_BELOW)
        powers = _LINEAR_BELOW * 10.0 ** np.arange(12)  # matplotlib's own ticks collide around 0
        axis.set_major_locator(FixedLocator([*-powers[::-1], 0, *powers]))
    shorten_ticks(axes, side)
