"""The design tokens of all pages: colours for light and dark, type, spacing.

Pages use them as CSS variables (:func:`theme_css`), figures as colours (:data:`LIGHT`). A figure
is drawn once, in the colours for light; on a page every colour of the theme is written as a
variable with that colour as its fallback (:func:`with_variables`), so that figures turn dark
together with the text around them. This module imports no plotting library, so that a server can
use it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

LIGHT: Mapping[str, str] = {
    "paper": "#ffffff",
    "panel": "#f5f6f8",
    "shade": "#eaedf0",
    "ink": "#1f2328",
    "muted": "#57606a",
    "rule": "#d8dee4",
    "rule-strong": "#8b949e",
    "grid": "#e3e6ea",
    "context": "#b4bac1",
    "accent": "#0b5cad",
    "accent-paper": "#e3eefa",
    "alarm": "#b3261e",
    "alarm-paper": "#fff1ee",
    "alarm-rule": "#e8b4ac",
    "good": "#1a6b45",
    "good-paper": "#e4f3ea",
    "held": "#7a5b00",
    "deleted": "#f6c1bb",
    "deleted-ink": "#5c1610",
    "line-1": "#1a70ce",
    "line-2": "#c74100",
    "line-3": "#16614a",
    "line-4": "#884279",
    "line-5": "#4e3602",
    "line-6": "#101a54",
    "line-7": "#2b2b27",
    "heat-0": "#fbfdd0",
    "heat-1": "#e0f3b2",
    "heat-2": "#abdeb7",
    "heat-3": "#63c3bf",
    "heat-4": "#2fa4c2",
    "heat-5": "#2072b1",
    "heat-6": "#243f99",
    "heat-7": "#081d58",
    "heat-ink-low": "#1f2329",
    "heat-ink-high": "#fffffe",
}
"""Every colour is different, so that a colour of a figure leads back to its name."""

DARK: Mapping[str, str] = {
    "paper": "#14171b",
    "panel": "#1e2329",
    "shade": "#272d34",
    "ink": "#e6e9ed",
    "muted": "#a3adb8",
    "rule": "#343b43",
    "rule-strong": "#6e7883",
    "grid": "#2c3239",
    "context": "#59626c",
    "accent": "#6cb4ff",
    "accent-paper": "#173049",
    "alarm": "#ff8f85",
    "alarm-paper": "#3a1d1b",
    "alarm-rule": "#73352f",
    "good": "#62d09a",
    "good-paper": "#15342a",
    "held": "#e3bf52",
    "deleted": "#6b2b27",
    "deleted-ink": "#ffd9d5",
    "line-1": "#3393d9",
    "line-2": "#ef6417",
    "line-3": "#7cb98e",
    "line-4": "#c283a3",
    "line-5": "#ecbd2b",
    "line-6": "#89e4fe",
    "line-7": "#dbd1d0",
    "heat-0": "#1a2440",
    "heat-1": "#20345f",
    "heat-2": "#244a80",
    "heat-3": "#26609a",
    "heat-4": "#2a74a8",
    "heat-5": "#5ab2bd",
    "heat-6": "#a9dab2",
    "heat-7": "#f7fbc6",
    "heat-ink-low": "#f4f7fb",
    "heat-ink-high": "#10141a",
}
"""The same names. The scale of heat turns round: near the best is near the paper in both."""

SERIES = tuple(f"line-{number}" for number in range(1, 8))
"""The colours of lines, in which names are written too. They differ in lightness as well as in hue,
so that any two are told apart with each kind of colour blindness; a test simulates these."""

_SHAPES: Mapping[str, str] = {
    "font": 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
    "font-mono": 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
    "text-small": ".8125rem",
    "text-note": ".9rem",
    "text": "1rem",
    "text-large": "1.25rem",
    "text-title": "1.75rem",
    "space-1": ".25rem",
    "space-2": ".5rem",
    "space-3": ".75rem",
    "space-4": "1.25rem",
    "space-5": "2.25rem",
    "radius": "6px",
    "measure": "44rem",
    "page": "72rem",
}
"""Type, spacing and widths; ``measure`` is the longest line of prose."""

_NAMES = {colour: name for name, colour in LIGHT.items()}


def variables(tokens: Mapping[str, str]) -> str:
    """Return declarations of CSS variables.

    >>> variables({"ink": "#1f2328"})
    '--ink: #1f2328;'
    """
    return " ".join(f"--{name}: {value};" for name, value in tokens.items())


def theme_css(scope: str = ":root") -> str:
    """Return the variables of the theme as a style sheet.

    Dark follows the reader's system. ``data-theme="light"`` or ``"dark"`` on the scope overrides
    it. Paper is always light.
    """
    dark = f"{variables(DARK)} color-scheme: dark;"
    return (
        f"{scope} {{ {variables(_SHAPES)} {variables(LIGHT)} color-scheme: light; }}\n"
        f"@media screen {{ {scope}[data-theme=dark] {{ {dark} }} }}\n"
        "@media screen and (prefers-color-scheme: dark) {\n"
        f"  {scope}:not([data-theme=light]) {{ {dark} }}\n}}\n"
    )


def with_variables(svg: str) -> str:
    """Replace the theme's colours in an SVG by variables, with the colour as the fallback.

    >>> with_variables('<path style="stroke: #1a70ce; fill: #123456"/>')
    '<path style="stroke: var(--line-1, #1a70ce); fill: #123456"/>'
    """

    def variable(found: re.Match[str]) -> str:
        colour = found.group(0)
        name = _NAMES.get(colour)
        return f"var(--{name}, {colour})" if name else colour

    return re.sub(r"#[0-9a-f]{6}\b", variable, svg)


def spread(heights: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending heights apart to at least ``gap``, between two ends if they fit.

    >>> spread([0, 1, 50], gap=10, low=0, high=100)
    [0.0, 10.0, 50.0]
    >>> spread([95, 99], gap=10, low=0, high=100)
    [90.0, 100.0]
    """
    places: list[float] = []
    for height in heights:
        places.append(float(max(height, places[-1] + gap if places else low)))
    limit = float(high)
    for index in range(len(places) - 1, -1, -1):
        places[index] = min(places[index], limit)
        limit = places[index] - gap
    return places
