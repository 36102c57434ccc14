"""The tables of the page on choosing a policy, which repeat rows of the pages with the evidence."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).parent
_SHOWN = (
    "optimistic-log-barrier",
    "lb-inf",
    "tsallis-inf",
    "exp3",
    "sharp-race",
    "multi-layer-race",
    "thompson",
    "ucb1",
)
"""The policies of the page, in its order."""

_BLOCKS = {
    "Worst found": ("arena.md", "## Worst found"),
    "Live figures": ("guide/live-use.md", "## Which policy"),
}
"""Where the table of each block comes from: the page, and the heading above the table."""


def with_evidence(text: str) -> str:
    """The page with its tables between their markers."""
    for title, (page, heading) in _BLOCKS.items():
        table = "\n".join(_table(_DOCS / page, heading))
        pattern = rf"(<!-- {title}: .*? -->\n).*?(<!-- End of {title.lower()}\. -->)"
        text, found = re.subn(
            pattern, lambda m, t=table: f"{m[1]}\n{t}\n\n{m[2]}", text, flags=re.DOTALL
        )
        if found != 1:
            raise ValueError(f"the page has no block named {title}.")
    return text


def _table(page: Path, heading: str) -> list[str]:
    """The first table below a heading, without the policies that the page does not show."""
    below = page.read_text(encoding="utf-8").split(f"\n{heading}\n")[1]
    lines = below[below.index("\n|") + 1 :].split("\n\n")[0].splitlines()
    rows = {line.split("`")[1]: line for line in lines[2:]}
    return [*lines[:2], *(rows[name] for name in _SHOWN if name in rows)]
