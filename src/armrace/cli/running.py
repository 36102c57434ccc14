"""Runs from the command line, and what Ctrl-C leaves of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from armrace.cli.outputs import say
from armrace.cli.precompiling import precompile

if TYPE_CHECKING:
    from armrace.simulation import Experiment, Result

__all__ = ["INTERRUPTED", "end", "run", "run_batches"]

INTERRUPTED = 130


def run(experiments: Sequence[Experiment], workers: int | None) -> list[Result]:
    """Run experiments of equally many replications, with a progress bar on a terminal."""
    from armrace.simulation.simulate import run_experiments

    try:
        precompile(experiments)
        return run_experiments(experiments, workers=workers)
    except KeyboardInterrupt:
        total = experiments[0].replications
        say(f"armrace: interrupted after 0 of {total} replications.")
        raise typer.Exit(INTERRUPTED) from None


def run_batches(batches: Sequence[Sequence[Experiment]], workers: int | None) -> list[list[Result]]:
    """Run batches of experiments all at once, and return their results batch by batch."""
    results = iter(run([experiment for batch in batches for experiment in batch], workers))
    return [[next(results) for _ in batch] for batch in batches]


def end(result: Result) -> None:
    """Leave with the exit code of an interruption if there was one."""
    if result.interrupted:
        asked = result.spec["replications"]
        say(f"armrace: interrupted after {result.replications} of {asked} replications.")
        raise typer.Exit(INTERRUPTED)
