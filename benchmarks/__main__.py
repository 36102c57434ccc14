"""Run the benchmarks: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.agreement import Agreement
from benchmarks.catalogue import all_policies
from benchmarks.contexts import contextual
from benchmarks.figures import Figure
from benchmarks.footprint import memory, start_up
from benchmarks.libraries import against_peers
from benchmarks.live import live
from benchmarks.plain_c import COMMAND, compiler
from benchmarks.replay import replay_figures
from benchmarks.report import show, write_json
from benchmarks.side_by_side import libraries, side_by_side_table
from benchmarks.speed import Effort, against_c, searched, under_attack

_THOROUGH = Effort(turns=12, replications=4)
_PAGE = 150
_QUICK = Effort(turns=3, replications=12, horizon=25_000)
"""Many short replications: they tell two algorithms apart as well as fewer long ones."""

_CATALOGUE = Effort(turns=3, replications=1)


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 if armrace and plain C do not play the same algorithm."""
    options = _parse(words)
    console = Console()
    if not console.is_terminal:
        console = Console(width=_PAGE)
    figures: list[Figure] = []
    agreements: list[Agreement] = []
    peers = not (options.quick or options.no_peers)
    with console.status("measuring"):
        for outcome in _measure(options.quick, peers):
            if isinstance(outcome, Agreement):
                agreements.append(outcome)
            else:
                figures.append(outcome)
        rows = list(libraries()) if peers else []
    show(console, figures, agreements)
    if rows:
        console.print(side_by_side_table(rows))
    if options.json is not None:
        write_json(options.json, figures, agreements, rows)
    return 0 if all(agreement.holds for agreement in agreements) else 1


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short form, without peers")
    parser.add_argument("--no-peers", action="store_true", help="leave other libraries out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    return parser.parse_args(words)


def _measure(quick: bool, peers: bool) -> Iterator[Figure | Agreement]:
    effort = _QUICK if quick else _THOROUGH
    if compiler() is None:
        yield Figure("plain C", None, "", note=f"{COMMAND[0]} is not installed")
    else:
        yield from against_c(effort)
        yield from under_attack(effort)
        yield from contextual(effort)
        if not quick:
            yield from all_policies(_CATALOGUE)
    yield searched(effort)
    yield from memory()
    yield from start_up(repeats=1 if quick else 5, cold=not quick)
    yield from live(blocks=10 if quick else 100)
    yield from replay_figures(rows=50_000 if quick else 5_000_000, turns=1 if quick else 3)
    if peers:
        yield from against_peers()


if __name__ == "__main__":
    sys.exit(main())
