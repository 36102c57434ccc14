"""The arena: every policy in every environment under every attack, at several budgets.

A *cell* is one environment, one attack and one budget; all policies meet the same rewards in
it. A finished cell is a Parquet file named by a hash of all that it depends on, so that a run
can be interrupted and taken up again, and nothing is computed twice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import polars as pl

import armrace
from armrace.adversaries import ADVERSARIES
from armrace.environments import Bernoulli, Beta, Environment
from armrace.policies import POLICIES
from armrace.simulation.experiment import Experiment, make_experiment
from armrace.simulation.files import atomic_path
from armrace.simulation.results import MEASURES, Result
from armrace.simulation.scenarios import told_the_budget
from armrace.simulation.simulate import run_experiments

__all__ = [
    "ATTACKS",
    "BUDGET_EXPONENTS",
    "ENVIRONMENTS_OF_THE_ARENA",
    "Cell",
    "Grid",
    "leaderboard",
    "load_cells",
    "relative_regret",
    "run_arena",
    "worst_cases",
]

ENVIRONMENTS_OF_THE_ARENA: dict[str, Environment] = {
    "one-better": Bernoulli(means=(0.5, *[0.4] * 9)),
    "clicks": Bernoulli(means=(0.05, *[0.03] * 9)),
    "near-ties": Bernoulli(means=tuple(0.5 - 0.01 * i for i in range(10))),
    "hundred-arms": Bernoulli(means=(0.6, *[0.5] * 33, *[0.4] * 66)),
    "two-arms": Bernoulli(means=(0.6, 0.4)),
    "ratings": Beta(alphas=(8.0, 6.0, 6.0, 4.0, 2.0), betas=(2.0, 4.0, 4.0, 6.0, 8.0)),
}

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


class Cell(NamedTuple):
    """One environment, one attack and one budget."""

    grid: Grid
    environment: str
    attack: str
    budget: float

    def experiments(self) -> list[Experiment]:
        """One experiment a policy, on the same rewards."""
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
            for policy in self.grid.policies
        ]

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
    progress: bool | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> pl.DataFrame:
    """Play all cells that ``folder`` does not hold yet, and return the figures of all.

    ``report`` is told how many cells are done, of how many. Ctrl-C loses at most one cell.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cells = list(grid.cells())
    for position, cell in enumerate(cells):
        report(position, len(cells))
        target = folder / cell.file_name()
        if not target.exists():
            results = run_experiments(cell.experiments(), workers=workers, progress=progress)
            if results[0].interrupted:
                raise KeyboardInterrupt
            with atomic_path(target) as path:
                cell.frame(results).write_parquet(path)
    report(len(cells), len(cells))
    return load_cells(grid, folder)


def load_cells(grid: Grid, folder: Path) -> pl.DataFrame:
    """The figures of the grid's cells that ``folder`` holds."""
    files = [folder / cell.file_name() for cell in grid.cells()]
    frames = [pl.read_parquet(file) for file in files if file.exists()]
    return pl.concat(frames) if frames else pl.DataFrame()


def relative_regret(figures: pl.DataFrame, measure: str = "pseudo_regret_mean") -> pl.DataFrame:
    """The figures with each policy's regret divided by that of the cell's best policy."""
    cell = ["environment", "attack", "budget"]
    best = pl.col(measure).min().over(cell)
    return figures.with_columns(relative=pl.col(measure) / best.clip(lower_bound=1.0))


def leaderboard(figures: pl.DataFrame) -> pl.DataFrame:
    """Policies by their typical regret relative to the best, without and under attack.

    ``quiet`` and ``attacked`` are geometric means of the relative pseudo-regret over the cells
    without and with attack; ``tail`` is the same of its 95th percentile under attack; ``rank``
    is the mean rank over all cells; ``wins`` counts cells where nobody is better.
    """
    cell = ["environment", "attack", "budget"]
    tails = relative_regret(figures, "pseudo_regret_p95").select(*cell, "policy", tail="relative")
    ranked = (
        relative_regret(figures)
        .join(tails, on=[*cell, "policy"])
        .with_columns(rank=pl.col("pseudo_regret_mean").rank().over(cell))
    )
    quiet = pl.col("budget") == 0
    return (
        ranked.group_by("policy")
        .agg(
            quiet=_geometric_mean(pl.col("relative").filter(quiet)),
            attacked=_geometric_mean(pl.col("relative").filter(~quiet)),
            tail=_geometric_mean(pl.col("tail").filter(~quiet)),
            worst=pl.col("relative").max(),
            rank=pl.col("rank").mean(),
            wins=(pl.col("rank") == 1).sum(),
        )
        .sort("attacked")
    )


def _geometric_mean(values: pl.Expr) -> pl.Expr:
    return values.clip(lower_bound=1.0).log().mean().exp()


def worst_cases(figures: pl.DataFrame) -> pl.DataFrame:
    """For each policy the cell in which it does worst, relative to the best there."""
    columns = ["policy", "environment", "attack", "budget", "pseudo_regret_mean", "relative"]
    return (
        relative_regret(figures)
        .sort("relative", descending=True)
        .unique("policy", keep="first", maintain_order=True)
        .select(columns)
        .sort("relative")
    )
