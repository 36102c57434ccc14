"""Execution of experiments from the command line, with handling of Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from armrace.cli.outputs import say

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from armrace.simulation import Experiment, Result


INTERRUPTED = 130
"""The exit code after Ctrl-C: that of shells, 128 plus the number of SIGINT."""


def run(
    experiments: Sequence[Experiment], workers: int | None, executor: Executor | None = None
) -> list[Result]:
    """Run experiments of equally many replications, with a progress bar on a terminal."""
    from armrace.simulation.simulate import run_experiments

    try:
        return run_experiments(experiments, executor, workers)
    except KeyboardInterrupt:
        total = experiments[0].replications
        say(f"armrace: interrupted after 0 of {total} replications.")
        raise typer.Exit(INTERRUPTED) from None


def run_cells(
    cells: Sequence[Sequence[Experiment]],
    workers: int | None,
    executor: Executor | None = None,
    folder: Path | None = None,
) -> list[list[Result]]:
    """Run cells, each a list of experiments, and return the results of each cell.

    With a folder, cells run one after the other and are stored there; else all run at once.
    """
    if folder is not None:
        return _run_in_folder(cells, workers, executor, folder)
    experiments = [experiment for cell in cells for experiment in cell]
    results = iter(run(experiments, workers, executor))
    return [[next(results) for _ in cell] for cell in cells]


def _run_in_folder(
    cells: Sequence[Sequence[Experiment]],
    workers: int | None,
    executor: Executor | None,
    folder: Path,
) -> list[list[Result]]:
    """Run cells one after the other, and store each in a folder; stored cells are not run again."""
    from armrace.files import make_folder
    from armrace.simulation.compilation import compile_experiments
    from armrace.simulation.progress import cell_bar
    from armrace.simulation.sweeps import run_sweep

    make_folder(folder)  # refused before anything is compiled
    with say_how_to_go_on(folder):
        compile_experiments([experiment for cell in cells for experiment in cell], executor)
        with cell_bar(None) as bar:
            return run_sweep(cells, folder, executor, workers, bar)


@contextmanager
def say_how_to_go_on(folder: Path) -> Iterator[None]:
    """Turn Ctrl-C into a sentence and an exit code; finished results are kept."""
    try:
        yield
    except KeyboardInterrupt:
        say(
            f"armrace: interrupted; finished results are in {folder}; run the same command to "
            "continue."
        )
        raise typer.Exit(INTERRUPTED) from None


def end(result: Result) -> None:
    """Leave with the exit code of an interruption if there was one."""
    if result.interrupted:
        asked = result.spec["replications"]
        say(f"armrace: interrupted after {result.replications} of {asked} replications.")
        raise typer.Exit(INTERRUPTED)
