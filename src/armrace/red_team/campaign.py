"""Campaigns: every policy under its own worst attack, in several environments and budgets.

A campaign gives the arena its column *worst found* and the library its winners. Cells are stored
one by one, so that a campaign that was interrupted continues where it stopped. The budgets of a
policy are searched in increasing order, and each search begins with the winners of those before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import msgspec

from armrace.adversaries import ADVERSARIES, Adversary
from armrace.environments import ENVIRONMENTS, Environment
from armrace.files import make_folder, write_text
from armrace.red_team.efforts import find_effort
from armrace.red_team.hunt import hunt
from armrace.red_team.library import Winner, kind_of
from armrace.red_team.target import Target
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.scenarios import told_the_budget

__all__ = ["Campaign", "Cell", "run_campaign", "winners_of"]

Report = Callable[[int, int, str], None]
"""Called with the number of finished cells, of all cells, and words on the current one."""


class Campaign(msgspec.Struct, frozen=True, kw_only=True):
    """The cells of a campaign, and the effort of each."""

    policies: tuple[str | Mapping[str, Any], ...]
    """Names, or plain data with a name and parameters."""
    environments: Mapping[str, Environment]
    budgets: tuple[float, ...]
    horizon: int = 100_000
    effort: str = "usual"
    objective: str = "mean"
    seed: int = 0

    def cells(self) -> Iterator[Cell]:
        """All cells: for each environment and policy, the budgets in increasing order."""
        for name, environment in self.environments.items():
            for policy in self.policies:
                for budget in sorted(self.budgets):
                    target = Target(
                        policy=told_the_budget(policy, budget),
                        environment=environment,
                        budget=budget,
                        horizon=self.horizon,
                        objective=self.objective,  # type: ignore[arg-type]
                    )
                    yield Cell(name, _label(policy), target)


def _label(policy: str | Mapping[str, Any]) -> str:
    """Return the name of a policy with the parameters that were given.

    >>> _label({"name": "optimistic-log-barrier", "optimism": 0.1})
    'optimistic-log-barrier, optimism 0.1'
    """
    if isinstance(policy, str):
        return policy
    given = {name: value for name, value in policy.items() if name != "name"}
    return ", ".join([str(policy["name"]), *(f"{name} {given[name]}" for name in given)])


class Cell(msgspec.Struct, frozen=True):
    """One policy in one environment at one budget."""

    environment: str
    policy: str
    target: Target

    def file(self, folder: Path, effort: str, seed: int) -> Path:
        """The file of the verdict: its name depends on all that the verdict depends on."""
        code = experiment_code(self.target.experiment("none", 1, 0))
        told = msgspec.json.encode([code, self.target.to_builtins(), effort, seed], order="sorted")
        digest = hashlib.sha256(told).hexdigest()[:12]
        name = f"{self.environment}-{self.policy}-{self.target.budget:g}-{digest}.json"
        return folder / name.replace(":", "_").replace(", ", "-").replace(" ", "-")


def run_campaign(
    campaign: Campaign,
    folder: Path,
    executor: Executor | None = None,
    workers: int | None = None,
    report: Report = lambda done, total, words: None,
) -> list[dict[str, Any]]:
    """Search the cells that ``folder`` does not hold yet, and return all verdicts as plain data.

    Args:
        campaign: the cells.
        folder: where each cell has a file; it is made if need be.
        executor: runs the simulations in place of threads.
        workers: how many threads play at once; by default one per core.
        report: called before each cell.
    """
    make_folder(folder)
    cells = list(campaign.cells())
    verdicts: list[dict[str, Any]] = []
    given: dict[tuple[str, str], list[Adversary]] = {}
    for done, cell in enumerate(cells):
        words = f"{cell.policy}, {cell.environment}, C = {cell.target.budget:g}"
        report(done, len(cells), words)
        file = cell.file(folder, campaign.effort, campaign.seed)
        known = given.setdefault((cell.environment, cell.policy), [])
        if not file.exists():
            verdict = hunt(
                cell.target,
                find_effort(campaign.effort),
                campaign.effort,
                campaign.seed,
                given=known,
                executor=executor,
                workers=workers,
                compiling=False,
            )
            found = {
                "environment_name": cell.environment,
                "policy_name": cell.policy,
                **verdict.to_builtins(),
            }
            write_text(file, msgspec.json.encode(found).decode())
        found = msgspec.json.decode(file.read_bytes())
        known.append(ADVERSARIES.make(found["attack"]))
        verdicts.append(found)
    report(len(cells), len(cells), "")
    return verdicts


def winners_of(verdicts: Sequence[Mapping[str, Any]]) -> list[Winner]:
    """Return what the library keeps of verdicts."""
    winners = []
    for found in verdicts:
        target = Target(
            policy=told_the_budget(found["policy"], found["budget"]),
            environment=ENVIRONMENTS.make(found["environment"]),
            budget=found["budget"],
            horizon=found["horizon"],
        )
        winners.append(
            Winner(
                policy=target.policy.tag(),
                kind=kind_of(target.setting()),
                budget=found["budget"],
                horizon=found["horizon"],
                attack=found["attack"],
                mean=round(found["held_out"]["mean"], 1),
                stderr=round(found["held_out"]["stderr"], 1),
            )
        )
    return winners
