"""Long sweeps of many comparisons, stored in a folder as they finish.

A *cell* is a list of experiments that are run side by side, such as all policies under one attack
with one budget. Finished replications are written every few seconds, to files named by a hash of
the specification and of the code that produced them. A sweep that was interrupted, or whose cluster
or disk failed, continues where it stopped. Several processes with the same sweep and folder, on
one machine or on many that share the folder, divide the cells among themselves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from armrace.errors import ArmraceError, UnwritableOutput, WorkersLost
from armrace.files import locked, make_folder
from armrace.simulation.compilation import compile_experiments
from armrace.simulation.experiment import Experiment
from armrace.simulation.parallel import Batch, run_missing
from armrace.simulation.replication import Outcome
from armrace.simulation.results import Result
from armrace.simulation.storage import StoredResult

_SECONDS_BETWEEN_WRITES = 20.0
"""The most work that an interruption costs, beside the batches under way."""

_SECONDS_BETWEEN_LOOKS = 0.5
"""The interval between checks whether other processes have finished what they locked."""

Cell = Sequence[Experiment]
Report = Callable[[float, int], None]


def run_sweep(
    cells: Sequence[Cell],
    folder: str | Path,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Report = lambda done, total: None,
    *,
    curves: bool = True,
) -> list[list[Result]]:
    """Run the replications that ``folder`` does not hold yet, and return the results of all cells.

    ``report`` is called with the number of finished cells and of all cells. Without ``curves``,
    only the end of each replication is kept. After Ctrl-C, lost workers or a full disk, the folder
    holds what was finished before.
    """
    place = Path(folder)
    make_folder(place)
    kept = [[StoredResult(e, place, curves=curves) for e in cell] for cell in cells]
    results: dict[int, list[Result]] = {}
    report(0, len(cells))
    try:
        while len(results) < len(cells):
            before = len(results)
            for at in [at for at in range(len(cells)) if at not in results]:
                found = _results(kept[at])
                if found is None:
                    done = len(results)

                    def progress(share: float, done: int = done) -> None:
                        report(done + share, len(cells))

                    _play(kept[at], executor, workers, progress)
                    found = _results(kept[at])
                if found is not None:  # else another process has locked a part of it
                    results[at] = found
                    report(len(results), len(cells))
            if len(results) == before:
                time.sleep(_SECONDS_BETWEEN_LOOKS)
    except (WorkersLost, UnwritableOutput) as error:
        raise type(error)(f"{_clause(error)}; {_advice(error, place)}") from error
    return [results[at] for at in range(len(cells))]


def finished_cells(
    cells: Sequence[Cell], folder: str | Path, *, curves: bool = True
) -> list[list[Result] | None]:
    """Return the results of the cells that ``folder`` holds, and None for unfinished ones."""
    return [
        _results([StoredResult(e, Path(folder), curves=curves) for e in cell]) for cell in cells
    ]


def _results(cell: Sequence[StoredResult]) -> list[Result] | None:
    results = [kept.result() for kept in cell]
    found = [result for result in results if result is not None]
    return found if len(found) == len(cell) else None


def _play(
    cell: Sequence[StoredResult],
    executor: Executor | None,
    workers: int | None,
    progress: Callable[[float], None],
) -> None:
    """Run the missing replications of a cell that are not locked by another process."""
    unfinished = [kept for kept in cell if kept.result() is None]
    with locked([kept.lock for kept in unfinished]) as ours:
        # ``missing`` is read under the lock: another process may have stored some since.
        mine = [kept for kept, acquired in zip(unfinished, ours, strict=True) if acquired]
        _play_mine({kept: kept.missing() for kept in mine}, executor, workers, progress)
        for kept in mine:
            kept.finish()


def _play_mine(
    missing: dict[StoredResult, list[int]],
    executor: Executor | None,
    workers: int | None,
    progress: Callable[[float], None],
) -> None:
    """Run and store missing replications; store finished ones even if the run fails."""
    cell = [kept for kept, numbers in missing.items() if numbers]
    experiments, numbers = [kept.experiment for kept in cell], [missing[kept] for kept in cell]
    if not cell:
        return
    compile_experiments(experiments, executor, progress=False)
    writer = _Writer(cell)
    try:
        interrupted = run_missing(experiments, numbers, executor, workers, progress, writer.receive)
    except WorkersLost:
        writer.write()
        raise
    writer.write()
    if interrupted:
        raise KeyboardInterrupt


class _Writer:
    """Collects outcomes and stores them every few seconds."""

    def __init__(self, cell: Sequence[StoredResult]) -> None:
        self._cell = cell
        self._outcomes: list[dict[int, Outcome]] = [{} for _ in cell]
        self._written = time.monotonic()

    def receive(self, batch: Batch, outcomes: Sequence[Any]) -> None:
        """Take the outcomes of a finished batch."""
        self._outcomes[batch.position].update(zip(batch.replications, outcomes, strict=True))
        if time.monotonic() - self._written > _SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        """Store what was collected since the last time."""
        for kept, outcomes in zip(self._cell, self._outcomes, strict=True):
            if outcomes:
                kept.add(outcomes)
                outcomes.clear()
        self._written = time.monotonic()


def _clause(error: ArmraceError) -> str:
    return str(error).removesuffix(".")


def _advice(error: ArmraceError, folder: Path) -> str:
    kept = f"what was finished is in {folder}, and the same command goes on from there."
    return f"make room there: {kept}" if isinstance(error, UnwritableOutput) else kept
