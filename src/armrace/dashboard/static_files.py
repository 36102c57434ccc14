"""The static files of the dashboard: style sheets, scripts and the icon."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from armrace.reports.theme import theme_css

__all__ = ["STATIC_FILES", "static_file"]

_THEME = "theme.css"
"""Made from the tokens that reports use too, so that both look alike."""
STATIC_FILES = {
    _THEME: "text/css",
    "dashboard.css": "text/css",
    "dashboard.js": "text/javascript",
    "uplot.css": "text/css",
    "uplot.js": "text/javascript",
    "uplot-license.txt": "text/plain",
    "icon.svg": "image/svg+xml",
}
"""The media type of each file by its name."""


@cache
def static_file(name: str) -> tuple[bytes, str]:
    """Return a file with a tag that changes with its content."""
    if name == _THEME:
        content = theme_css().encode()
    else:
        content = files("armrace.dashboard").joinpath("static", name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:16]}"'
