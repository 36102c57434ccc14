"""Search for worst attacks on a grid of environments and budgets, for ``docs/arena.md``.

``python docs/grid.py FOLDER [PART...]`` searches the cells that the folder does not hold yet, one
verdict per file, on one core, and prints the tables; ``--print`` only prints. Several processes can
work on the same folder at once: each takes a policy in an environment that no other has taken.
``--policies`` and ``--environments`` name some of them, as in ``all --policies guarded``. Parts
share the cells that they have in common:

- ``budgets``: the leaders in the four environments that are cheap to play, at five budgets.
- ``all``: in three of them every policy that is played at little cost.
- ``rest``: there, all other policies that run without being given a parameter but the corruption.
- ``ratings`` and ``many``: the leaders with Beta rewards, and with a hundred arms.
- ``steady``: the recommended policy with optimism 1, where it was looked at for its tail.
- ``long``: the leaders and Thompson sampling for a million rounds.

The name of a file depends on the code: with other code than before, all is searched again.
``docs/tails.py`` then plays the winning attacks on the recommended policy once more.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from armrace.formatting import count, figure
from armrace.policies import in_the_arena
from armrace.red_team.batches import (
    CellKey,
    SearchBatch,
    SearchSeries,
    newest_verdicts,
    run_series,
    worst_frame,
    worst_standings,
)
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

LEADERS: tuple[str | dict[str, Any], ...] = (
    "optimistic-log-barrier",
    {"name": "optimistic-log-barrier", "optimism": 0.1},
    "tsallis-inf",
    "lb-inf",
)
OTHERS: tuple[str | dict[str, Any], ...] = (
    "guarded",
    {"name": "guarded", "base": "optimistic-log-barrier"},
    {"name": "guarded", "base": "thompson"},
    "thompson",
    "sharp-race",
    "lb-inf-v",
    "exp3",
    "log-barrier",
    "exp3-plus-plus",
    "broad",
    "multi-layer-race",
    "ucb1",
    "moss",
    "kl-ucb",
)
APART = ("batched", "restarting")
"""Policies around another one that are judged apart: in a table of their own, where means move."""
REST = tuple(name for name in in_the_arena() if name not in (*LEADERS, *OTHERS, *APART))
STEADY = {"name": "optimistic-log-barrier", "optimism": 1.0}
CHEAP = ("two-arms", "one-better", "clicks")
BUDGETS = (32.0, 100.0, 316.0, 1000.0, 5623.0)


def batch(
    policies: tuple[str | dict[str, Any], ...],
    environments: tuple[str, ...],
    budgets: tuple[float, ...],
    horizon: int = 100_000,
) -> SearchBatch:
    """Quick searches in some environments of the arena."""
    return SearchBatch(
        policies=policies,
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in environments},
        budgets=budgets,
        horizon=horizon,
        effort="quick",
    )


BATCHES = {
    "budgets": batch(LEADERS, (*CHEAP, "near-ties"), BUDGETS),
    "all": batch((*LEADERS, *OTHERS), CHEAP, BUDGETS),
    "rest": batch(REST, CHEAP, BUDGETS),
    "ratings": batch(LEADERS, ("ratings",), BUDGETS),
    "many": batch(LEADERS, ("hundred-arms",), BUDGETS),
    "steady": batch((STEADY,), ("two-arms", "clicks", "near-ties"), (32.0, 100.0)),
    "long": batch((*LEADERS, "thompson"), CHEAP, (100.0, 1000.0, 31_623.0), horizon=1_000_000),
}


def series_of(
    parts: Iterable[str], policies: Iterable[str], environments: Iterable[str]
) -> Iterator[SearchSeries]:
    """The series of some parts; without names of policies or environments, of all of them.

    A policy is named with its parameters or without: ``guarded`` stands for all its bases.
    """
    for part in parts:
        for series in BATCHES[part].series():
            label, environment = series.cells[0].policy, series.cells[0].environment
            named = not policies or label in policies or label.split(", ")[0] in policies
            if named and (not environments or environment in environments):
                yield series


def play(folder: Path, wanted: Iterable[SearchSeries]) -> None:
    """Search the cells that are missing and that no other process searches."""
    for series in wanted:

        def report(done: int, words: str, total: int = len(series.cells)) -> None:
            spent = f"{time.process_time():,.0f} s"
            print(f"{spent}, {done} of {total}: {words}", file=sys.stderr, flush=True)

        if run_series(series, folder / "verdicts", workers=1, report=report) is None:
            print(f"another process has {series.cells[0]}", file=sys.stderr, flush=True)


def show(folder: Path, parts: Iterable[str]) -> None:
    """Print the tables of the parts, then the standings of the leaders in all cells they share."""
    found = verdicts(folder)
    for part in parts:
        if own := of_part(part, found):
            print(f"\n{part}:\n")
            print_cells(worst_frame(own))
            print_standings(worst_frame(own))
    shared = [each for part in ("budgets", "ratings", "many") for each in of_part(part, found)]
    if shared:
        print("\nleaders:")
        print_standings(worst_frame(shared))


def verdicts(folder: Path) -> dict[CellKey, dict[str, Any]]:
    """All verdicts in a folder."""
    return newest_verdicts(f for f in folder.glob("*/*.json") if f.parent.name != "tails")


def of_part(part: str, found: dict[CellKey, dict[str, Any]]) -> list[dict[str, Any]]:
    """The verdicts of a part that were found."""
    cells = (cell for series in BATCHES[part].series() for cell in series.cells)
    return [found[cell.key] for cell in cells if cell.key in found]


def print_cells(frame: pl.DataFrame) -> None:
    """Print mean ± standard error / 95th percentile, a column for each budget."""
    budgets = sorted(frame["budget"].unique())
    found = {(r["environment"], r["policy"], r["budget"]): r for r in frame.to_dicts()}
    print(f"| environment | policy | {' | '.join(f'C = {count(b)}' for b in budgets)} |")
    print("|---|---|" + "---|" * len(budgets))
    for environment, policy in frame.select("environment", "policy").unique().sort(pl.all()).rows():
        own = [found.get((environment, policy, budget)) for budget in budgets]
        texts = [
            f"{figure(r['mean'])} ± {figure(r['stderr'])} / {figure(r['p95'])}" if r else ""
            for r in own
        ]
        print(f"| {environment} | `{policy}` | {' | '.join(texts)} |")


def print_standings(frame: pl.DataFrame) -> None:
    """Print geometric means over the cells, relative to the least of the policies there."""
    print("\n| policy | cells | mean | 95th percentile |\n|---|---|---|---|")
    for row in worst_standings(frame).to_dicts():
        means = f"{row['mean']:.2f} | {row['tail']:.2f}"
        print(f"| `{row['policy']}` | {row['cells']} | {means} |")


def main() -> None:
    """Search and print, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(BATCHES))
    parser.add_argument("--policies", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--environments", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--print", action="store_true", dest="only_print")
    given = parser.parse_args()
    parts = given.parts or list(BATCHES)
    if unknown := set(parts) - set(BATCHES):
        parser.error(f"no part is called {', '.join(sorted(unknown))}")
    if not given.only_print:
        play(given.folder, list(series_of(parts, given.policies, given.environments)))
    show(given.folder, parts)


if __name__ == "__main__":
    main()
