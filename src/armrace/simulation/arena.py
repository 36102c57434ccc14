"""The arena: every policy in every environment under every attack, at several budgets.

A *cell* is one environment, one attack and one budget; all policies meet the same rewards in
it. Their results are files in a folder for each environment (:mod:`armrace.simulation.sweeps`), so
that a run that was interrupted or killed continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from armrace.adversaries import (
    ADVERSARIES,
    Adversary,
    ObservationFree,
    Outage,
    ZeroBestWhenLikely,
)
from armrace.environments import Bernoulli, Beta, Environment
from armrace.files import make_folder
from armrace.formatting import figure
from armrace.policies import in_the_arena
from armrace.simulation.experiment import Experiment, make_experiment, refresh_for
from armrace.simulation.results import MEASURES, Result
from armrace.simulation.scenarios import given_the_budget
from armrace.simulation.sweeps import Report, finished_cells, run_sweep

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

_FIXED = (
    "zero-best",
    "zero-best-when-likely",
    "swap-best",
    "aae-opening",
    "adaptive-constant",
    "sleeper-bots",
    "random-flips",
    "click-bots",
    "double-impact",
    "free-ride",
    "spoil-then-swap",
)
"""Attacks with their default parameters."""

_MADE: dict[str, Callable[[float], Adversary]] = {
    "zero-best-when-very-likely": lambda budget: ZeroBestWhenLikely(likely=0.9),
    # Published lengths are 34 rounds that spoil and 66 that praise; here they use up the budget.
    "observation-free": lambda budget: ObservationFree(
        spoil=round(budget / 3), praise=round(budget) - round(budget / 3)
    ),
    "outage": lambda budget: Outage(first=0, length=max(1, round(budget))),
}
"""Attacks whose parameters are not the defaults, or depend on the budget."""

ATTACKS = (*_FIXED, *_MADE)


def make_arena_attack(name: str, budget: float) -> Adversary:
    """Return the attack that has this name in the arena, at this budget."""
    return _MADE[name](budget) if name in _MADE else ADVERSARIES.make(name)


BUDGET_EXPONENTS = (0.5, 0.75)
"""Budgets are these powers of the horizon; a budget of 0 is the cell without attack."""


SHORTEST_JUDGED = 20_000
"""In shorter runs policies still explore, and their order says little about longer ones."""


class Grid(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of an arena, and for how many rounds and replications each is played."""

    horizon: int
    replications: int
    seed: int = 0
    environments: tuple[str, ...] = tuple(ENVIRONMENTS_OF_THE_ARENA)
    attacks: tuple[str, ...] = ATTACKS
    policies: tuple[str, ...] = in_the_arena()

    @property
    def is_smoke_test(self) -> bool:
        """Whether runs are too short to say anything about the policies."""
        return self.horizon < SHORTEST_JUDGED

    def cells(self) -> Iterator[ArenaCell]:
        """Return for each environment a cell without attack, and one for each attack and budget."""
        for environment in self.environments:
            yield ArenaCell(self, environment, "none", 0.0)
            for attack in self.attacks:
                for exponent in BUDGET_EXPONENTS:
                    yield ArenaCell(self, environment, attack, float(round(self.horizon**exponent)))

    def cells_by_environment(self) -> dict[str, list[ArenaCell]]:
        """Return the cells of each environment."""
        cells = list(self.cells())
        return {name: [c for c in cells if c.environment == name] for name in self.environments}


GRIDS: dict[str, Grid] = {
    "quick": Grid(
        horizon=2_000, replications=2, environments=("one-better", "hundred-arms", "two-arms")
    ),
    "usual": Grid(horizon=100_000, replications=10),
    "full": Grid(horizon=1_000_000, replications=5),
}
"""A smoke test of some seconds, the arena as it is usually run, and long runs."""


class ArenaCell(NamedTuple):
    """One environment, one attack and one budget."""

    grid: Grid
    environment: str
    attack: str
    budget: float

    def experiments(self) -> list[Experiment]:
        """One experiment per policy, on the same rewards.

        An attack that looks at a costly distribution, such as Thompson sampling's, sees one that
        is computed now and then; see :func:`armrace.simulation.experiment.refresh_for`.
        """
        attack = make_arena_attack(self.attack, self.budget)
        learners = [given_the_budget(name, self.budget) for name in self.grid.policies]
        return [
            make_experiment(
                policy=policy,
                environment=ENVIRONMENTS_OF_THE_ARENA[self.environment],
                adversary=attack,
                budget=self.budget,
                horizon=self.grid.horizon,
                replications=self.grid.replications,
                seed=self.grid.seed,
                refresh=refresh_for(policy, attack),
            )
            for policy in learners
        ]

    def frame(self, results: Sequence[Result]) -> pl.DataFrame:
        """One row per policy: the summaries of all measures."""
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
    report: Report = lambda done, total: None,
    executor: Executor | None = None,
) -> pl.DataFrame:
    """Play the cells that ``folder`` does not hold yet, and return the figures of all cells."""
    make_folder(folder)
    cells, done = grid.cells_by_environment(), 0
    total, frames = sum(map(len, cells.values())), []
    for name, own in cells.items():

        def report_all(some: float, _: int, done: int = done) -> None:
            report(done + some, total)

        experiments = [cell.experiments() for cell in own]
        found = run_sweep(experiments, folder / name, executor, workers, report_all, curves=False)
        frames.append(_frame(own, found))
        done += len(own)
    return pl.concat(frames)


def load_cells(grid: Grid, folder: Path) -> pl.DataFrame:
    """Return the figures of the grid's cells that ``folder`` holds, without playing any."""
    frames = []
    for name, cells in grid.cells_by_environment().items():
        experiments = [cell.experiments() for cell in cells]
        found = finished_cells(experiments, folder / name, curves=False)
        frames += [cell.frame(own) for cell, own in zip(cells, found, strict=True) if own]
    return pl.concat(frames) if frames else pl.DataFrame()


def _frame(cells: Sequence[ArenaCell], results: Sequence[Sequence[Result]]) -> pl.DataFrame:
    return pl.concat(cell.frame(found) for cell, found in zip(cells, results, strict=True))


CELL = ("environment", "attack", "budget")
"""The columns that identify a cell."""


def relative_regret(figures: pl.DataFrame, measure: str = "pseudo_regret_mean") -> pl.DataFrame:
    """Divide each policy's regret by that of the best policy of the cell.

    A best regret below 1 counts as 1, so that a regret of 0 by chance does not make all others
    infinite.
    """
    best = pl.col(measure).min().over(CELL)
    return figures.with_columns(relative=pl.col(measure) / best.clip(lower_bound=1.0))


def leaderboard(figures: pl.DataFrame) -> pl.DataFrame:
    """Policies by their typical regret relative to the best, without and under attack.

    ``quiet`` and ``attacked`` are geometric means of the relative pseudo-regret over the cells
    without and with attack; ``tail`` is the same of its 95th percentile under attack; ``worst``
    is the largest of all; ``rank`` is the mean rank over the cells; ``wins`` counts cells where
    no policy is better. Policies that are missing from some ``cells`` come last, since their
    means are over fewer cells.
    """
    tails = relative_regret(figures, "pseudo_regret_p95").select(*CELL, "policy", tail="relative")
    regret = pl.col("pseudo_regret_mean")
    ranked = (
        relative_regret(figures)
        .join(tails, on=[*CELL, "policy"])
        .with_columns(rank=regret.rank().over(CELL), first=regret == regret.min().over(CELL))
    )
    quiet = pl.col("budget") == 0
    return (
        ranked.group_by("policy")
        .agg(
            attacked=_geometric_mean(pl.col("relative").filter(~quiet)),
            quiet=_geometric_mean(pl.col("relative").filter(quiet)),
            tail=_geometric_mean(pl.col("tail").filter(~quiet)),
            worst=pl.col("relative").max(),
            rank=pl.col("rank").mean(),
            wins=pl.col("first").sum(),
            cells=pl.len(),
        )
        .sort(pl.col("cells") < pl.col("cells").max(), "attacked", "policy")
    )


def _geometric_mean(values: pl.Expr) -> pl.Expr:
    return values.clip(lower_bound=1.0).log().mean().exp()


def worst_cases(figures: pl.DataFrame) -> pl.DataFrame:
    """Return for each policy the cell with the largest regret relative to the best policy there."""
    best = pl.col("policy").sort_by("pseudo_regret_mean").first().over(CELL)
    columns = ["policy", *CELL, "pseudo_regret_mean", "relative", "best"]
    return (
        relative_regret(figures)
        .with_columns(best=best)
        .sort("relative", "policy", descending=[True, False])
        .unique("policy", keep="first", maintain_order=True)
        .select(columns)
        .sort("relative", "policy")
    )


def verdict(board: pl.DataFrame, *, smoke_test: bool = False) -> str:
    """Name the leaders among the policies that played every cell; nothing for a smoke test."""
    if smoke_test:
        return (
            f"This is a smoke test: {max(board['cells'].to_list())} cells were played, with too "
            "few rounds to rank the policies."
        )
    complete = board.filter(pl.col("cells") == pl.col("cells").max())
    attacked, quiet, tail = (_first(complete, name) for name in ("attacked", "quiet", "tail"))
    words = (
        f"Under attack {attacked['policy']} leads: its pseudo-regret is typically "
        f"{figure(attacked['attacked'])} times that of the best policy of the cell, and "
        f"{figure(attacked['worst'])} times at worst. Without attack {quiet['policy']} leads, with "
        f"{figure(quiet['quiet'])} times."
    )
    if tail["policy"] != attacked["policy"]:
        words += f" By the 95th percentile under attack, {tail['policy']} leads."
    absent = board.filter(pl.col("cells") < pl.col("cells").max())["policy"].to_list()
    if absent:
        words += f" Not judged, since some of their cells are missing: {', '.join(absent)}."
    return words


def _first(board: pl.DataFrame, column: str) -> dict[str, Any]:
    return board.sort(column).row(0, named=True)
