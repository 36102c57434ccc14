"""The colour and line style of each policy, the same in every plot.

Seven colours times four line styles distinguish 28 policies, also for colour-blind readers and
in black and white. The policies that are compared most often have fixed styles with solid lines;
every other policy, including a user's, gets a style from its name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

__all__ = ["COLOURS", "GREY", "MOST_IN_COLOUR", "Style", "choose_styles", "style_of"]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#8C6D00", "#3A9BD9", "#333333")
"""After Okabe and Ito; the light ones are darkened so that text in them can be read."""

_LINES = ("-", "--", ":", "-.")
_SOLID = ("multi-layer-race", "ucb1", "exp3", "tsallis-inf", "sharp-race", "thompson", "kl-ucb")
_FAMILIAR = _SOLID[:4]
"""Drawn in colour whenever they are present: one robust policy, one stochastic, one adversarial
and one that is best of both."""

MOST_IN_COLOUR = len(COLOURS)
"""A plot of more lines is unreadable; the others are drawn in grey."""


class Style(NamedTuple):
    """How a policy's line is drawn; ``line`` is a line style of matplotlib."""

    colour: str
    line: str = "-"


GREY = Style("#b8b8b8")
"""For lines that are only there for comparison."""

_STYLES = tuple(Style(colour, line) for line in _LINES for colour in COLOURS)


def style_of(label: str, taken: Iterable[Style] = ()) -> Style:
    """The style of a policy, or the next free one if others have ``taken`` it.

    >>> style_of("ucb1"), style_of("my-own-policy") == style_of("my-own-policy")
    (Style(colour='#D55E00', line='-'), True)
    """
    first = _SOLID.index(label) if label in _SOLID else _hashed(label)
    order = [*_STYLES[first:], *_STYLES[:first]]
    used = set(taken)
    return next((style for style in order if style not in used), order[0])


def _hashed(label: str) -> int:
    """Return a style after the solid ones that depends on the name alone, in every process."""
    others = len(_STYLES) - len(_SOLID)
    return len(_SOLID) + zlib.crc32(label.encode()) % others


def choose_styles(labels: Sequence[str], best_first: Sequence[str]) -> dict[str, Style]:
    """The style of each label; of many, only the familiar ones and the best are in colour.

    >>> choose_styles(["exp3", "ucb1"], best_first=["ucb1", "exp3"])["exp3"].colour
    '#009E73'
    >>> many = [f"policy-{i}" for i in range(9)] + ["ucb1"]
    >>> found = choose_styles(many, best_first=many)
    >>> [label for label, style in found.items() if style == GREY]
    ['policy-6', 'policy-7', 'policy-8']
    """
    chosen = list(labels)
    if len(labels) > MOST_IN_COLOUR:
        familiar = [label for label in labels if label.split(" ")[0] in _FAMILIAR]
        chosen = list(dict.fromkeys([*familiar, *best_first]))[:MOST_IN_COLOUR]
    found: dict[str, Style] = {}
    # Policies with a style of their own come first, so that no other one can take it.
    for label in sorted(chosen, key=lambda label: (label not in _SOLID, label)):
        found[label] = style_of(label, found.values())
    return {label: found.get(label, GREY) for label in labels}
