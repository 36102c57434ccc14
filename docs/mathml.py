"""Formulas between dollar signs become MathML, which browsers show without any script."""

from __future__ import annotations

import re
from typing import Any

from latex2mathml.converter import convert

_CODE_OR_FORMULA = re.compile(r"```.*?```|`[^`\n]*`|\$([^$`]+)\$", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for every page; code is left as it is."""
    return _CODE_OR_FORMULA.sub(_replace, markdown)


def _replace(found: re.Match[str]) -> str:
    formula = found[1]
    if formula is None or found[0].startswith("`"):
        return found[0]
    return convert(" ".join(formula.split())).replace("\n", " ")
