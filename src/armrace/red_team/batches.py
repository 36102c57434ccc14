"""Many searches in a folder, and the standings of policies under them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from armrace.adversaries import ADVERSARIES, Adversary
from armrace.environments import ENVIRONMENTS, Environment
from armrace.files import locked, make_folder, write_text
from armrace.formatting import count, figure
from armrace.red_team.library import Winner, kind_of
from armrace.red_team.search import search
from armrace.red_team.target import Target, find_budget
from armrace.simulation.code_digest import experiment_code, search_code
from armrace.simulation.scenarios import given_the_budget

WORST_CELL = ("environment", "budget")
"""The columns that identify a cell: every policy has its own attack there."""

WORST_COLUMNS = {
    "mean": "worst found, mean",
    "tail": "worst found, p95",
    "per_budget": "most per unit of budget",
    "mostly_lost": "cells mostly lost",
    "cells": "cells searched",
}
"""The columns of the standings, and their headings."""

_HELD_OUT = ("mean", "stderr", "low", "high", "p95")


def worst_frame(verdicts: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Return one row for each verdict of a batch."""
    return pl.DataFrame(
        [
            {
                "environment": found["environment_name"],
                "budget": float(found["budget"]),
                "policy": found["policy_name"],
                "attack": found["attack"]["name"],
                **{name: float(found["held_out"][name]) for name in _HELD_OUT},
                "largest": float(found["held_out"]["max"]),
                "replications": found["held_out"]["replications"],
                "all_lost": float(found["all_lost"]),
                "builtin": found["best_builtin"]["attack"]["name"],
                "builtin_mean": float(found["best_builtin"]["held_out"]["mean"]),
                "description": found["description"],
            }
            for found in verdicts
        ]
    )


def worst_standings(frame: pl.DataFrame) -> pl.DataFrame:
    """Return one row per policy, those first that lose least under their own worst attack.

    ``mean`` and ``tail`` are geometric means over the cells of the mean and of the 95th
    percentile, each divided by the least of any policy there; ``per_budget`` is the largest
    mean in units of the budget; ``mostly_lost`` counts the cells in which, on average, more
    than half of all that could be lost was lost, and more than three times the budget. Policies
    that are missing from some cells come last.
    """
    return (
        frame.with_columns(
            mean_ratio=pl.col("mean") / pl.col("mean").min().over(WORST_CELL),
            tail_ratio=pl.col("p95") / pl.col("p95").min().over(WORST_CELL),
        )
        .group_by("policy")
        .agg(
            mean=pl.col("mean_ratio").log().mean().exp(),
            tail=pl.col("tail_ratio").log().mean().exp(),
            per_budget=(pl.col("mean") / pl.col("budget")).max(),
            mostly_lost=_is_mostly_lost().sum(),
            cells=pl.len(),
        )
        .sort(pl.col("cells") < pl.col("cells").max(), "mean", "policy")
    )


def _is_mostly_lost() -> pl.Expr:
    # With a budget that is large next to all there is to lose, every policy loses most of it.
    by_little = pl.col("mean") > 3 * pl.col("budget")
    return (pl.col("mean") > pl.col("all_lost") / 2) & by_little


def worst_verdict(board: pl.DataFrame) -> str:
    """Name the leader, and the policies that lose nearly all somewhere."""
    first = board.row(0, named=True)
    words = (
        f"Each under its own worst attack found, {first['policy']} loses least: typically "
        f"{figure(first['mean'])} times the least of any policy in a cell."
    )
    lost = board.filter(pl.col("mostly_lost") > 0)["policy"].to_list()
    if lost:
        words += (
            " These lose more than half of all there is in at least one cell, with a small budget: "
            f"{', '.join(lost)}."
        )
    return f"{words} These are lower bounds on the worst case."


CellKey = tuple[str, str, float, int]
"""What identifies a cell: environment, policy, budget and horizon."""

Report = Callable[[int, int, str], None]
"""Called with the number of finished cells, of all cells, and words on the current one."""

_SECONDS_BETWEEN_LOOKS = 2.0


class SearchBatch(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of a batch, and the effort of each."""

    policies: tuple[str | Mapping[str, Any], ...]
    """Names, or plain data with a name and parameters."""
    environments: Mapping[str, Environment]
    budgets: tuple[float, ...]
    horizon: int = 100_000
    effort: str = "usual"
    objective: str = "mean"
    seed: int = 0

    def series(self) -> Iterator[SearchSeries]:
        """The series of cells: one for each environment and policy."""
        for name, environment in self.environments.items():
            for policy in self.policies:
                cells = []
                for budget in sorted(self.budgets):
                    target = Target(
                        policy=given_the_budget(policy, budget),
                        environment=environment,
                        budget=budget,
                        horizon=self.horizon,
                        objective=self.objective,  # type: ignore[arg-type]
                    )
                    cells.append(SearchCell(name, _label(policy), target))
                yield SearchSeries(self, tuple(cells))


def _label(policy: str | Mapping[str, Any]) -> str:
    """Return the name of a policy with the parameters that were given.

    >>> _label({"name": "optimistic-log-barrier", "optimism": 0.1})
    'optimistic-log-barrier, optimism 0.1'
    """
    if isinstance(policy, str):
        return policy
    given = {name: value for name, value in policy.items() if name != "name"}
    return ", ".join([str(policy["name"]), *(f"{name} {given[name]}" for name in given)])


class SearchCell(msgspec.Struct, frozen=True):
    """One policy in one environment at one budget."""

    environment: str
    policy: str
    target: Target

    def file(self, folder: Path, batch: SearchBatch, given: Sequence[Adversary]) -> Path:
        """The file of the verdict: its name depends on all that the verdict depends on."""
        tried = [attack.to_builtins() for attack in given]
        digest = search_digest(self.target, batch.effort, batch.seed, tried)
        return folder / _file_name(f"{self}-{digest}.json")

    @property
    def key(self) -> CellKey:
        """What identifies the cell among verdicts."""
        return self.environment, self.policy, self.target.budget, self.target.horizon

    def __str__(self) -> str:
        return f"{self.environment}-{self.policy}-{self.target.budget:g}"


def search_digest(target: Target, *given: Any) -> str:
    """Return a digest of a target, of all code that a search of it runs, and of ``given``."""
    code = experiment_code(target.experiment("none", 1, 0)), search_code()
    written = msgspec.json.encode([*code, target.to_builtins(), *given], order="sorted")
    return hashlib.sha256(written).hexdigest()[:12]


def _file_name(text: str) -> str:
    return text.replace(":", "_").replace(", ", "-").replace(" ", "-")


class SearchSeries(msgspec.Struct, frozen=True):
    """One policy in one environment: its cells in the order of their budgets."""

    batch: SearchBatch
    cells: tuple[SearchCell, ...]

    def lock(self, folder: Path) -> Path:
        """Return the lock file of this series."""
        cell = self.cells[0]
        name = f"{cell.environment}-{cell.policy}-{self.batch.horizon}.lock"
        return folder / _file_name(name)


def run_batch(
    batch: SearchBatch,
    folder: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Report = lambda done, total, words: None,
) -> list[dict[str, Any]]:
    """Search the cells that ``folder`` does not hold yet, and return all verdicts as plain data."""
    every = list(batch.series())
    total = sum(len(series.cells) for series in every)
    found: dict[int, list[dict[str, Any]]] = {}
    while waiting := [place for place in range(len(every)) if place not in found]:
        for place in waiting:
            done = sum(map(len, found.values()))

            def report_all(some: int, words: str, done: int = done) -> None:
                report(done + some, total, words)

            verdicts = run_series(every[place], folder, executor, workers, report_all)
            if verdicts is not None:
                found[place] = verdicts
        if set(waiting).isdisjoint(found):  # other processes search all that is left
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    report(total, total, "")
    return [verdict for place in sorted(found) for verdict in found[place]]


def run_series(
    series: SearchSeries,
    folder: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Callable[[int, str], None] = lambda done, words: None,
) -> list[dict[str, Any]] | None:
    """Search the cells of a series that ``folder`` does not hold yet."""
    make_folder(folder)
    with locked([series.lock(folder)]) as (ours,):
        if not ours:
            return None
        batch, verdicts = series.batch, list[dict[str, Any]]()
        given: list[Adversary] = []
        for done, cell in enumerate(series.cells):
            report(done, f"{cell.policy}, {cell.environment}, C = {count(cell.target.budget)}")
            # The winners so far are part of the name: another attack at a smaller budget may lead
            # to another one here.
            file = cell.file(folder, batch, given)
            if not file.exists():
                found = search(
                    cell.target,
                    find_budget(batch.effort),
                    batch.effort,
                    batch.seed,
                    given=given,
                    executor=executor,
                    workers=workers,
                    compiling=False,
                )
                names = {"environment_name": cell.environment, "policy_name": cell.policy}
                write_text(file, msgspec.json.encode({**names, **found.to_builtins()}).decode())
            # Read back even if just written: a verdict is the same whether it was found now or
            # before.
            verdicts.append(msgspec.json.decode(file.read_bytes()))
            given.append(ADVERSARIES.make(verdicts[-1]["attack"]))
        return verdicts


def newest_verdicts(files: Iterable[Path]) -> dict[CellKey, dict[str, Any]]:
    """Read verdicts; of those of the same cell, which other code has found, the newest counts."""
    found = {}
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns):
        verdict = msgspec.json.decode(file.read_bytes())
        names = verdict["environment_name"], verdict["policy_name"]
        found[*names, float(verdict["budget"]), verdict["horizon"]] = verdict
    return found


def winners_of(verdicts: Sequence[Mapping[str, Any]]) -> list[Winner]:
    """Return what the library keeps of verdicts."""
    winners = []
    for found in verdicts:
        target = Target(
            policy=given_the_budget(found["policy"], found["budget"]),
            environment=ENVIRONMENTS.make(found["environment"]),
            budget=found["budget"],
            horizon=found["horizon"],
        )
        winners.append(
            Winner(
                policy=target.policy.tag(),
                kind=kind_of(target.setting()),
                environment=found["environment_name"],
                budget=found["budget"],
                horizon=found["horizon"],
                attack=found["attack"],
                mean=round(found["held_out"]["mean"], 1),
                stderr=round(found["held_out"]["stderr"], 1),
                replications=found["held_out"]["replications"],
            )
        )
    return winners
