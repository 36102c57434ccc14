"""The colour and line style of each policy, the same in every plot.

Every policy of the library has a fixed style: seven colours times five line styles, so that lines
are told apart by colour-blind readers and in black and white too. The policies that are compared
most often are solid; a policy that is not listed here takes the next style that is free. Other
policies, such as a user's, get a style from their name.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

from armrace.policies import POLICIES
from armrace.reports.theme import LIGHT, SERIES

COLOURS = tuple(LIGHT[name] for name in SERIES)
"""The colours of lines on white paper; pages show their counterparts where they are dark."""

Dashes = str | tuple[int, tuple[int, ...]]
"""A line style of matplotlib."""

_LINES: tuple[Dashes, ...] = ("-", "--", ":", "-.", (0, (7, 2, 1, 2, 1, 2)))
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

    colour: str
    line: Dashes = "-"


GREY = Style(LIGHT["context"])
"""For lines that are only there for comparison."""

_STYLES = tuple(Style(colour, line) for line in _LINES for colour in COLOURS)


def style_of(label: str, taken: Iterable[Style] = ()) -> Style:
    """The style of a policy, or another one if others have ``taken`` it.

    A policy with parameters keeps the colour of the policy if one of its line styles is free.

    >>> style_of("ucb1") == style_of("ucb1 (alpha=2.0)")
    True
    >>> style_of("ucb1 (alpha=2.0)", taken=[style_of("ucb1")]) == Style(COLOURS[1], "--")
    True
    """
    first = _first_choice(label)
    colour = _STYLES[first].colour
    order = [*_STYLES[first:], *_STYLES[:first]]
    order = sorted(order, key=lambda style: style.colour != colour)
    used = set(taken)
    return next((style for style in order if style not in used), order[0])


def _first_choice(label: str) -> int:
    """Return the place of a style that depends on the name alone, in every process."""
    name = label.split(" ", maxsplit=1)[0]
    if name in _own_places():
        return _own_places()[name]
    solid = len(COLOURS)
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
