"""Regret on the paper's axes: against the horizon without corruption, against C at the longest."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from armrace.reports.axes import label_measure, shorten_ticks
from armrace.reports.colours import COLOURS, Style, style_of
from armrace.reports.plot_style import PAGE_WIDTH, add_legend, empty_figure, legend_lines, tidy
from armrace.reports.plots import Plot
from armrace.reports.theme import LIGHT
from armrace.verification.asymptotics import Curve

__all__ = ["draw_growth", "exponent_words", "growth_data", "growth_plot"]

_TITLES = {"T": "rounds T, without corruption", "C": "corruption C, at a trillion rounds"}


def growth_plot(curves: Sequence[Curve]) -> Plot:
    """Describe the figure of the asymptotic form of ``armrace verify``."""
    powers = "; ".join(f"{curve.policy} {exponent_words(curve)}" for curve in curves)
    return Plot(
        name="growth",
        heading="Growth on the paper's axes",
        draw=lambda width: draw_growth(curves, width),
        data=lambda: growth_data(curves),
        description="Mean pseudo-regret of each race against rounds and against corruption, with "
        "its bound.",
        caption=f"Dots are means of {curves[0].runs} runs with their 95% intervals, dashes the "
        f"bounds of the theorems; all axes are logarithmic. Fitted powers: {powers}.",
    )


def growth_data(curves: Sequence[Curve]) -> pl.DataFrame:
    """One row per race, axis and point."""
    return pl.DataFrame(
        [
            {"policy": curve.policy, "axis": curve.axis, "point": point, "mean": mean,
             "low": low, "high": high, "bound": bound}
            for curve in curves
            for point, mean, (low, high), bound in zip(
                curve.points, curve.means, curve.intervals, curve.bounds, strict=True
            )
        ]
    )  # fmt: skip


def draw_growth(curves: Sequence[Curve], width: float = PAGE_WIDTH) -> Figure:
    """Means as lines with dots, bounds as dashes, both axes logarithmic."""
    policies = list(dict.fromkeys(curve.policy for curve in curves))
    styles = _solid_styles(policies)
    needed = [axis for axis in _TITLES if any(curve.axis == axis for curve in curves)]
    beside = width == PAGE_WIDTH
    shape = (1, len(needed)) if beside else (len(needed), 1)
    drawing = empty_figure(width, 4.6 if beside else 0.6 + 2.6 * len(needed))
    panels = drawing.subplots(*shape, squeeze=False, sharey=True).ravel()
    for axes, axis in zip(panels, needed, strict=True):
        for curve in curves:
            if curve.axis == axis:
                _draw(axes, curve, styles[curve.policy].colour)
        _label(axes, _TITLES[axis])
    for axes in panels[: 1 if beside else None]:
        axes.set_ylabel(label_measure("pseudo_regret", "mean ", broken=not beside))
    bound = Line2D([], [], color=LIGHT["muted"], lw=1.0, ls="--", label="its bound")
    add_legend(drawing, [*legend_lines(styles), bound], above=True)
    return drawing


def _solid_styles(policies: Sequence[str]) -> dict[str, Style]:
    """Give every race a colour of its own, since dashes mean bounds here; its usual one if free."""
    found: dict[str, Style] = {}
    for name in sorted(policies, key=lambda name: style_of(name).line != "-"):
        used = {style.colour for style in found.values()}
        wanted = [style_of(name).colour, *COLOURS]
        found[name] = Style(next((each for each in wanted if each not in used), wanted[0]))
    return {name: found[name] for name in policies}


def _draw(axes: Axes, curve: Curve, ink: str) -> None:
    below = [mean - low for mean, (low, _) in zip(curve.means, curve.intervals, strict=True)]
    above = [high - mean for mean, (_, high) in zip(curve.means, curve.intervals, strict=True)]
    axes.errorbar(
        curve.points, curve.means, yerr=(below, above), color=ink, lw=1.6, marker="o", ms=3,
        elinewidth=1.0, capsize=2,
    )  # fmt: skip
    axes.plot(curve.points, curve.bounds, color=ink, lw=1.0, ls="--")


def _label(axes: Axes, title: str) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(title)
    shorten_ticks(axes, "x", "y")
    axes.xaxis.set_minor_locator(NullLocator())
    tidy(axes)


def exponent_words(curve: Curve) -> str:
    """The fitted power in words.

    >>> ends = ((2.0, 4.0), (5.0, 7.0))
    >>> curve = Curve("ucb1", "C", (1, 2), (3, 6), (9, 18), (1.0, 0.9, 1.1), 1.0, ends, 9)
    >>> exponent_words(curve)
    'C^1.00 (0.90 to 1.10); the bound C^1.00'
    """
    unit = "(ln T)" if curve.axis == "T" else "C"
    value, low, high = curve.exponent
    found = f"{unit}^{value:.2f} ({low:.2f} to {high:.2f})"
    return f"{found}; the bound {unit}^{curve.exponent_of_bound:.2f}"
