"""Shared parts of all figures: size, style, labels of lines, and SVG for pages."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from armrace.reports.colours import GREY, Style
from armrace.reports.spacing import spread
from armrace.reports.theme import LIGHT, with_variables

__all__ = [
    "COLUMN_WIDTH",
    "PAGE_WIDTH",
    "PAPER_SIZE",
    "PHONE_SIZE",
    "End",
    "add_legend",
    "empty_figure",
    "inline_svg",
    "is_narrow",
    "lay_out",
    "legend_lines",
    "name_lines",
    "new_figure",
    "own_style",
    "tidy",
]

PAGE_WIDTH = 9.6
"""Inches, for a figure across an HTML page."""

COLUMN_WIDTH = 3.5
"""Inches, for a figure in one column of a paper, and for a page on a phone."""

PAPER_SIZE, PHONE_SIZE = 7.0, 9.0
"""The size of text, in points, in figures for a paper and for a phone."""

_POINTS_PER_INCH = 72

_NARROW = 6.0
"""Below this width, names beside the lines would leave no room for the lines."""


class End(NamedTuple):
    """The last point of a line, with the name and the style of its policy."""

    height: float
    label: str
    style: Style
    x: float | None = None
    """Where the line ends, if it ends before the others."""


def empty_figure(width: float, height: float) -> Figure:
    """Make a figure without axes, its size in inches, that is not registered with pyplot."""
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """Make a figure with one pair of axes."""
    drawing = empty_figure(width, height)
    return drawing, drawing.add_subplot()


def tidy(axes: Axes) -> None:
    """Give the axes a light grid and no box."""
    axes.grid(True, color=LIGHT["grid"], linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LIGHT["rule-strong"])
    axes.tick_params(which="both", color=LIGHT["rule-strong"])
    axes.set_axisbelow(True)


def is_narrow(axes: Axes) -> bool:
    """Whether the axes belong to a figure for one column of a paper, or for a phone."""
    drawing = axes.get_figure(root=True)
    return drawing is not None and drawing.get_figwidth() < _NARROW


def legend_lines(styles: Mapping[str, Style], others: str = "other policies") -> list[Line2D]:
    """Return the entries of a legend; all grey lines together are one."""
    lines = [
        Line2D([], [], color=style.colour, ls=style.line, label=name)
        for name, style in styles.items()
        if style != GREY
    ]
    if GREY in styles.values():
        lines.append(Line2D([], [], color=GREY.colour, label=others))
    return lines


def add_legend(drawing: Figure, lines: Sequence[Line2D], *, above: bool = False) -> None:
    """Add a legend outside the axes, in as many columns as fit the width of the figure."""
    longest = max(len(str(line.get_label())) for line in lines)
    size = 0.86 * float(mpl.rcParams["font.size"])
    room = drawing.get_figwidth() * 72 / ((longest * 0.52 + 4) * size)
    drawing.legend(
        handles=list(lines),
        loc="outside upper left" if above else "outside lower left",
        ncols=max(1, min(len(lines), int(room))),
        frameon=False,
        fontsize=size,
        handlelength=2.4,
        columnspacing=1.0,
        borderaxespad=0.2,
    )


def name_lines(axes: Axes, x: float, ends: Sequence[End], *, others: bool = False) -> None:
    """Name each line beside its end, or in a legend below the axes if the figure is narrow.

    ``others`` says that there are grey lines as well, which a legend mentions.

    Args:
        axes: the axes.
        x: where the lines end.
        ends: the last point of each line.
        others: whether there are grey lines as well, which a legend mentions.
    """
    drawing = axes.get_figure(root=True)
    if drawing is None or not ends:
        return
    if is_narrow(axes):
        highest_first = sorted(ends, key=lambda end: -end.height)
        styles = {end.label: end.style for end in highest_first}
        add_legend(drawing, legend_lines({**styles, **({"": GREY} if others else {})}))
    else:
        engine = drawing.get_layout_engine()
        if engine is not None:  # the places of names depend on the layout
            engine.execute(drawing)
        _name_ends(axes, x, ends)


def _name_ends(axes: Axes, x: float, ends: Sequence[End]) -> None:
    """Write each name in the colour of its line, moved apart where names would overlap."""
    heights = [float(axes.transData.transform((x, end.height))[1]) for end in ends]
    order = np.argsort(heights)
    bottom, top = axes.bbox.y0, axes.bbox.y1
    size = 0.92 * float(mpl.rcParams["font.size"])
    gap = 1.3 * size * axes.figure.dpi / 72
    places = spread([heights[i] for i in order], gap=gap, low=bottom, high=top)
    for place, index in zip(places, order, strict=True):
        end, ink = ends[index], ends[index].style.colour
        if end.x is not None and end.x < x:
            axes.plot([end.x, x], [end.height] * 2, color=ink, lw=0.6, ls=(0, (1, 3)), zorder=1.2)
        axes.annotate(
            end.label,
            (x, end.height),
            xytext=(14, (place - heights[index]) * 72 / axes.figure.dpi),
            textcoords="offset points",
            va="center",
            color=ink,
            fontsize=size,
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": ink,
                "linewidth": 0.6,
                "shrinkA": 0,
                "shrinkB": 4,
                "relpos": (0, 0.5),  # from the left edge, so that it crosses no other name
            },
        )


def lay_out(drawing: Figure) -> None:
    """Place the parts of a figure for good; matplotlib would draw it all once more to save it."""
    engine = drawing.get_layout_engine()
    if engine is not None:
        FigureCanvasSVG(drawing)  # text as wide as it is in a file, whatever its format
        drawing.set_dpi(_POINTS_PER_INCH)
        engine.execute(drawing)
        drawing.set_layout_engine(None)  # "none" would leave one in place, which draws again
        FigureCanvasAgg(drawing)


@contextmanager
def own_style(font_size: float = 10.0) -> Iterator[None]:
    """The same look on every machine: the user's matplotlibrc is ignored."""
    with mpl.rc_context():
        mpl.rcdefaults()
        ink, muted = LIGHT["ink"], LIGHT["muted"]
        mpl.rcParams.update(
            {
                "svg.fonttype": "none",  # text stays text: lighter, and can be read aloud
                "pdf.fonttype": 42,  # some publishers refuse Type 3 fonts
                "font.size": font_size,
                "axes.linewidth": 0.08 * font_size,
                "axes.titlesize": font_size,
                "axes.labelsize": 0.95 * font_size,
                "xtick.labelsize": 0.9 * font_size,
                "ytick.labelsize": 0.9 * font_size,
                "legend.fontsize": 0.9 * font_size,
                # No colour is left to matplotlib: black would stay black on a dark page.
                "text.color": ink,
                "axes.labelcolor": ink,
                "axes.edgecolor": LIGHT["rule-strong"],
                "xtick.color": LIGHT["rule-strong"],
                "ytick.color": LIGHT["rule-strong"],
                "xtick.labelcolor": muted,
                "ytick.labelcolor": muted,
            }
        )
        yield


def inline_svg(drawing: Figure, name: str, description: str) -> str:
    """The figure as an SVG element for a page; ``description`` is read out by screen readers.

    Ids are prefixed with ``name``, since a page holds several figures, and dates are left out, so
    that the same results give the same page. Colours of the theme become variables.

    Args:
        drawing: the figure.
        name: the prefix of all ids, which must be unique on a page.
        description: what screen readers read out in its place.
    """
    lay_out(drawing)
    buffer = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({"svg.hashsalt": name}):
        drawing.savefig(buffer, format="svg", metadata=nothing, transparent=True)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    opening, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', opening)
    rest = re.sub(r"<metadata>.*?</metadata>", "", rest, flags=re.DOTALL)
    rest = re.sub(r"<[^>]*>", lambda tag: _prefixed(tag.group(0), name), rest)
    rest = rest.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return (
        f'<svg {box.group(0) if box else ""} role="img" aria-label="{html.escape(description)}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{with_variables(rest)}"
    )


def _prefixed(tag: str, name: str) -> str:
    """Add a prefix to the id of an element and to the ids that it refers to."""
    tag = re.sub(r'(\sid=")', rf"\g<1>{name}-", tag)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", tag)
