"""Shared parts of all pages: the document, tables, folded parts, and how to run it again."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pprint import pformat
from typing import Any

import msgspec

from armrace import FIGURES, __version__
from armrace.reports.colours import Dashes, Style
from armrace.reports.theme import LIGHT, theme_css, with_variables

__all__ = [
    "data_block",
    "document",
    "fold",
    "header",
    "interval_mark",
    "line_mark",
    "meanings_list",
    "notebook_fragment",
    "rerun_section",
    "row",
    "table",
]


def document(title: str, sections: Iterable[str]) -> str:
    """A whole page with everything inside; empty sections are left out.

    Its content security policy forbids every request, and every script except its own.
    """
    script = _resource("page.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>armrace: {escape(title)}</title>\n"
        f"<style>\n{theme_css()}{_resource('page.css')}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(section for section in sections if section)
        + f"\n</main>\n<footer>armrace {__version__} (figures {FIGURES})</footer>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def _resource(name: str) -> str:
    return files("armrace.reports").joinpath(name).read_text(encoding="utf-8")


def header(title: str, verdict: str = "", setting: str = "", warning: str = "") -> str:
    """The heading of a page: what was found comes first, then under which conditions.

    Args:
        title: the heading.
        verdict: what was found; empty lines separate paragraphs.
        setting: under which conditions.
        warning: what a reader must know before anything else.
    """
    words = "".join(f"<p>{escape(part)}</p>" for part in verdict.split("\n\n") if part)
    parts = [
        f"<header><h1>{escape(title)}</h1>",
        f'<div class="verdict">{words}</div>' if words else "",
        f'<p class="setting">{escape(setting)}</p>' if setting else "",
        f'<p class="warning">{escape(warning)}</p>' if warning else "",
        "</header>",
    ]
    return "".join(parts)


_NOTEBOOK = """
.armrace { color: var(--ink); background: var(--paper); font-family: var(--font); padding: .5rem;
  border-radius: var(--radius); max-width: 60rem; }
.armrace table { border-collapse: collapse; font-size: var(--text-small); }
.armrace th, .armrace td { padding: .2rem .5rem; text-align: right; color: inherit;
  border-bottom: 1px solid var(--rule); background: none; }
.armrace tr > :first-child, .armrace .words { text-align: left; }
.armrace .frame { overflow-x: auto; } .armrace svg { width: 100%; height: auto; }
.armrace .deleted { background: var(--deleted); color: var(--deleted-ink); }
.armrace .note { color: var(--muted); font-size: var(--text-small); }
"""


def notebook_fragment(title: str, body: str) -> str:
    """Return part of a page for a notebook, with the theme in a scope of its own."""
    return (
        f"<style>{theme_css('.armrace')}{_NOTEBOOK}</style>"
        f'<div class="armrace"><p><strong>{escape(title)}</strong></p>{body}</div>'
    )


_DASHES: dict[Dashes, tuple[int, ...]] = {"-": (), "--": (6, 3), ":": (2, 2), "-.": (6, 2, 2, 2)}
"""Pixels of line and of gap, in turn; other styles are given as such by themselves."""

_MARK = "display:inline-block;width:24px;height:4px;margin-right:.5rem;vertical-align:middle"
"""Written out, since a notebook does not have the style sheet of the pages."""


def line_mark(style: Style) -> str:
    """A short piece of a policy's line, for tables."""
    line = style.line
    dashes = line[1] if isinstance(line, tuple) else _DASHES[line]
    position, stops = 0, []
    for number, length in enumerate(dashes):
        ink = "transparent" if number % 2 else style.colour
        stops.append(f"{ink} {position}px {position + length}px")
        position += length
    fill = f"repeating-linear-gradient(90deg,{','.join(stops)})" if stops else style.colour
    return with_variables(f'<span style="{_MARK};background:{fill}"></span>')


_WIDTH, _HEIGHT = 120.0, 14.0


def interval_mark(low: float, high: float, limit: float) -> str:
    """A small picture of an interval and its limit, from 0 or the lowest of them to the highest."""
    first, last = min(0.0, low, limit), max(low, high, limit)
    scale = (_WIDTH - 8) / (last - first) if last > first else 0.0
    left, right, mark = (4 + (value - first) * scale for value in (low, high, limit))
    ink, line, rule = LIGHT["muted"], LIGHT["line-1"], LIGHT["alarm"]
    return with_variables(
        f'<svg class="interval" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" aria-hidden="true">'
        f'<path d="M2 7H{_WIDTH - 2:g}" style="stroke: {ink}; stroke-width: .5"/>'
        f'<path d="M{left:.1f} 7H{max(right, left + 2):.1f}" style="stroke: {line}; '
        f'stroke-width: 5"/><path d="M{mark:.1f} 0V14" style="stroke: {rule}; stroke-width: 1.5"/>'
        "</svg>"
    )


def row(name: str, cells: Iterable[str], mark: str = "", title: str = "") -> str:
    """A row of a table: ``name`` is escaped and marked, ``cells`` are texts or whole elements.

    Args:
        name: the first cell; it is escaped.
        cells: texts, which are escaped, or whole ``<td>`` elements.
        mark: HTML in front of the name.
        title: what is shown when the pointer rests on the name.
    """
    tip = f' title="{escape(title, quote=True)}"' if title else ""
    inside = "".join(c if c.startswith("<td") else f"<td>{escape(c)}</td>" for c in cells)
    return f'<tr><th scope="row"{tip}>{mark}{escape(name)}</th>{inside}</tr>'


def table(columns: Sequence[str], rows: Iterable[str], label: str, kind: str = "") -> str:
    """A table that readers can sort, in a frame that scrolls where it is too wide or too long.

    Args:
        columns: the headings.
        rows: the rows, as HTML.
        label: what the table holds, for screen readers.
        kind: a class of the style sheet.
    """
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    opening = f'<table class="{kind}">' if kind else "<table>"
    return (
        f'<div class="frame" role="region" tabindex="0" aria-label="{escape(label)}">{opening}'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def fold(summary: str, body: str) -> str:
    """A part of a page that is hidden until the reader opens it."""
    return f"<details><summary>{escape(summary)}</summary>{body}</details>"


def meanings_list(terms: Iterable[tuple[str, str]], summary: str = "What the columns mean") -> str:
    """Terms and their explanations, folded away."""
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in terms)
    return fold(summary, f"<dl>{listed}</dl>")


def rerun_section(
    command: str = "",
    python: str = "",
    specifications: Sequence[Any] = (),
    *,
    heading: str = "Run it again",
    words: str = "The same figures, bit for bit, on any machine",
) -> str:
    """How to get the same figures: the command line, and a program in Python.

    Args:
        command: the command line; empty if there is none.
        python: the call in Python that takes ``**specification``, after what it imports and a
            semicolon; empty if there is none.
        specifications: the arguments of that call, or of several.
        heading: of the section.
        words: what running it again gives.
    """
    parts = [f"<section><h2>{escape(heading)}</h2>"]
    if command:
        parts.append(f'<p>{escape(words)}:</p><pre class="command"><code>')
        parts.append(f"{escape(command)}</code></pre>")
    if python:
        opening = "or in Python" if command else f"{words}, in Python"
        *imports, call = python.split("; ")
        parts.append(f"<p>{escape(opening)}: <code>{escape(call)}</code></p>")
        blocks = "".join(_program(imports, call, each) for each in specifications)
        parts.append(fold("The whole program, with the specification", blocks))
    return "".join([*parts, "</section>"])


def _program(imports: Sequence[str], call: str, specification: Any) -> str:
    """A program that can be copied and run."""
    data = pformat(msgspec.to_builtins(specification), width=100, sort_dicts=False)
    lines = [*(imports or ["import armrace"]), "", f"specification = {data}", f"found = {call}"]
    return f'<pre tabindex="0"><code>{escape(chr(10).join(lines))}</code></pre>'


def data_block(data: Any) -> str:
    """Plain data as JSON that can be read and copied."""
    text = msgspec.json.format(msgspec.json.encode(data), indent=2).decode()
    return f'<pre tabindex="0"><code>{escape(text)}</code></pre>'
