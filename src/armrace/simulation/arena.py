"""The arena: every policy in every environment under every attack, at several budgets.

A *cell* is one environment, one attack and one budget; all policies meet the same rewards in
it. A finished cell is a Parquet file named by a hash of all that it depends on, so that a run
can be interrupted and taken up again, and nothing is computed twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.environments import Bernoulli, Beta, Environment
from armrace.errors import DamagedFile
from armrace.policies import POLICIES
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.files import atomic_path, make_folder
from armrace.simulation.results import MEASURES, Result
from armrace.simulation.scenarios import told_the_budget
from armrace.simulation.simulate import run_experiments

__all__ = [
    "ATTACKS",
    "BUDGET_EXPONENTS",
    "ENVIRONMENTS_OF_THE_ARENA",
    "FORMS",
    "Cell",
    "Grid",
    "load_cells",
    "run_arena",
]

ENVIRONMENTS_OF_THE_ARENA: dict[str, Environment] = {
    "one-better": Bernoulli(means=(*[0.4] * 6, 0.5, *[0.4] * 3)),
    "clicks": Bernoulli(means=(*[0.03] * 6, 0.05, *[0.03] * 3)),
    "near-ties": Bernoulli(
        means=(0.45, 0.42, 0.48, 0.43, 0.47, 0.41, 0.5, 0.44, 0.49, 0.46),
    ),
    "hundred-arms": Bernoulli(means=(*[0.4] * 50, 0.6, *[0.5] * 33, *[0.4] * 16)),
    "two-arms": Bernoulli(means=(0.4, 0.6)),
    "ratings": Beta(alphas=(6.0, 4.0, 2.0, 8.0, 6.0), betas=(4.0, 6.0, 8.0, 2.0, 4.0)),
}
"""The best arm is never the first, which a policy that breaks ties by index plays anyway."""

ATTACKS = (
    "zero-best",
    "zero-best-when-likely",
    "swap-best",
    "aae-opening",
    "adaptive-constant",
    "sleeper-bots",
    "random-flips",
)

BUDGET_EXPONENTS = (0.5, 0.75)
"""Budgets are these powers of the horizon; a budget of 0 is the cell without attack."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """Which cells there are, and how long each is played."""

    horizon: int
    replications: int
    seed: int = 0
    environments: tuple[str, ...] = tuple(ENVIRONMENTS_OF_THE_ARENA)
    attacks: tuple[str, ...] = ATTACKS
    policies: tuple[str, ...] = tuple(POLICIES)

    def cells(self) -> Iterator[Cell]:
        """One cell without attack an environment, and one for each attack and budget."""
        for environment in self.environments:
            yield Cell(self, environment, "none", 0.0)
            for attack in self.attacks:
                for exponent in BUDGET_EXPONENTS:
                    yield Cell(self, environment, attack, float(round(self.horizon**exponent)))


FORMS: dict[str, Grid] = {
    "quick": Grid(
        horizon=2_000, replications=2, environments=("one-better", "hundred-arms", "two-arms")
    ),
    "usual": Grid(horizon=100_000, replications=10),
    "full": Grid(horizon=1_000_000, replications=5),
}
"""The arena as it is usually run, in seconds for a check, and at length."""


class Cell(NamedTuple):
    """One environment, one attack and one budget."""

    grid: Grid
    environment: str
    attack: str
    budget: float

    def experiments(self) -> list[Experiment]:
        """One experiment a policy, on the same rewards; see :meth:`competitors`."""
        return [
            make_experiment(
                policy=told_the_budget(policy, self.budget),
                environment=ENVIRONMENTS_OF_THE_ARENA[self.environment],
                adversary=ADVERSARIES.make(self.attack),
                budget=self.budget,
                horizon=self.grid.horizon,
                replications=self.grid.replications,
                seed=self.grid.seed,
            )
            for policy in self.competitors()
        ]

    def competitors(self) -> list[str]:
        """The policies of the cell.

        Where the attack looks at the learner's distribution in every round, those whose
        distribution costs more than all else in the arena sit out: Thompson sampling needs an
        integral for it.
        """
        seen = ADVERSARIES.find(self.attack).sees_weights
        return [name for name in self.grid.policies if POLICIES[name].exact_tickets or not seen]

    def file_name(self) -> str:
        """A name that changes with anything the cell's figures depend on."""
        specs = [experiment.to_builtins() for experiment in self.experiments()]
        content = msgspec.json.encode([armrace.__version__, specs], order="sorted")
        return f"{hashlib.sha256(content).hexdigest()[:20]}.parquet"

    def frame(self, results: Sequence[Result]) -> pl.DataFrame:
        """A row a policy: the summaries of all figures."""
        rows = []
        for result in results:
            row: dict[str, object] = {
                "environment": self.environment,
                "attack": self.attack,
                "budget": self.budget,
                "horizon": result.horizon,
                "replications": result.replications,
                "policy": result.policy,
            }
            for measure in MEASURES:
                for name, value in result.figure(measure)._asdict().items():
                    row[f"{measure}_{name}"] = value
            rows.append(row)
        return pl.DataFrame(rows)


def run_arena(
    grid: Grid,
    folder: Path,
    workers: int | None = None,
    report: Callable[[float, int], None] = lambda done, total: None,
) -> pl.DataFrame:
    """Play all cells that ``folder`` does not hold yet, and return the figures of all.

    ``report`` is told how many cells are done, of how many. Ctrl-C loses at most one cell.
    """
    make_folder(folder)
    cells = [cell for cell in grid.cells() if cell.competitors()]
    for position, cell in enumerate(cells):
        report(position, len(cells))
        target = folder / cell.file_name()
        if not target.exists():
            results = _play(cell, workers, partial(_report_part, report, position, len(cells)))
            with atomic_path(target) as path:
                cell.frame(results).write_parquet(path)
    report(len(cells), len(cells))
    return load_cells(grid, folder)


def _report_part(
    report: Callable[[float, int], None], position: int, total: int, share: float
) -> None:
    report(position + share, total)


def _play(cell: Cell, workers: int | None, report: Callable[[float], None]) -> list[Result]:
    """All of a cell, or an interruption: a part of it would pass for the whole."""
    results = run_experiments(cell.experiments(), workers=workers, progress=report)
    if results[0].interrupted:
        raise KeyboardInterrupt
    return results


def load_cells(grid: Grid, folder: Path) -> pl.DataFrame:
    """The figures of the grid's cells that ``folder`` holds."""
    files = [folder / cell.file_name() for cell in grid.cells()]
    frames = [_read(file) for file in files if file.exists()]
    return pl.concat(frames) if frames else pl.DataFrame()


def _read(file: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(file)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise DamagedFile(f"{file} is damaged; remove it, and its cell is played anew.") from error
