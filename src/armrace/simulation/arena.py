"""The arena: every policy in every environment under every attack, at several budgets.

A *cell* is one environment, one attack and one budget; all policies meet the same rewards in
it. What is finished is kept in a folder (:mod:`armrace.simulation.sweeps`), so that a run can be
interrupted and taken up again, and nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

from armrace.adversaries import ADVERSARIES
from armrace.environments import Bernoulli, Beta, Environment
from armrace.policies import POLICIES
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.results import MEASURES, Result
from armrace.simulation.scenarios import told_the_budget
from armrace.simulation.sweeps import finished_cells, run_sweep

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
        return [
            name for name in self.grid.policies if POLICIES.find(name).exact_tickets or not seen
        ]

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
    executor: Executor | None = None,
) -> pl.DataFrame:
    """Play all that ``folder`` does not hold yet, and return the figures of all cells.

    ``report`` is told how many cells are done, of how many.
    """
    cells = list(_played(grid))
    experiments = [cell.experiments() for cell in cells]
    results = run_sweep(experiments, folder, executor, workers, report, curves=False)
    return pl.concat(cell.frame(found) for cell, found in zip(cells, results, strict=True))


def load_cells(grid: Grid, folder: Path) -> pl.DataFrame:
    """The figures of the grid's cells that ``folder`` holds."""
    cells = list(_played(grid))
    found = finished_cells([cell.experiments() for cell in cells], folder, curves=False)
    pairs = zip(cells, found, strict=True)
    frames = [cell.frame(results) for cell, results in pairs if results is not None]
    return pl.concat(frames) if frames else pl.DataFrame()


def _played(grid: Grid) -> Iterator[Cell]:
    return (cell for cell in grid.cells() if cell.competitors())
