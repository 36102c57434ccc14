"""What all figures share: colours, labels at the end of a line, and SVG that fits into a page."""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

__all__ = ["inline_svg", "label_decades", "label_ends", "new_figure", "own_style", "tidy"]


def new_figure(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure in inches, without any global state."""
    drawing = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(drawing)
    return drawing, drawing.add_subplot()


def tidy(axes: Axes) -> None:
    """Light grid, no box."""
    axes.grid(True, color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", color="#999999")
    axes.set_axisbelow(True)


def label_decades(axes: Axes, lowest: float, highest: float) -> None:
    """Numbers on a logarithmic axis of regrets: 1, 2 and 5 of each decade if there are few."""
    if highest < 200 * lowest:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))


def label_ends(axes: Axes, x: float, ends: Sequence[tuple[float, str, str]]) -> None:
    """Write each line's name in its colour beside its end, moved apart where they would touch."""
    transform = axes.transData
    heights = [float(transform.transform((x, y))[1]) for y, _, _ in ends]
    order = np.argsort(heights)
    bottom, top = axes.bbox.y0, axes.bbox.y1
    places = _spread([heights[i] for i in order], gap=14.0, bottom=bottom, top=top)
    for place, index in zip(places, order, strict=True):
        y, name, ink = ends[index]
        axes.annotate(
            name,
            (x, y),
            xytext=(10, (place - heights[index]) * 72 / axes.figure.dpi),
            textcoords="offset points",
            va="center",
            color=ink,
            fontsize=9,
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.6, "shrinkA": 0},
        )


def _spread(heights: Sequence[float], gap: float, bottom: float, top: float) -> list[float]:
    """Ascending heights moved as little as it takes to lie a gap apart, below the top if they fit.

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
def own_style() -> Iterator[None]:
    """The same look everywhere, whatever the user's matplotlibrc says."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams["svg.fonttype"] = "none"  # text stays text: lighter, and can be read aloud
        mpl.rcParams["axes.labelcolor"] = "#222222"
        yield


def inline_svg(drawing: Figure, name: str, description: str) -> str:
    """The figure as an SVG element for a page, with a text for those who cannot see it.

    Names inside are made unique to the figure, and nothing depends on the time of day, so that
    the same results give the same page.
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
