"""Print the tables of ``docs/arena.md`` from cells that ``armrace arena`` has played.

``python docs/arena.py usual armrace-arena`` or ``python docs/arena.py full armrace-arena``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl

from armrace.formatting import count, figure
from armrace.simulation.arena import FORMS, load_cells
from armrace.simulation.standings import leaderboard, verdict, worst_cases

_BOARD = {
    "attacked": "attacked",
    "quiet": "quiet",
    "tail": "p95, attacked",
    "worst": "worst cell",
    "rank": "mean rank",
    "wins": "cells won",
    "cells": "cells played",
}


def main(form: str, folder: str) -> None:
    """Print verdict, leaderboard and worst cases as Markdown."""
    figures = load_cells(FORMS[form], Path(folder))
    board = leaderboard(figures)
    print(f"{verdict(board)}\n")
    rows = [[row["policy"], *(figure(row[name]) for name in _BOARD)] for row in board.to_dicts()]
    print_table(["policy", *_BOARD.values()], rows)
    print()
    columns = ["policy", "environment", "attack", "budget", "pseudo-regret", "times the best"]
    print_table([*columns, "best there"], _worst(worst_cases(figures)))


def _worst(cases: pl.DataFrame) -> Iterable[list[str]]:
    for row in cases.to_dicts():
        regret, relative = figure(row["pseudo_regret_mean"]), figure(row["relative"])
        place = [row["environment"], row["attack"], count(row["budget"])]
        yield [row["policy"], *place, regret, relative, f"`{row['best']}`"]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A Markdown table whose first column is code."""
    print(f"| {' | '.join(columns)} |")
    print(f"|{'---|' * len(columns)}")
    for name, *cells in rows:
        print(f"| `{name}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main(*sys.argv[1:])
