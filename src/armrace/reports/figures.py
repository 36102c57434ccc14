"""Figures as files for papers, drawn by matplotlib from the data of a page's charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from armrace.errors import UnwritableOutput
from armrace.files import atomic_path, check_new, make_folder, write_text
from armrace.reports.charts import (
    LINEAR_PART,
    WIDE,
    Axis,
    Bar,
    Chart,
    Line,
    Panel,
    Plot,
    Sign,
    file_name,
)
from armrace.reports.theme import LIGHT, OTHERS_INK, spread

PAGE_WIDTH, COLUMN_WIDTH = 9.6, 3.5
"""Inches: of a figure by itself, and of one in a column of a paper."""

_PAPER_SIZE = 7.0
"""The size of text, in points, in a column of a paper."""

_NARROW = 6.0
"""Below this width, names beside the lines would leave no room for the lines."""

_FORMATS = ("svg", "pdf", "png")
_DOTS_PER_INCH = 300


@contextmanager
def own_style(font_size: float = 10.0) -> Iterator[None]:
    """The same look on every machine: the user's matplotlibrc is ignored."""
    with mpl.rc_context():
        mpl.rcdefaults()
        ink, muted, rule = LIGHT["ink"], LIGHT["muted"], LIGHT["rule-strong"]
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
                "legend.fontsize": 0.86 * font_size,
                "text.color": ink,
                "axes.labelcolor": ink,
                "axes.edgecolor": rule,
                "xtick.color": rule,
                "ytick.color": rule,
                "xtick.labelcolor": muted,
                "ytick.labelcolor": muted,
            }
        )
        yield


def draw_figure(chart: Chart, width: float = PAGE_WIDTH) -> Figure:
    """Draw a chart as a new figure, its width in inches."""
    narrow = width < _NARROW
    columns = min(2, chart.columns) if narrow else chart.columns
    rows = -(-len(chart.panels) // columns)
    height = chart.height * PAGE_WIDTH / WIDE
    if narrow and chart.panels[0].y.kind != "rows":
        height = 1.7 if columns > 1 else 0.85 * width
    drawing = _empty_figure(width, 0.6 * (chart.keys is not None) + height * rows)
    grid = drawing.subplots(rows, columns, squeeze=False).ravel()
    for axes, panel in zip(grid, chart.panels, strict=False):
        draw_on(axes, panel)
    for axes in grid[len(chart.panels) :]:
        axes.remove()
    named = {line.label: line for panel in chart.panels for line in panel.lines if line.label}
    if chart.keys is not None:
        _add_legend(drawing, chart.keys, above=True)
    elif narrow and len(named) > 1:
        _add_legend(drawing, list(named.values()))
    elif len(named) > 1:
        _name_lines(grid[0], chart.panels[0], height)
    return drawing


def _empty_figure(width: float, height: float) -> Figure:
    """Make a figure that is not registered with pyplot."""
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing


def draw_on(axes: Axes, panel: Panel) -> None:
    """Draw a panel on given axes."""
    for line in panel.lines:
        _draw_line(axes, line)
    for bar in panel.bars:
        _draw_bar(axes, bar)
    for sign in panel.signs:
        _draw_sign(axes, sign)
    _scale(axes, "x", panel.x)
    _scale(axes, "y", panel.y)
    axes.set_title(panel.title)
    axes.grid(True, color=LIGHT["grid"], linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    if panel.y.kind == "rows":
        axes.grid(False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0, labelcolor=LIGHT["ink"])


def _scale(axes: Axes, side: str, axis: Axis) -> None:
    more = {"linthresh": axis.threshold, "linscale": LINEAR_PART} if axis.kind == "symlog" else {}
    kind = "linear" if axis.kind == "rows" else axis.kind
    axes.set(**{f"{side}scale": kind} if not more else {})
    if more:
        (axes.set_xscale if side == "x" else axes.set_yscale)(kind, **more)
    ends = (axis.low, axis.high if axis.high != axis.low else axis.low + 1.0)
    axes.set(**{f"{side}lim": ends, f"{side}label": axis.label})
    drawn = axes.xaxis if side == "x" else axes.yaxis
    drawn.set_major_locator(FixedLocator([value for value, _ in axis.ticks]))
    drawn.set_major_formatter(FixedFormatter([text.replace("$", r"\$") for _, text in axis.ticks]))
    drawn.set_minor_locator(NullLocator())


def _thin(width: float) -> float:
    """The width of a line, in proportion to the text."""
    return 0.09 * float(mpl.rcParams["font.size"]) * width


def _dashes(line: Line) -> Any:
    return (0, tuple(0.6 * each for each in line.dashes)) if line.dashes else "-"


def _draw_line(axes: Axes, line: Line) -> None:
    ink = LIGHT[line.ink]
    order = 1.5 if line.ink == OTHERS_INK else 2.0
    moved = axes.transData + ScaledTranslation(
        line.aside / 72,
        0,
        axes.get_figure(root=True).dpi_scale_trans,  # type: ignore[union-attr]
    )
    known = [
        (x, low, high)
        for x, low, high in zip(line.x, line.low, line.high, strict=False)
        if low is not None and high is not None
    ]
    if known:
        x, low, high = zip(*known, strict=True)
        if line.band:
            axes.fill_between(x, low, high, color=ink, alpha=0.14, lw=0)
        else:
            axes.vlines(x, low, high, color=ink, lw=_thin(1.0), transform=moved, zorder=order)
    places, heights = [x for x, _ in line.points], [y for _, y in line.points]
    faint = line.marker == "."
    axes.plot(
        places, heights, color=ink, ls=_dashes(line), lw=_thin(line.width), zorder=order,
        marker="o" if faint else line.marker or None, ms=2.5 if faint else _thin(3.5),
        mfc=LIGHT["paper"] if line.hollow else ink, mew=0 if faint else 1.0,
        alpha=0.35 if faint else 1.0, transform=moved,
    )  # fmt: skip
    if line.end is not None and places:
        axes.vlines(places[-1], *line.end, color=ink, lw=3.0, clip_on=False, zorder=4)


def _draw_bar(axes: Axes, bar: Bar) -> None:
    ink = LIGHT[bar.ink]
    if bar.low is not None and bar.high is not None:
        axes.plot([bar.low, bar.high], [bar.row] * 2, color=ink, lw=1.6)
    if bar.quantile is not None:
        axes.plot([bar.quantile] * 2, [bar.row - 0.2, bar.row + 0.2], color=ink, lw=1.0)
    if bar.mean is not None:
        size = 10.0 if bar.marker == "|" else 4.5
        fill = LIGHT["paper"] if bar.hollow else ink
        axes.plot(bar.mean, bar.row, bar.marker, color=ink, mfc=fill, ms=size)


def _draw_sign(axes: Axes, sign: Sign) -> None:
    ink, across = LIGHT[sign.ink], sign.x is None
    if across:
        axes.axhline(sign.y or 0.0, color=ink, lw=0.9, ls="--", zorder=1)
        place, kind = (1.0, sign.y or 0.0), ("axes fraction", "data")
    else:
        axes.axvline(sign.x or 0.0, color=ink, lw=0.9, ls="--", zorder=1)
        place, kind = (sign.x or 0.0, 1.0), ("data", "axes fraction")
    axes.annotate(
        sign.label, place, xycoords=kind, xytext=(0, 3), textcoords="offset points",
        fontsize="small", color=LIGHT["muted"], ha="right" if across else "center",
    )  # fmt: skip


def _add_legend(drawing: Figure, lines: Sequence[Line], *, above: bool = False) -> None:
    """Add a legend outside the axes, in as many columns as fit the width of the figure."""
    handles = [
        Line2D(
            [], [], color=LIGHT[line.ink], ls=_dashes(line), lw=_thin(line.width), ms=3.5,
            marker=line.marker or None, mfc=LIGHT["paper" if line.hollow else line.ink],
            label=line.label,
        )
        for line in lines
    ]  # fmt: skip
    longest = max(len(line.label) for line in lines)
    room = drawing.get_figwidth() * 72 / ((longest * 0.52 + 4) * mpl.rcParams["legend.fontsize"])
    drawing.legend(
        handles=handles, loc="outside upper left" if above else "outside lower left",
        ncols=max(1, min(len(lines), int(room))), frameon=False, handlelength=2.4,
        columnspacing=1.0, borderaxespad=0.2,
    )  # fmt: skip


def _name_lines(axes: Axes, panel: Panel, height: float) -> None:
    """Write the name of each line beside its end, moved apart where names would overlap."""
    size = float(mpl.rcParams["font.size"])
    ends = [
        (panel.y.share(line.points[-1][1]), line)
        for line in panel.lines
        if line.label and line.points
    ]
    ends.sort(key=lambda end: end[0])
    gap = 1.3 * size / (72 * 0.82 * height)
    for place, (share, line) in zip(
        spread([share for share, _ in ends], gap, 0.0, 1.0), ends, strict=True
    ):
        arrow = {"arrowstyle": "-", "color": LIGHT[line.ink], "linewidth": 0.6, "relpos": (0, 0.5)}
        axes.annotate(
            line.label, (panel.x.share(line.points[-1][0]), share), xytext=(1.02, place),
            xycoords="axes fraction", textcoords="axes fraction", va="center",
            color=LIGHT[line.ink], annotation_clip=False, arrowprops=arrow,
        )  # fmt: skip


class Tile(NamedTuple):
    """A cell of a matrix."""

    row: int
    column: int
    fill: str
    """The name of a colour of the theme."""
    texts: Sequence[str] = ()
    """What is written into it, from the longest to the shortest form; the first that fits."""
    ink: str = "ink"


def draw_tiles(
    tiles: Sequence[Tile], rows: Sequence[str], columns: Sequence[tuple[float, str]],
    count: int, width: float, keys: Sequence[tuple[str, str]] = (),
) -> Figure:  # fmt: skip
    """Draw a matrix of ``count`` columns, some of them named; ``keys`` say what colours mean."""
    small, turned = float(mpl.rcParams["font.size"]) * 0.8, len(columns) < count
    step = 0.12 if len(rows) > 15 else 0.2 if width < _NARROW else 0.27
    drawing = _empty_figure(width, 0.8 + 1.3 * turned + step * len(rows))
    axes = drawing.add_subplot()
    for tile in tiles:
        place = (tile.column, tile.row)
        edge = LIGHT["paper" if turned else "rule-strong"]
        axes.add_patch(Rectangle(place, 1, 1, fc=LIGHT[tile.fill], ec=edge, lw=0.4))
    room = (width - 0.9) * 72 / count
    for form in range(max((len(tile.texts) for tile in tiles), default=0)):
        longest = max(len(tile.texts[form]) for tile in tiles if tile.texts)
        size = min(small, room / (0.62 * longest + 0.6))
        if size >= 0.85 * small:
            for tile in tiles:
                if tile.texts:
                    middle = (tile.column + 0.5, tile.row + 0.52)
                    axes.text(*middle, tile.texts[form], ha="center", va="center", fontsize=size,
                              color=LIGHT[tile.ink])  # fmt: skip
            break
    axes.set_xlim(0, count)
    axes.set_ylim(len(rows), 0)
    row_size = min(small, 72 * step * 0.8)
    axes.set_yticks([n + 0.5 for n in range(len(rows))], rows, fontsize=row_size)
    plain = [name.replace("$", r"\$") for _, name in columns]  # a pair would be a formula
    axes.set_xticks([place for place, _ in columns], plain, fontsize=small)
    axes.tick_params(length=0, top=False, labeltop=True, labelbottom=False)
    axes.tick_params(labelcolor=LIGHT["ink"])
    if turned:
        axes.tick_params(axis="x", labelrotation=45)
        for label in axes.get_xticklabels():
            label.set(ha="left", rotation_mode="anchor")
    axes.spines[:].set_visible(False)
    if keys:
        handles = [Patch(fc=LIGHT[ink], ec=LIGHT["rule"], label=text) for ink, text in keys]
        drawing.legend(handles=handles, loc="outside lower left", ncols=4, frameon=False)
    return drawing


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
        with own_style(_PAPER_SIZE):
            if plot.draw is not None:
                drawing = plot.draw(COLUMN_WIDTH)
            else:
                assert plot.chart is not None
                drawing = draw_figure(plot.chart, COLUMN_WIDTH)
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
