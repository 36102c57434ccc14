"""Pages and figures as files, from Python.

The methods of :class:`armrace.Result` and :class:`armrace.Comparison` call these functions, and
the command line writes its pages with the same renderers.
"""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from armrace.errors import UnwritableOutput
from armrace.files import atomic_path, make_folder, write_text
from armrace.formatting import count
from armrace.reports.curves import curves_data, draw_curves, draw_curves_on
from armrace.reports.layout import notebook_fragment
from armrace.reports.page import render_report
from armrace.reports.plot_style import COLUMN_WIDTH, inline_svg, own_style
from armrace.reports.race import draw_race, has_layers
from armrace.reports.tables import comparison_table
from armrace.simulation import Comparison
from armrace.specification import display_name

__all__ = ["check_new", "notebook_html", "plot", "write_figures", "write_report"]

_FORMATS = ("svg", "pdf", "png")
_DOTS_PER_INCH = 300
_FONT_SIZE = 7.0
"""Points, for figures at the width of a column."""

_MOST_NAMED = 4
"""A title of more policies would not fit a line."""


def write_report(
    comparison: Comparison,
    path: Path,
    title: str | None = None,
    summary: str = "",
    *,
    overwrite: bool = False,
) -> Path:
    """Write the page of a comparison; see :meth:`Comparison.report`."""
    check_new(path, overwrite=overwrite)
    heading = default_title(comparison) if title is None else title
    write_text(path, render_report(comparison, heading, summary))
    return path


def check_new(path: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, unless it may be replaced."""
    if path.exists() and not overwrite:
        raise UnwritableOutput(f"{path} exists; give another path, or overwrite=True.")


def default_title(comparison: Comparison) -> str:
    """The policies and the attack, in a line."""
    labels = list(comparison.results)
    spec = comparison.results[labels[0]].spec
    many = len(labels) > _MOST_NAMED
    who = f"{len(labels)} policies" if many else ", ".join(labels)
    attack = display_name(spec["adversary"]["name"])
    return who if attack == "none" else f"{who} under {attack}"


def plot(
    comparison: Comparison, target: str | Path | Axes | None = None, measure: str | None = None
) -> Axes:
    """Draw regret over time on axes, into a file or on a new figure; return the axes."""
    if isinstance(target, Axes):
        draw_curves_on(target, comparison, measure)
        return target
    with own_style():
        drawing = draw_curves(comparison, measure)
        if target is not None:
            _save(drawing, Path(target))
    return drawing.axes[0]


def write_figures(comparison: Comparison, folder: Path, *, overwrite: bool = False) -> list[Path]:
    """Write each figure in every format, and its data; see :meth:`Comparison.figures`."""
    make_folder(folder)
    with own_style(_FONT_SIZE):
        figures: dict[str, tuple[Figure, pl.DataFrame]] = {
            "curves": (draw_curves(comparison, width=COLUMN_WIDTH), curves_data(comparison))
        }
        for label, result in comparison.results.items():
            if has_layers(result):
                drawing = draw_race(result, width=COLUMN_WIDTH)
                figures[f"layers-{_file_name(label)}"] = (drawing, result.race)
        targets = {
            name: [folder / f"{name}.{suffix}" for suffix in (*_FORMATS, "csv")] for name in figures
        }
        for target in (target for listed in targets.values() for target in listed):
            check_new(target, overwrite=overwrite)
        for name, (drawing, data) in figures.items():
            for target in targets[name][:-1]:
                _save(drawing, target)
            write_text(targets[name][-1], data.write_csv())
    return [target for listed in targets.values() for target in listed]


def _save(drawing: Figure, target: Path) -> None:
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


def _file_name(label: str) -> str:
    """A label as part of a file's name.

    >>> _file_name("sharp-race (delta=0.1)")
    'sharp-race-delta-0.1'
    """
    return re.sub(r"[^\w.]+", "-", label).strip("-")


def notebook_html(comparison: Comparison) -> str:
    """The table and the curves, to be shown in a notebook."""
    spec = next(iter(comparison.results.values())).spec
    with own_style():
        svg = inline_svg(draw_curves(comparison), "curves", "Regret against rounds.")
    title = (
        f"{default_title(comparison)}; budget {count(spec['budget'])}; "
        f"{count(spec['replications'])} x {count(spec['horizon'])} rounds"
    )
    return notebook_fragment(title, comparison_table(comparison) + svg)
