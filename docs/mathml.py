"""Formulas between dollar signs become MathML, which browsers show without any script.

Markdown takes a line that begins with ``<math`` for a block of HTML and tears it out of its
paragraph. So it is given a plain word in place of each formula, and the word is replaced by the
formula in the finished page.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any

from latex2mathml.converter import convert

_CODE_OR_FORMULA = re.compile(r"```.*?```|`[^`\n]*`|\$([^$`]+)\$", re.DOTALL)
_WORD = re.compile(r"formula[0-9a-f]{32}")
_LONG = 40
"""From how many characters on a formula may be wider than a phone, and gets a box that scrolls."""

_TAG = re.compile(r"<[^>]*>")
_FORMULAS: dict[str, str] = {}
"""What each word stands for; the same formula has the same word on every page."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs with the source of every page; code is left as it is."""
    return _CODE_OR_FORMULA.sub(_name, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Called by MkDocs with the page that Markdown has made."""
    return _WORD.sub(lambda found: _FORMULAS.get(found[0], found[0]), html)


def _name(found: re.Match[str]) -> str:
    formula = found[1]
    if formula is None or found[0].startswith("`"):
        return found[0]
    written = " ".join(formula.split())
    word = f"formula{sha256(written.encode()).hexdigest()[:32]}"
    if word not in _FORMULAS:
        _FORMULAS[word] = _boxed(convert(written).replace("\n", " "))
    return word


def _boxed(formula: str) -> str:
    """The formula, in a box that can be scrolled with the keyboard if it is long."""
    if len(_TAG.sub("", formula)) < _LONG:
        return formula
    return f'<span class="long-formula" tabindex="0">{formula}</span>'
