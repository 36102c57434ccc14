"""``armrace arena``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from armrace.cli import options
from armrace.cli.outputs import STANDARD_OUTPUT, check_targets, say, write_json
from armrace.cli.parsing import names, place, whole, worker_count
from armrace.cli.running import say_how_to_go_on
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from armrace.simulation.arena import Grid

__all__ = ["EPILOG", "arena"]

EPILOG = """\
[bold]Examples[/bold]

armrace arena --quick

armrace arena --policies multi-layer-race,ucb1,tsallis-inf --replications 20

armrace arena --full --folder full-arena --report full-arena.html --json leaderboard.json
"""

Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Half the environments at T = 2,000: a check that all of it works."
    ),
]
Full = Annotated[bool, typer.Option("--full", help="T = 1,000,000 in place of 100,000.")]
Policies = Annotated[
    str | None,
    typer.Option("--policies", metavar="NAMES", help="Which policies, between commas; or all."),
]
Folder = Annotated[
    Path,
    typer.Option(
        "--folder",
        metavar="FOLDER",
        parser=place,
        help="Where the results go, as Parquet files; what is there is not played again.",
        rich_help_panel="Output",
    ),
]
Report = Annotated[
    Path,
    typer.Option(
        "--report",
        metavar="FILE",
        parser=place,
        help="Where the HTML page goes.",
        rich_help_panel="Output",
    ),
]


def arena(
    quick: Quick = False,
    full: Full = False,
    policies: Policies = None,
    replications: options.Replications = None,
    seed: options.Seed = "0",
    workers: options.Workers = None,
    executor: options.Executor = "threads",
    address: options.Address = None,
    json: options.Json = None,
    folder: Folder = Path("armrace-arena"),
    report: Report = Path("armrace-arena.html"),
) -> None:
    """The leaderboard: every policy in every environment under every attack of a fixed grid.

    Six environments, seven attacks and the budgets 0, T^(1/2) and T^(3/4). All policies meet the
    same rewards in a cell. After an interruption, the same command goes on where it stopped.
    """
    from armrace.simulation.executors import check_executor, chosen_executor
    from armrace.simulation.standings import leaderboard

    grid = _grid(quick, full, policies, replications, seed)
    count = worker_count(workers)
    check_executor(executor, address, count)
    check_targets(json, report)
    with chosen_executor(executor, address, count) as chosen:
        figures = _play(grid, folder, count, chosen)
    board = leaderboard(figures)
    if json is not None:
        write_json(json, board.to_dicts())
    if json != STANDARD_OUTPUT:
        _print(board)
    _write_report(report, grid, figures, _command(quick, full, grid))


def _grid(
    quick: bool, full: bool, policies: str | None, replications: str | None, seed: str
) -> Grid:
    from armrace.policies import POLICIES
    from armrace.simulation.arena import FORMS

    if quick and full:
        raise InvalidParameter("--quick and --full exclude each other; give one of them.")
    changes: dict[str, object] = {"seed": whole("seed", seed)}
    if policies is not None:
        listed = names("policies", policies, POLICIES)
        changes["policies"] = tuple(POLICIES.find(name).tag() for name in listed)
    if replications is not None:
        changes["replications"] = whole("replications", replications)
    form = FORMS["quick" if quick else "full" if full else "usual"]
    grid = msgspec.structs.replace(form, **changes)
    next(grid.cells()).experiments()  # refuses what lies outside its limits
    return grid


def _play(grid: Grid, folder: Path, workers: int | None, executor: Executor | None) -> pl.DataFrame:
    from armrace.simulation.arena import run_arena
    from armrace.simulation.compilation import compile_experiments
    from armrace.simulation.progress import cell_bar

    with say_how_to_go_on(folder):
        compile_experiments(next(grid.cells()).experiments(), executor)
        with cell_bar(None) as bar:
            return run_arena(grid, folder, workers, bar, executor)


def _print(board: pl.DataFrame) -> None:
    from armrace.cli.tables import print_leaderboard
    from armrace.simulation.standings import verdict

    print_leaderboard(board)
    typer.echo(verdict(board))


def _write_report(page: Path, grid: Grid, figures: pl.DataFrame, command: str) -> None:
    from armrace.files import write_text
    from armrace.reports.arena import render_arena

    write_text(page, render_arena(grid, figures, command))
    say(f"The report is in {page}.")


def _command(quick: bool, full: bool, grid: Grid) -> str:
    """The command line that plays the same cells."""
    form = " --quick" if quick else " --full" if full else ""
    return (
        f"armrace arena{form} --policies {','.join(grid.policies)} "
        f"--replications {grid.replications} --seed {grid.seed}"
    )
