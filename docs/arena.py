"""Print the tables of ``docs/arena.md`` from cells that ``armrace arena`` has played.

``python docs/arena.py usual armrace-arena`` or ``python docs/arena.py full armrace-arena``; for the
searches of ``armrace arena --worst``, ``python docs/arena.py worst armrace-arena/worst``.
``python docs/arena.py short FOLDER`` plays the short form of the page, on one core, and prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from armrace.formatting import count, figure
from armrace.red_team.batches import WORST_CELL, worst_frame, worst_standings, worst_verdict
from armrace.reports.text import LEADERBOARD_COLUMNS
from armrace.simulation.arena import (
    GRIDS,
    Grid,
    leaderboard,
    load_cells,
    run_arena,
    verdict,
    worst_cases,
)

SHORT = Grid(horizon=20_000, replications=5)
"""All policies and attacks, in runs just long enough to rank policies."""


def main(form: str, folder: str) -> None:
    """Print verdict, leaderboard and worst cases as Markdown."""
    if form == "worst":
        print_worst(Path(folder))
        return
    if form == "short":
        figures = run_arena(SHORT, Path(folder), workers=1, report=_say)
    else:
        figures = load_cells(GRIDS[form], Path(folder))
    board = leaderboard(figures)
    print(f"{verdict(board)}\n")
    rows = [
        [row["policy"], *(figure(row[name]) for name in LEADERBOARD_COLUMNS)]
        for row in board.to_dicts()
    ]
    print_table(["policy", *LEADERBOARD_COLUMNS.values()], rows)
    print()
    columns = ["policy", "environment", "attack", "budget", "pseudo-regret", "times the best"]
    print_table([*columns, "best there"], _worst(worst_cases(figures)))


def _say(done: int, total: int) -> None:
    print(f"{done} of {total} cells", file=sys.stderr, flush=True)


def _worst(cases: pl.DataFrame) -> Iterable[list[str]]:
    for row in cases.to_dicts():
        regret, relative = figure(row["pseudo_regret_mean"]), figure(row["relative"])
        place = [row["environment"], row["attack"], count(row["budget"])]
        yield [row["policy"], *place, regret, relative, f"`{row['best']}`"]


def print_worst(folder: Path) -> None:
    """Print each policy under its own worst attack: mean and 95th percentile of every cell."""
    files = sorted(folder.glob("*.json"))
    frame = worst_frame([msgspec.json.decode(file.read_bytes()) for file in files])
    print(f"{worst_verdict(worst_standings(frame))}\n")
    print_cells(frame, frame.select(*WORST_CELL).unique().sort("environment", "budget").rows())


def print_cells(frame: pl.DataFrame, cells: Sequence[tuple[Any, ...]]) -> None:
    """Print a row for each policy: geometric means, then the figures of every cell."""
    found = {(r["policy"], r["environment"], r["budget"]): r for r in frame.to_dicts()}
    rows = []
    for row in worst_standings(frame).to_dicts():
        own = [found.get((row["policy"], *cell)) for cell in cells]
        texts = [f"{figure(r['mean'])} / {figure(r['p95'])}" if r else "" for r in own]
        rows.append([row["policy"], figure(row["mean"]), figure(row["tail"]), *texts])
    headings = [f"{environment}, C = {count(budget)}" for environment, budget in cells]
    print_table(["policy", "mean", "p95", *headings], rows)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table whose first column is code."""
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for name, *cells in rows:
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
