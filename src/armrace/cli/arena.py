"""``armrace arena``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from armrace.cli import options
from armrace.cli.arguments import names, whole
from armrace.cli.options import Computing, complete_efforts, expanded
from armrace.cli.outputs import Outputs, page_place, say_how_to_go_on
from armrace.errors import InvalidParameter

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from armrace.red_team.batches import SearchBatch
    from armrace.simulation.arena import Grid


_PAGE = "armrace-arena.html"

_POWERS_OF_BUDGETS = (0.3, 0.4, 0.5, 0.6, 0.75)
"""Budgets of the searches, as powers of the horizon: 32 to 5,623 at T = 100,000."""

EPILOG = options.examples(
    "armrace arena --quick",
    "armrace arena --policies multi-layer-race,ucb1,tsallis-inf --replications 20",
    "armrace arena --worst quick --policies thompson,tsallis-inf",
    "armrace arena --full --folder full-arena --report full-arena.html --json leaderboard.json",
)

Quick = Annotated[
    bool,
    options.option(
        "--quick", "A smoke test: half the environments at T = 2,000, too short to rank policies."
    ),
]
Full = Annotated[bool, options.option("--full", "T = 1,000,000 in place of 100,000.")]
Folder = Annotated[
    Path,
    options.output_path(
        "--folder FOLDER",
        "Where results are stored, a folder for each environment; they are not run again.",
    ),
]
Report = Annotated[Path | None, options.usual_report(_PAGE)]
Worst = Annotated[
    str | None,
    options.option(
        "--worst EFFORT",
        "Also search for each policy's own worst attack, in every environment and at five "
        "budgets: quick, usual or full, some 500, 2,000 or 10,000 replications each.",
        autocompletion=complete_efforts,
    ),
]


@expanded
def arena(
    *,
    quick: Quick = False,
    full: Full = False,
    policies: options.Policies = None,
    worst: Worst = None,
    replications: options.Replications = None,
    seed: options.Seed = "0",
    computing: Computing,
    json: options.Json = None,
    folder: Folder = Path("armrace-arena"),
    report: Report = None,
    figures: options.Figures = None,
    force: options.Force = False,
) -> None:
    """Play every policy in every environment under every attack of a fixed grid.

    Six environments, fourteen attacks and the budgets 0, T^(1/2) and T^(3/4). All policies meet
    the same rewards in a cell. After an interruption, the same command continues where it stopped.
    A fixed list of attacks is not a worst case: [bold]--worst[/bold] searches for one.

    Attacks see the probabilities of Thompson sampling slightly outdated, since they are slow to
    compute.
    """
    from armrace.reports.arena import arena_plots, render_arena
    from armrace.simulation.arena import leaderboard

    grid = _grid(quick, full, policies, replications, seed)
    batch = None if worst is None else _search_batch(grid, worst)
    computing.check()
    outputs = Outputs(json, page_place(report, _PAGE), figures, force)
    outputs.check()
    with computing.start() as executor:
        played = _play(grid, folder, computing.number_of_workers, executor)
        found = (
            None if batch is None else _search(batch, folder, computing.number_of_workers, executor)
        )
    board = leaderboard(played)
    outputs.write(
        lambda: _with_worst(board, found),
        lambda: _print(grid, board, found),
        lambda: render_arena(grid, played, _command(quick, full, grid, worst), found),
        lambda: arena_plots(grid, played, found),
    )


def _grid(
    quick: bool, full: bool, policies: list[str] | None, replications: str | None, seed: str
) -> Grid:
    from armrace.policies import POLICIES, in_the_arena
    from armrace.simulation.arena import GRIDS

    if quick and full:
        raise InvalidParameter("--quick and --full exclude each other; give one of them.")
    changes: dict[str, object] = {"seed": whole("seed", seed)}
    if policies is not None:
        listed = names("policies", policies, in_the_arena())
        changes["policies"] = tuple(POLICIES.find(name).identifier() for name in listed)
    if replications is not None:
        changes["replications"] = whole("replications", replications)
    form = GRIDS["quick" if quick else "full" if full else "usual"]
    grid = msgspec.structs.replace(form, **changes)
    next(grid.cells()).experiments()  # refuses what lies outside its limits
    return grid


def _play(grid: Grid, folder: Path, workers: int | None, executor: Executor | None) -> pl.DataFrame:
    from armrace.files import make_folder
    from armrace.simulation.arena import run_arena
    from armrace.simulation.compilation import compile_experiments
    from armrace.simulation.progress import cell_bar

    make_folder(folder)  # refused before anything is compiled
    with say_how_to_go_on(folder):
        compile_experiments(next(grid.cells()).experiments(), executor)
        with cell_bar(None) as bar:
            return run_arena(grid, folder, workers, bar, executor)


def _search_batch(grid: Grid, effort: str) -> SearchBatch:
    """The searches for worst attacks, on the environments of the grid."""
    from armrace.red_team.batches import SearchBatch
    from armrace.red_team.target import find_budget
    from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

    find_budget(effort)
    return SearchBatch(
        policies=grid.policies,
        environments={name: ENVIRONMENTS_OF_THE_ARENA[name] for name in grid.environments},
        budgets=tuple(float(round(grid.horizon**power)) for power in _POWERS_OF_BUDGETS),
        horizon=grid.horizon,
        effort=effort,
        seed=grid.seed,
    )


def _search(
    batch: SearchBatch, folder: Path, workers: int | None, executor: Executor | None
) -> pl.DataFrame:
    from armrace.red_team.batches import run_batch, worst_frame
    from armrace.simulation.progress import progress_bar

    with say_how_to_go_on(folder), progress_bar("worst attacks", None, 600.0) as bar:

        def report(done: int, total: int, words: str) -> None:
            bar(done / total, f"{done} of {total}: {words}")

        return worst_frame(run_batch(batch, folder / "worst", executor, workers, report))


def _with_worst(board: pl.DataFrame, found: pl.DataFrame | None) -> list[dict[str, Any]]:
    """Return the leaderboard as plain data, with the worst attack of each policy in each cell."""
    rows: list[dict[str, Any]] = board.to_dicts()
    if found is not None:
        for row in rows:
            own = found.filter(found["policy"] == row["policy"])
            row["worst_found"] = own.drop("policy").to_dicts()
    return rows


def _print(grid: Grid, board: pl.DataFrame, found: pl.DataFrame | None) -> None:
    from armrace.cli.tables import print_leaderboard, print_worst_standings
    from armrace.red_team.batches import worst_standings, worst_verdict
    from armrace.simulation.arena import verdict

    print_leaderboard(board)
    typer.echo(verdict(board, smoke_test=grid.is_smoke_test))
    if found is not None:
        standings = worst_standings(found)
        typer.echo()
        print_worst_standings(standings)
        typer.echo(worst_verdict(standings))


def _command(quick: bool, full: bool, grid: Grid, worst: str | None) -> str:
    """The command line that plays the same cells."""
    form = " --quick" if quick else " --full" if full else ""
    searched = f" --worst {worst}" if worst else ""
    return (
        f"armrace arena{form} --policies {','.join(grid.policies)} "
        f"--replications {grid.replications} --seed {grid.seed}{searched}"
    )
