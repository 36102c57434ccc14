"""What all pages share: the document around the sections, figures, and how to run it again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec
from matplotlib.figure import Figure

from armrace import __version__
from armrace.reports.drawing import inline_svg

__all__ = ["data_block", "document", "figure_section", "table"]


def document(title: str, sections: Iterable[str]) -> str:
    """A whole page with everything inside; empty sections are left out."""
    style = files("armrace.reports").joinpath("page.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>armrace: {escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + f"\n<footer>armrace {__version__}</footer>\n</body>\n</html>\n"
    )


def figure_section(
    heading: str, drawing: Figure, name: str, description: str, caption: str, level: int = 2
) -> str:
    """A figure below its heading; ``description`` is for those who cannot see it."""
    return (
        f"<section><h{level}>{escape(heading)}</h{level}><figure>"
        f"{inline_svg(drawing, name, description)}"
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
