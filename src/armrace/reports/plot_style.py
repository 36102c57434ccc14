"""Shared parts of all figures: size, style, labels of lines, and SVG for pages."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator

from armrace.reports.colours import GREY, Style

__all__ = [
    "COLUMN_WIDTH",
    "PAGE_WIDTH",
    "End",
    "inline_svg",
    "is_narrow",
    "label_decades",
    "name_lines",
    "new_figure",
    "own_style",
    "tidy",
]

PAGE_WIDTH = 9.6
"""Inches, for a figure across an HTML page."""

COLUMN_WIDTH = 3.5
"""Inches, for a figure in one column of a paper."""

_NARROW = 6.0
"""Below this width, names beside the lines would leave no room for the lines."""


class End(NamedTuple):
    """The last point of a line, with the name and the style of its policy."""

    height: float
    label: str
    style: Style


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Make an empty figure, its size in inches, that is not registered with pyplot."""
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.add_subplot()


def tidy(axes: Axes) -> None:
    """Give the axes a light grid and no box."""
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color="#999999")
    axes.set_axisbelow(True)


def label_decades(axes: Axes, lowest: float, highest: float) -> None:
    """Label 1, 2 and 5 of each decade where a logarithmic axis of regrets spans few decades."""
    if highest < 200 * lowest:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def is_narrow(axes: Axes) -> bool:
    """Whether the axes belong to a figure for one column of a paper."""
    drawing = axes.get_figure(root=True)
    return drawing is not None and drawing.get_figwidth() < _NARROW


def name_lines(axes: Axes, x: float, ends: Sequence[End], *, others: bool = False) -> None:
    """Name each line beside its end, or in a legend below the axes if the figure is narrow.

    ``others`` says that there are grey lines as well, which a legend mentions.
    """
    drawing = axes.get_figure(root=True)
    if drawing is None or not ends:
        return
    drawing.draw_without_rendering()  # the places of names depend on the final layout
    if is_narrow(axes):
        _add_legend(axes, ends, others)
    else:
        _name_ends(axes, x, ends)


def _add_legend(axes: Axes, ends: Sequence[End], others: bool) -> None:
    lines = [Line2D([], [], color=e.style.colour, ls=e.style.line, label=e.label) for e in ends]
    if others:
        lines.append(Line2D([], [], color=GREY.colour, lw=0.8, label="other policies"))
    axes.legend(
        handles=lines, loc="upper center", bbox_to_anchor=(0.5, -0.2), ncols=2, frameon=False,
        fontsize="small", handlelength=2.5,
    )  # fmt: skip


def _name_ends(axes: Axes, x: float, ends: Sequence[End]) -> None:
    """Write each name in the colour of its line, moved apart where names would overlap."""
    heights = [float(axes.transData.transform((x, end.height))[1]) for end in ends]
    order = np.argsort(heights)
    bottom, top = axes.bbox.y0, axes.bbox.y1
    places = _spread([heights[i] for i in order], gap=16.0, bottom=bottom, top=top)
    for place, index in zip(places, order, strict=True):
        end, ink = ends[index], ends[index].style.colour
        axes.annotate(
            end.label,
            (x, end.height),
            xytext=(10, (place - heights[index]) * 72 / axes.figure.dpi),
            textcoords="offset points",
            va="center",
            color=ink,
            fontsize=9,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": ink,
                "linewidth": 0.6,
                "shrinkA": 0,
                "relpos": (0, 0.5),  # from the left edge, so that it crosses no other name
            },
        )


def _spread(heights: Sequence[float], gap: float, bottom: float, top: float) -> list[float]:
    """Move ascending heights apart to at least ``gap``, and below the top if they fit.

    >>> _spread([0, 1, 50], gap=10, bottom=0, top=100)
    [0.0, 10.0, 50.0]
    >>> _spread([95, 99], gap=10, bottom=0, top=100)
    [90.0, 100.0]
    """
    places: list[float] = []
    for height in heights:
        lowest = places[-1] + gap if places else bottom
        places.append(float(max(height, lowest)))
    ceiling = float(top)
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - gap
    return places


@contextmanager
def own_style(font_size: float = 10.0) -> Iterator[None]:
    """The same look on every machine: the user's matplotlibrc is ignored."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: lighter, and can be read aloud
        mpl.rcParams["font.size"] = font_size
        mpl.rcParams["axes.linewidth"] = 0.08 * font_size
        mpl.rcParams["axes.labelcolor"] = "#222222"
        yield


def inline_svg(drawing: Figure, name: str, description: str) -> str:
    """The figure as an SVG element for a page; ``description`` is read out by screen readers.

    Ids are prefixed with ``name``, since a page holds several figures, and dates are left out, so
    that the same results give the same page.
    """
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": name}):
        drawing.savefig(buffer, format="svg", metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    opening, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r'\bid="', f'id="{name}-', rest)
    rest = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", rest)
    rest = rest.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return (
        f'<svg {box.group(0) if box else ""} role="img" aria-label="{html.escape(description)}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">{rest}'
    )
