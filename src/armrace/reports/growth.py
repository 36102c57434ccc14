"""Regret on the paper's axes: against the horizon without corruption, against C at the longest."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from armrace.formatting import short
from armrace.reports.colours import choose_styles
from armrace.reports.plot_style import tidy
from armrace.verification.asymptotics import Curve

__all__ = ["draw_growth", "exponent_words"]

_TITLES = {"T": "rounds, without corruption", "C": "corruption, at a trillion rounds"}


def draw_growth(curves: Sequence[Curve]) -> Figure:
    """Means as lines with dots, bounds as dashes, both axes logarithmic."""
    policies = list(dict.fromkeys(curve.policy for curve in curves))
    styles = choose_styles(policies, best_first=policies)
    axes_needed = [axis for axis in _TITLES if any(curve.axis == axis for curve in curves)]
    drawing = Figure(figsize=(9.6, 5.0), layout="constrained")
    FigureCanvasAgg(drawing)
    panels = drawing.subplots(1, len(axes_needed), squeeze=False, sharey=True)[0]
    for axes, axis in zip(panels, axes_needed, strict=True):
        for curve in curves:
            if curve.axis == axis:
                _draw(axes, curve, styles[curve.policy].colour)
        _label(axes, _TITLES[axis])
    panels[0].set_ylabel("pseudo-regret; the bounds are dashed")
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False, fontsize=9)
    return drawing


def _draw(axes: Axes, curve: Curve, ink: str) -> None:
    axes.plot(curve.points, curve.means, color=ink, lw=1.6, marker="o", ms=3, label=curve.policy)
    axes.plot(curve.points, curve.bounds, color=ink, lw=1.0, ls="--")


def _label(axes: Axes, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(title)
    for side in (axes.xaxis, axes.yaxis):
        side.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        side.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    tidy(axes)


def exponent_words(curve: Curve) -> str:
    """The fitted power in words.

    >>> curve = Curve("ucb1", "C", (1, 2), (3, 6), (9, 18), (1.0, 0.9, 1.1), 1.0)
    >>> exponent_words(curve)
    'C^1.00 (0.90 to 1.10); the bound C^1.00'
    """
    unit = "(ln T)" if curve.axis == "T" else "C"
    value, low, high = curve.exponent
    found = f"{unit}^{value:.2f} ({low:.2f} to {high:.2f})"
    return f"{found}; the bound {unit}^{curve.exponent_of_bound:.2f}"
