"""The figures that a seed gives, pinned: ``python tests/pinning.py`` pins those of new policies.

What is pinned already stays as it is, so that the tests notice a change, unless ``armrace.FIGURES``
was raised: then everything is pinned again.
"""

import hashlib
import json
from pathlib import Path
from typing import TypedDict

import armrace

FILE = Path(__file__).with_name("pinned_figures.json")
SHIPPED = [n for n, p in armrace.POLICIES.items() if p.__module__.startswith("armrace.")]


class Pins(TypedDict):
    """The number of the figures, and for each policy a digest of a small simulation."""

    figures: int
    digests: dict[str, str]


def read_pins() -> Pins:
    pins: Pins = json.loads(FILE.read_text(encoding="utf-8"))
    return pins


def digest(policy: str) -> str:
    result = armrace.simulate(
        policy, [0.6, 0.5, 0.3], "swap-best", budget=20, horizon=500, replications=2, seed=11
    )
    lines = []
    for row in result.final.iter_rows(named=True):
        figures = [f"{row[name]:.6f}" for name in ("regret", "clean_regret", "corruption")]
        lines.append(f"{policy} {list(row['pulls'])} {' '.join(figures)}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def pin() -> None:
    """Pin the figures of policies that are not pinned, and forget policies that are gone."""
    pins = read_pins()
    known = pins["digests"] if pins["figures"] == armrace.FIGURES else {}
    digests = {policy: known.get(policy) or digest(policy) for policy in SHIPPED}
    text = json.dumps(Pins(figures=armrace.FIGURES, digests=digests), indent=2)
    FILE.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    pin()
