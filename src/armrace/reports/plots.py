"""Figures as they are published: on pages, and as files for papers.

A :class:`Plot` knows how to draw itself at any width, its data and its words. Pages show it at
the width of a screen and of a phone; :func:`write_plots` writes it at the width of a column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape
from pathlib import Path

import matplotlib as mpl
import polars as pl
from matplotlib.figure import Figure

from armrace.errors import UnwritableOutput
from armrace.files import atomic_path, check_new, make_folder, write_text
from armrace.reports.plot_style import (
    COLUMN_WIDTH,
    PAGE_WIDTH,
    PAPER_SIZE,
    PHONE_SIZE,
    inline_svg,
    lay_out,
    own_style,
)

__all__ = ["Plot", "file_name", "plot_figure", "plot_section", "save_figure", "write_plots"]

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


def plot_figure(plot: Plot) -> str:
    """Render a figure with its caption, drawn for screens and for phones."""
    with own_style():
        wide = inline_svg(plot.draw(PAGE_WIDTH), plot.name, plot.description)
    with own_style(PHONE_SIZE):
        narrow = inline_svg(plot.draw(COLUMN_WIDTH), f"{plot.name}-narrow", plot.description)
    return (
        f'<figure><div class="at-desk">{wide}</div><div class="at-phone">{narrow}</div>'
        f"<figcaption>{escape(plot.caption)}</figcaption></figure>"
    )


def plot_section(plot: Plot, level: int = 2, *, folded: bool = False) -> str:
    """Render a figure below its heading.

    Args:
        plot: the figure.
        level: the level of the heading.
        folded: whether the figure is hidden until the reader opens it.
    """
    figure, heading = plot_figure(plot), escape(plot.heading)
    if folded:
        return (
            f"<section><details><summary><h{level}>{heading}</h{level}></summary>{figure}"
            "</details></section>"
        )
    return f"<section><h{level}>{heading}</h{level}>{figure}</section>"


def write_plots(plots: Iterable[Plot], folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each figure at column width as SVG, PDF and PNG, and its data as CSV.

    Args:
        plots: the figures.
        folder: where the files go; it is made if it does not exist.
        overwrite: whether files that exist are replaced; else they are refused.

    Returns:
        The files that were written.
    """
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
