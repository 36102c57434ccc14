"""Templates, with everything escaped that does not come from this package, and static files."""

from __future__ import annotations

import hashlib
import math
import secrets
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment
from markupsafe import Markup

from armrace.dashboard.charts import HALF, MISSING, delay_ticks, ruling_text, say_moment
from armrace.formatting import count, duration, figure, number_of, short
from armrace.reports.charts import NARROW
from armrace.reports.kit import style_sheet, templates
from armrace_client.answers import LayerView

FORM_TOKEN = secrets.token_hex(16)
"""Stands in forms for the token of the session; a name that someone chose cannot contain it."""


_THEME = "theme.css"
"""What reports use too, so that both look alike."""
STATIC_FILES = {
    _THEME: "text/css",
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}
"""The media type of each file by its name."""


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return a file with a tag that changes with its content."""
    if name == _THEME:
        content = style_sheet().encode()
    else:
        content = files("armrace.dashboard").joinpath("static", name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'


def address(path: str, **query: Any) -> str:
    """Return a link within the server; names may be any text."""
    return f"{path}?{urlencode(query)}" if query else path


def render(template: str, **values: Any) -> str:
    """Return a template as HTML."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    environment = templates("armrace.dashboard")
    environment.filters.update(
        count=count,
        of=number_of,
        ruling=ruling_text,
        figure=_figure,
        share=_share,
        short=short,
        moment=say_moment,
        day=_day,
        clock=_clock,
        duration=duration,
        clamp=_clamp,
        label="label:{}".format,
    )
    environment.tests["finite"] = math.isfinite
    environment.globals.update(
        address=address,
        form_token=FORM_TOKEN,
        half_width=HALF,
        phone_width=NARROW,
        delay_ticks=delay_ticks,
        cells_html=_cells_html,
    )
    return environment


def _cells_html(cells: list[LayerView], low: float, high: float) -> Markup:
    """The cells of one layer in the matrix."""
    return Markup("".join(_cell_html(cell, low, high, i) for i, cell in enumerate(cells)))


@lru_cache(maxsize=5000)
def _cell_html(cell: LayerView, low: float, high: float, place: int) -> str:
    """A cell of the matrix; few of its cells change from one page to the next."""
    return render("parts/cell.html", cell=cell, low=low, high=high, place=place)


def _figure(value: float | None, digits: int = 3) -> str:
    """A mean with a fixed number of decimals, so that columns line up."""
    return (
        MISSING if value is None else f"{value:.{digits}f}" if abs(value) < 100 else figure(value)
    )


def _share(value: float | None) -> str:
    """Return a share in whole percent."""
    if value is None:
        return MISSING
    if 0 < value < 0.01:
        return "<1%"
    return f"{100 * value:.0f}%"


def _day(date: str) -> str:
    """A date for people; other words, such as ``earlier``, stay as they are."""
    try:
        found = datetime.fromisoformat(date)
    except ValueError:
        return date
    return f"{found.day} {found:%b}"


def _clock(time: int) -> str:
    """Return a time in UTC for programs."""
    return datetime.fromtimestamp(time / 1000, UTC).isoformat(timespec="seconds")


def _clamp(share: float) -> float:
    return min(1.0, max(0.0, share))
