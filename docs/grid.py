"""Search for worst attacks on a grid of environments and budgets, for ``docs/arena.md``.

``python docs/grid.py FOLDER [PART...]`` plays the cells that the folder does not hold yet, one
verdict per file, on one core, and prints the tables; ``--print`` only prints. The parts are
campaigns of their own:

- ``budgets``: the leaders in the four environments that are cheap to play, at five budgets.
- ``others``: a race and an index in three of them.
- ``many``: the leaders with a hundred arms.
- ``steady``: the recommended policy with optimism 1, where it was looked at for its tail.
- ``long``: two arms for a million rounds.

``docs/tails.py`` then plays the winning attacks on the recommended policy once more.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from armrace.formatting import count, figure
from armrace.red_team.campaign import Campaign, run_campaign
from armrace.red_team.standings import worst_frame, worst_standings
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

LEADERS: tuple[str | dict[str, Any], ...] = (
    "optimistic-log-barrier",
    {"name": "optimistic-log-barrier", "optimism": 0.1},
    "tsallis-inf",
    "lb-inf",
)
OTHERS = ("sharp-race", "ucb1")
STEADY = {"name": "optimistic-log-barrier", "optimism": 1.0}
BUDGETS = (32.0, 100.0, 316.0, 1000.0, 5623.0)


def campaign(
    policies: tuple[str | dict[str, Any], ...],
    environments: tuple[str, ...],
    budgets: tuple[float, ...],
    horizon: int = 100_000,
) -> Campaign:
    """Quick searches in some environments of the arena."""
    return Campaign(
        policies=policies,
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in environments},
        budgets=budgets,
        horizon=horizon,
        effort="quick",
    )


CAMPAIGNS = {
    "budgets": campaign(LEADERS, ("two-arms", "one-better", "clicks", "near-ties"), BUDGETS),
    "others": campaign(OTHERS, ("two-arms", "one-better", "clicks"), BUDGETS),
    "many": campaign(LEADERS, ("hundred-arms",), (100.0, 1000.0)),
    "steady": campaign((STEADY,), ("two-arms", "clicks", "near-ties"), (32.0, 100.0)),
    "long": campaign(
        ("optimistic-log-barrier", "tsallis-inf"), ("two-arms",), (1000.0,), horizon=1_000_000
    ),
}


def play(folder: Path, parts: Iterable[str]) -> None:
    """Search the cells that are missing."""
    for part in parts:

        def report(done: int, total: int, words: str, part: str = part) -> None:
            spent = time.process_time()
            print(
                f"{part}: {done} of {total}, {spent:,.0f} s: {words}", file=sys.stderr, flush=True
            )

        run_campaign(CAMPAIGNS[part], folder / part, workers=1, report=report)


def show(folder: Path, parts: Iterable[str]) -> None:
    """Print the tables of the parts, then the standings of the leaders in all cells they share."""
    frames = {part: read(folder / part) for part in parts}
    for part, frame in frames.items():
        print(f"\n{part}:\n")
        print_cells(frame)
    leaders = [frames[part] for part in ("budgets", "many") if part in frames]
    if leaders:
        print("\nleaders:\n")
        print_standings(pl.concat(leaders))


def read(folder: Path) -> pl.DataFrame:
    """The verdicts in a folder, one row each."""
    files = sorted(folder.glob("*.json"))
    return worst_frame([msgspec.json.decode(file.read_bytes()) for file in files])


def print_cells(frame: pl.DataFrame) -> None:
    """Print mean / 95th percentile: a row for each environment and policy, a column per budget."""
    budgets = sorted(frame["budget"].unique())
    found = {(r["environment"], r["policy"], r["budget"]): r for r in frame.to_dicts()}
    print(f"| environment | policy | {' | '.join(f'C = {count(b)}' for b in budgets)} |")
    print("|---|---|" + "---|" * len(budgets))
    for environment, policy in frame.select("environment", "policy").unique().sort(pl.all()).rows():
        own = [found.get((environment, policy, budget)) for budget in budgets]
        texts = [f"{figure(r['mean'])} / {figure(r['p95'])}" if r else "" for r in own]
        print(f"| {environment} | `{policy}` | {' | '.join(texts)} |")


def print_standings(frame: pl.DataFrame) -> None:
    """Print geometric means over the cells, relative to the least of the policies there."""
    print("| policy | cells | mean | 95th percentile |\n|---|---|---|---|")
    for row in worst_standings(frame).to_dicts():
        means = f"{row['mean']:.2f} | {row['tail']:.2f}"
        print(f"| `{row['policy']}` | {row['cells']} | {means} |")


if __name__ == "__main__":
    place, *given = sys.argv[1:]
    named = [part for part in given if part != "--print"] or list(CAMPAIGNS)
    if "--print" not in given:
        play(Path(place), named)
    show(Path(place), named)
