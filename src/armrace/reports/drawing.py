"""Figures as they are published: on pages, and as files for papers.

A :class:`Plot` knows how to draw itself at any width, its data and its words. Pages show it at
the width of a screen and of a phone; :func:`write_plots` writes it at the width of a column. All
figures share the style, the axes and the names of lines of this module.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

import matplotlib as mpl
import numpy as np
import polars as pl
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedFormatter,
    FixedLocator,
    FuncFormatter,
    LogLocator,
    NullFormatter,
    NullLocator,
)

from armrace.errors import UnwritableOutput
from armrace.files import atomic_path, check_new, make_folder, write_text
from armrace.formatting import short
from armrace.reports.colours import GREY, Style
from armrace.reports.kit import fold, plot_element, section
from armrace.reports.text import MEASURE_NAMES
from armrace.reports.theme import LIGHT, spread, with_variables

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


def inline_svg(drawing: Figure, name: str, description: str) -> Markup:
    """The figure as an SVG element for a page; ``description`` is read out by screen readers.

    Ids are prefixed with ``name``, since a page holds several figures, and dates are left out, so
    that the same results give the same page. Colours of the theme become variables.
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
    return Markup(
        f'<svg {box.group(0) if box else ""} role="img" aria-label="{escape(description)}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f"{with_variables(rest)}"
    )


def _prefixed(tag: str, name: str) -> str:
    """Add a prefix to the id of an element and to the ids that it refers to."""
    tag = re.sub(r'(\sid=")', rf"\g<1>{name}-", tag)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", tag)


BUDGET_LABEL = "budget C of the attack (in rewards)"

_LINEAR_BELOW = 1000.0
_FEW_DECADES = 200.0


def label_measure(measure: str, kind: str = "", *, broken: bool = False) -> str:
    """Return the label of an axis, with its unit.

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
    """Make the axis of budgets logarithmic except around 0, if 0 is one of them."""
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


_FORMATS = ("svg", "pdf", "png")
_DOTS_PER_INCH = 300


@dataclass(frozen=True)
class Plot:
    """One figure: how it is drawn, its data, and what is said of it."""

    name: str
    """Of its files, and of its element on a page."""
    heading: str
    draw: Callable[[float], Figure]
    """Draws it at a width in inches."""
    data: Callable[[], pl.DataFrame]
    """The numbers that are drawn."""
    description: str
    """What screen readers read out in its place."""
    caption: str
    """A sentence or two that say what it shows."""


def plot_figure(plot: Plot) -> Markup:
    """Render a figure with its caption, drawn for screens and for phones."""
    with own_style():
        wide = inline_svg(plot.draw(PAGE_WIDTH), plot.name, plot.description)
    with own_style(PHONE_SIZE):
        narrow = inline_svg(plot.draw(COLUMN_WIDTH), f"{plot.name}-narrow", plot.description)
    return plot_element(plot, wide, narrow)


def plot_section(plot: Plot, level: int = 2, *, folded: bool = False) -> Markup:
    """Render a figure below its heading."""
    if not folded:
        return section(plot.heading, [plot_figure(plot)], level)
    heading = Markup("<h{0}>{1}</h{0}>").format(level, plot.heading)
    return Markup("<section>{}</section>").format(fold(heading, plot_figure(plot)))


def write_plots(plots: Iterable[Plot], folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each figure at column width as SVG, PDF and PNG, and its data as CSV."""
    make_folder(folder)
    listed = list(plots)
    targets = {
        plot.name: [folder / f"{file_name(plot.name)}.{kind}" for kind in (*_FORMATS, "csv")]
        for plot in listed
    }
    written = [target for each in targets.values() for target in each]
    for target in written:
        check_new(target, overwrite=overwrite)
    for plot in listed:
        with own_style(PAPER_SIZE):
            drawing = plot.draw(COLUMN_WIDTH)
            lay_out(drawing)
            for target in targets[plot.name][:-1]:
                save_figure(drawing, target)
        write_text(targets[plot.name][-1], plot.data().write_csv())
    return written


def save_figure(drawing: Figure, target: Path) -> None:
    """Write a figure in the format of the file's suffix, without dates."""
    kind = target.suffix.lstrip(".") or "png"
    known = drawing.canvas.get_supported_filetypes()
    if kind not in known:
        raise UnwritableOutput(
            f"cannot write {target}: figures end in {', '.join(f'.{k}' for k in sorted(known))}."
        )
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with atomic_path(target) as path, mpl.rc_context({"svg.hashsalt": target.stem}):
        drawing.savefig(path, format=kind, dpi=_DOTS_PER_INCH, metadata=dates.get(kind))


def file_name(label: str) -> str:
    """A label as part of a file's name, or of an id.

    >>> file_name("sharp-race (delta=0.1)")
    'sharp-race-delta-0.1'
    """
    return re.sub(r"[^\w.]+", "-", label).strip("-")
