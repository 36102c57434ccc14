"""The tables of the page on choosing a policy: rows of the pages with the evidence, and bounds."""

from __future__ import annotations

import re
from pathlib import Path

from armrace.planning.guarantees import VACUOUS, proven_loss
from armrace.policies import POLICIES

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


ADS = (0.06, 0.05, 0.04, 0.03, 0.02), 200_000
_SETTINGS = {
    "ads": (*ADS, (0, 1000)),
    "clicks": ((0.05, *[0.03] * 9), 100_000, (0, 100)),
    "one-better": ((0.5, *[0.4] * 9), 100_000, (0, 100, 1000)),
    "two-arms": ((0.6, 0.4), 100_000, (0, 100, 1000)),
}
"""Means, rounds and corruptions for which the page says what is proven."""


def _proven() -> list[str]:
    """What each policy is proven to lose at most in each setting."""
    cells = [(name, c) for name, (_, _, each) in _SETTINGS.items() for c in each]
    head = ["proven to lose at most", *(f"{name}, C = {c:,}" for name, c in cells)]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    most = [
        f"{(max(m) - min(m)) * rounds:,.0f}" for m, rounds, each in _SETTINGS.values() for _ in each
    ]
    lines.append(f"| *all that can be lost* | {' | '.join(most)} |")
    for tag in _SHOWN:
        policy, found = POLICIES.make(tag), []
        for name, c in cells:
            means, rounds, _ = _SETTINGS[name]
            found.append(proven_loss(policy, means, rounds, c).replace(VACUOUS, "-"))
        lines.append(f"| `{tag}` | {' | '.join(found)} |")
    return lines


def with_evidence(text: str) -> str:
    """The page with its tables between their markers."""
    tables = {title: _table(_DOCS / page, head) for title, (page, head) in _BLOCKS.items()}
    for title, lines in {**tables, "Proven figures": _proven()}.items():
        table = "\n".join(lines)
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
