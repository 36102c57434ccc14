"""The design of all pages: colours for light and dark, type, spacing, and the style of each policy.

Pages use the colours as CSS variables (:func:`theme_css`), and charts name them, so that they turn
dark together with the text around them; figures for papers use :data:`LIGHT`. This module imports
no plotting library, so that a server can use it.

Every policy of the library has a fixed style: seven colours times five line styles, so that lines
are told apart by colour-blind readers and in black and white too. The policies that are compared
most often are solid; a policy that is not listed here takes the next style that is free. Other
policies, such as a user's, get a style from their name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from armrace.policies import POLICIES

_COLOURS = {
    "paper": ("#ffffff", "#14171b"),
    "panel": ("#f5f6f8", "#1e2329"),
    "shade": ("#eaedf0", "#272d34"),
    "ink": ("#1f2328", "#e6e9ed"),
    "muted": ("#57606a", "#a3adb8"),
    "rule": ("#d8dee4", "#343b43"),
    "rule-strong": ("#8b949e", "#6e7883"),
    "grid": ("#e3e6ea", "#2c3239"),
    "context": ("#b4bac1", "#59626c"),
    "accent": ("#0b5cad", "#6cb4ff"),
    "accent-paper": ("#e3eefa", "#173049"),
    "alarm": ("#b3261e", "#ff8f85"),
    "alarm-paper": ("#fff1ee", "#3a1d1b"),
    "alarm-rule": ("#e8b4ac", "#73352f"),
    "good": ("#1a6b45", "#62d09a"),
    "good-paper": ("#e4f3ea", "#15342a"),
    "held": ("#7a5b00", "#e3bf52"),
    "deleted": ("#f6c1bb", "#6b2b27"),
    "deleted-ink": ("#5c1610", "#ffd9d5"),
    "line-1": ("#1a70ce", "#3393d9"),
    "line-2": ("#c74100", "#ef6417"),
    "line-3": ("#16614a", "#7cb98e"),
    "line-4": ("#884279", "#c283a3"),
    "line-5": ("#4e3602", "#ecbd2b"),
    "line-6": ("#101a54", "#89e4fe"),
    "line-7": ("#2b2b27", "#dbd1d0"),
    "heat-0": ("#fbfdd0", "#1a2440"),
    "heat-1": ("#e0f3b2", "#20345f"),
    "heat-2": ("#abdeb7", "#244a80"),
    "heat-3": ("#63c3bf", "#26609a"),
    "heat-4": ("#2fa4c2", "#2a74a8"),
    "heat-5": ("#2072b1", "#5ab2bd"),
    "heat-6": ("#243f99", "#a9dab2"),
    "heat-7": ("#081d58", "#f7fbc6"),
    "heat-ink-low": ("#1f2329", "#f4f7fb"),
    "heat-ink-high": ("#fffffe", "#10141a"),
}
"""In light and in dark. The scale of heat turns round: near the best is near the paper in both."""

LIGHT: Mapping[str, str] = {name: light for name, (light, _) in _COLOURS.items()}
DARK: Mapping[str, str] = {name: dark for name, (_, dark) in _COLOURS.items()}

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


_FIXED = (
    "multi-layer-race", "ucb1", "optimistic-log-barrier", "tsallis-inf", "sharp-race", "thompson",
    "kl-ucb",
    "guarded", "moss", "log-barrier", "exp3", "exp3-plus-plus", "thompson-cf", "kl-ucb-cf",
    "fast-slow-race", "robust-ucb", "lb-inf", "exp3p", "active-arm-elimination", "sapo", "sao",
    "best-of-all-worlds", "rucb", "lb-inf-v", "exp3-ix", "enlarged-arm-elimination", "barbat",
    "barbar",
    "broad", "crucb",
)  # fmt: skip
"""Seven policies for each line style, in the order of the colours."""

_FAMILIAR = _FIXED[:4]
"""Drawn in colour whenever they are present: a race, an index policy, and two leaders."""

MOST_IN_COLOUR = 8
"""A plot of more lines is unreadable; the others are drawn in grey."""


class Style(NamedTuple):
    """How a policy's line is drawn."""

    ink: str
    """The name of a colour."""
    dashes: tuple[int, ...] = ()
    """Pixels of line and of gap, in turn."""


OTHERS_INK = "context"
GREY = Style(OTHERS_INK)
"""For lines that are only there for comparison."""

_DASHES = ((), (6, 3), (2, 2), (6, 2, 2, 2), (8, 2, 1, 2, 1, 2), (12, 3), (12, 3, 3, 3))
_STYLES = tuple(Style(ink, dashes) for dashes in _DASHES for ink in SERIES)


def style_of(label: str, taken: Iterable[Style] = ()) -> Style:
    """The style of a policy, or another one if others have ``taken`` it.

    A policy with parameters keeps the colour of the policy if one of its line styles is free.

    >>> style_of("ucb1") == style_of("ucb1 (alpha=2.0)")
    True
    >>> style_of("ucb1 (alpha=2.0)", taken=[style_of("ucb1")])
    Style(ink='line-2', dashes=(6, 3))
    """
    first = _first_choice(label)
    order = [*_STYLES[first:], *_STYLES[:first]]
    order = sorted(order, key=lambda style: style.ink != _STYLES[first].ink)
    used = set(taken)
    return next((style for style in order if style not in used), order[0])


def _first_choice(label: str) -> int:
    """Return the place of a style that depends on the name alone, in every process."""
    name = label.split(" ", maxsplit=1)[0]
    if name in _own_places():
        return _own_places()[name]
    solid = len(SERIES)
    return solid + zlib.crc32(label.encode()) % (len(_STYLES) - solid)


@cache
def _own_places() -> dict[str, int]:
    """The place of the style of each policy of the library."""
    shipped = [name for name, each in POLICIES.items() if each.__module__.startswith("armrace.")]
    names = [*_FIXED, *(name for name in shipped if name not in _FIXED)]
    return {name: place for place, name in enumerate(names) if place < len(_STYLES)}


def choose_styles(labels: Sequence[str], best_first: Sequence[str]) -> dict[str, Style]:
    """The style of each label; of many, only the familiar ones and the best are in colour.

    >>> choose_styles(["exp3", "ucb1"], best_first=["ucb1", "exp3"])["exp3"] == style_of("exp3")
    True
    >>> many = [f"policy-{i}" for i in range(9)] + ["ucb1"]
    >>> found = choose_styles(many, best_first=many)
    >>> [label for label, style in found.items() if style == GREY]
    ['policy-7', 'policy-8']
    """
    chosen = list(labels)
    if len(labels) > MOST_IN_COLOUR:
        familiar = [label for label in labels if label.split(" ")[0] in _FAMILIAR]
        chosen = list(dict.fromkeys([*familiar, *best_first]))[:MOST_IN_COLOUR]
    found: dict[str, Style] = {}
    # Policies with a style of their own come first, so that no other one can take it.
    for label in sorted(chosen, key=lambda label: (label not in _own_places(), label)):
        found[label] = style_of(label, found.values())
    return {label: found.get(label, GREY) for label in labels}
