"""Shared parts of all pages: the document, sections with a figure, tables and blocks of data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
from matplotlib.figure import Figure

from armrace import FIGURES, __version__
from armrace.reports.colours import Style
from armrace.reports.plot_style import inline_svg

__all__ = ["data_block", "document", "figure_section", "line_mark", "notebook_fragment", "table"]


def document(title: str, sections: Iterable[str]) -> str:
    """A whole page with everything inside; empty sections are left out."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>armrace: {escape(title)}</title>\n<style>\n{_style_sheet()}</style>\n"
        "</head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>armrace {__version__} (figures {FIGURES})</footer>\n</body>\n</html>\n"
    )


def _style_sheet() -> str:
    return files("armrace.reports").joinpath("page.css").read_text(encoding="utf-8")


def notebook_fragment(title: str, body: str) -> str:
    """Return part of a page for a notebook, which has its own style sheet."""
    return (
        '<div style="max-width:72rem;overflow-x:auto">'
        f"<p><strong>{escape(title)}</strong></p>{body}</div>"
    )


_DASHES = {"-": (), "--": (6, 3), ":": (2, 2), "-.": (6, 2, 2, 2)}
"""Pixels of line and of gap, in turn."""


_MARK = "display:inline-block;width:24px;height:4px;margin-right:.5rem;vertical-align:middle"
"""Written out, since a notebook does not have the style sheet of the pages."""


def line_mark(style: Style) -> str:
    """A short piece of a policy's line, for tables."""
    dashes, position, stops = _DASHES[style.line], 0, []
    for number, length in enumerate(dashes):
        ink = "transparent" if number % 2 else style.colour
        stops.append(f"{ink} {position}px {position + length}px")
        position += length
    fill = f"repeating-linear-gradient(90deg,{','.join(stops)})" if stops else style.colour
    return f'<span style="{_MARK};background:{fill}"></span>'


def figure_section(
    heading: str, drawing: Figure, name: str, description: str, caption: str, level: int = 2
) -> str:
    """A figure below its heading; ``description`` is read out by screen readers."""
    return (
        f'<section><h{level}>{escape(heading)}</h{level}><figure><div class="wide">'
        f"{inline_svg(drawing, name, description)}</div>"
        f"<figcaption>{escape(caption)}</figcaption></figure></section>"
    )


def table(columns: Sequence[str], rows: Iterable[str], kind: str = "") -> str:
    """A table that scrolls where the page is too narrow; rows are HTML already."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return (
        f'<div class="wide">{opening}<thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def data_block(data: Any) -> str:
    """Plain data as JSON that can be read and copied."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return f"<pre><code>{escape(text)}</code></pre>"
