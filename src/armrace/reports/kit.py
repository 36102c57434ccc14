"""Parts of pages: Jinja macros for reports and the dashboard, marks of lines, the whole document.

Every part is HTML that is safe to show: text is escaped when it becomes a part of another one.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pprint import pformat
from typing import Any

import msgspec
from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from armrace import FIGURES, __version__
from armrace.reports.charts import NARROW, Plot, draw_svg
from armrace.reports.theme import Style, theme_css


@cache
def templates(package: str = "armrace.reports") -> Environment:
    """Return what renders the templates of a package, which may use those of reports."""
    packages = dict.fromkeys((package, "armrace.reports"))
    return Environment(
        loader=ChoiceLoader([PackageLoader(each) for each in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _macro(name: str) -> Callable[..., Markup]:
    """Return a macro of ``kit.html`` as a function."""

    def render(*given: Any, **named: Any) -> Markup:
        macros = templates().get_template("kit.html").module
        return Markup(getattr(macros, name)(*given, **named))

    return render


table, row, cell, section, fold = map(_macro, ("table", "row", "cell", "section", "fold"))
header, paragraphs, note, items = map(_macro, ("header", "paragraphs", "note", "items"))
meanings_list, code_block, command_block, figure = map(
    _macro, ("meanings_list", "code_block", "command_block", "figure")
)


def listing(
    columns: Sequence[str], rows: Iterable[Sequence[str]], label: str, kind: str = ""
) -> Markup:
    """A table of texts; the first of each row names it."""
    return table(columns, [row(name, cells) for name, *cells in rows], label, kind)


def plot_figure(plot: Plot) -> Markup:
    """Render a figure with its caption, drawn for screens and for phones."""
    if plot.chart is None:
        return figure(plot.caption, Markup(plot.html))
    wide = draw_svg(plot.chart, plot.description)
    return figure(plot.caption, wide, draw_svg(plot.chart, plot.description, NARROW))


def plot_section(plot: Plot, level: int = 2, *, folded: bool = False) -> Markup:
    """Render a figure below its heading."""
    if not folded:
        return section(plot.heading, [plot_figure(plot)], level)
    heading = Markup("<h{0}>{1}</h{0}>").format(level, plot.heading)
    return Markup("<section>{}</section>").format(fold(heading, plot_figure(plot)))


def document(title: str, sections: Iterable[str]) -> str:
    """A whole page with everything inside; empty sections are left out.

    Its content security policy forbids every request, and every script except its own.
    """
    script = _resource("page.js")
    return (
        templates()
        .get_template("page.html")
        .render(
            title=title,
            digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            theme=style_sheet(),
            css=_resource("page.css"),
            script=script,
            sections=[Markup(each) for each in sections if each],
            version=__version__,
            figures=FIGURES,
        )
        + "\n"
    )


def style_sheet(scope: str = ":root") -> Markup:
    """Return the theme and the rules of the parts, for pages of every kind."""
    return Markup(theme_css(scope)) + _resource("kit.css")


@cache
def _resource(name: str) -> Markup:
    return Markup(files("armrace.reports").joinpath("templates", name).read_text(encoding="utf-8"))


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


def notebook_fragment(title: str, body: Markup) -> Markup:
    """Return part of a page for a notebook, with the theme in a scope of its own."""
    style = Markup("<style>{}{}</style>").format(style_sheet(".armrace"), Markup(_NOTEBOOK))
    inside = Markup('<div class="armrace"><p><strong>{}</strong></p>{}</div>')
    return style + inside.format(title, body)


_MARK = "display:inline-block;width:24px;height:4px;margin-right:.5rem;vertical-align:middle"
"""Written out, since a notebook does not have the style sheet of the pages."""


def line_mark(style: Style) -> Markup:
    """A short piece of a policy's line, for tables."""
    position, stops = 0, []
    for number, length in enumerate(style.dashes):
        ink = "transparent" if number % 2 else f"var(--{style.ink})"
        stops.append(f"{ink} {position}px {position + length}px")
        position += length
    gradient = f"repeating-linear-gradient(90deg,{','.join(stops)})"
    fill = gradient if stops else f"var(--{style.ink})"
    return Markup(f'<span style="{_MARK};background:{fill}"></span>')


_WIDTH, _HEIGHT = 120.0, 14.0


def interval_mark(low: float, high: float, limit: float) -> Markup:
    """A small picture of an interval and its limit, from 0 or the lowest of them to the highest."""
    first, last = min(0.0, low, limit), max(low, high, limit)
    scale = (_WIDTH - 8) / (last - first) if last > first else 0.0
    left, right, mark = (4 + (value - first) * scale for value in (low, high, limit))
    return Markup(
        f'<svg class="interval" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" aria-hidden="true">'
        f'<path d="M2 7H{_WIDTH - 2:g}" stroke="var(--muted)" stroke-width=".5"/>'
        f'<path d="M{left:.1f} 7H{max(right, left + 2):.1f}" stroke="var(--line-1)" '
        f'stroke-width="5"/><path d="M{mark:.1f} 0V14" stroke="var(--alarm)" stroke-width="1.5"/>'
        "</svg>"
    )


def rerun_section(
    command: str = "",
    python: str = "",
    specifications: Sequence[Any] = (),
    *,
    heading: str = "Run it again",
    words: str = "The same figures, bit for bit, on any machine",
) -> Markup:
    """How to get the same figures: the command line, and a program in Python.

    ``python`` is the call that takes ``**specification``, after what it imports and a semicolon;
    ``specifications`` are the arguments of that call, or of several; ``words`` say what running it
    again gives.
    """
    parts = [Markup("<p>{}:</p>").format(words), command_block(command)] if command else []
    if python:
        opening = "or in Python" if command else f"{words}, in Python"
        *imports, call = python.split("; ")
        parts.append(Markup("<p>{}: <code>{}</code></p>").format(opening, call))
        blocks = Markup().join(_program(imports, call, each) for each in specifications)
        parts.append(fold("The whole program, with the specification", blocks))
    return section(heading, parts)


def _program(imports: Sequence[str], call: str, specification: Any) -> Markup:
    """A program that can be copied and run."""
    data = pformat(msgspec.to_builtins(specification), width=100, sort_dicts=False)
    lines = [*(imports or ["import armrace"]), "", f"specification = {data}", f"found = {call}"]
    return code_block("\n".join(lines))
