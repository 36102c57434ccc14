"""Judge the policies on a locked set: environments and attacks that took no part in any choice.

``python docs/locked.py FOLDER`` searches the worst attack on each policy in each cell, on one core,
and prints the tables of ``docs/arena.md``. A search starts from the built-in attacks, the shipped
winners of other searches and members of the second family (``docs/locked_attacks.py``), and varies
the best of them. Each cell is one file, and what is in the folder is not searched again.
``--leaders`` searches the leaders alone, and ``--print`` only prints.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import locked_attacks
import msgspec
import numpy as np
import polars as pl
from arena import print_cells
from locked_attacks import BlindRhythmic, Rhythmic, hand_made

import armrace
from armrace.environments import Bernoulli, Beta, Environment, FiniteSupport
from armrace.files import make_folder, write_text
from armrace.policies import POLICIES
from armrace.red_team.batches import WORST_CELL, newest_verdicts, search_digest, worst_frame
from armrace.red_team.search import search
from armrace.red_team.target import SearchBudget, Target

HORIZON = 50_000
BUDGETS = (50.0, 500.0)
SEED = 2026
QUIET_RUNS = 24
EFFORT = SearchBudget(
    rungs=((96, 1), (24, 2), (10, 4)),
    parents=3,
    children=5,
    generations=2,
    replications=4,
    finalists=3,
    selecting=16,
    confirming=60,
)

ENVIRONMENTS: dict[str, Environment] = {
    "three arms": Bernoulli(means=(0.55, 0.5, 0.7)),
    "thirty arms": Bernoulli(
        means=(*np.linspace(0.1, 0.3, 15).round(3), 0.36, *np.linspace(0.3, 0.1, 14).round(3))
    ),
    "stars": FiniteSupport(
        values=(0.0, 0.25, 0.5, 0.75, 1.0),
        probabilities=(
            (0.1, 0.2, 0.3, 0.25, 0.15),
            (0.25, 0.2, 0.2, 0.2, 0.15),
            (0.1, 0.1, 0.2, 0.3, 0.3),
            (0.05, 0.25, 0.4, 0.25, 0.05),
            (0.3, 0.3, 0.2, 0.1, 0.1),
            (0.15, 0.15, 0.3, 0.2, 0.2),
        ),
    ),
    "shares of time": Beta(alphas=(0.5, 2.0, 0.9, 0.3), betas=(0.5, 3.0, 0.6, 0.9)),
    "two hundred arms": Bernoulli(means=(*[0.3] * 120, 0.7, *[0.55] * 50, *[0.3] * 29)),
}

LEADERS: tuple[str | dict[str, Any], ...] = (
    "optimistic-log-barrier",
    {"name": "optimistic-log-barrier", "optimism": 0.1},
    {"name": "optimistic-log-barrier", "optimism": 1.0},
    "tsallis-inf",
    "lb-inf",
)
OTHERS = ("sharp-race", "ucb1", "exp3", "lb-inf-v", "thompson")
COSTLY = {"shares of time", "two hundred arms"}
"""Environments in which a round takes so long that only the larger budget is tried."""
SLOW = {"lb-inf-v", "thompson"}
"""A round of these takes several microseconds where arms are many, so they sit that out."""
MANY_ARMS = {"thirty arms", "two hundred arms"}


class Cell(NamedTuple):
    """One policy in one environment at one budget."""

    environment: str
    policy: str
    target: Target

    def file(self, folder: Path) -> Path:
        """Where the verdict is kept: the name depends on all that the verdict depends on."""
        family = Path(locked_attacks.__file__).read_text(encoding="utf-8")
        digest = search_digest(self.target, msgspec.to_builtins(EFFORT), SEED, family)
        name = f"{self.environment}-{self.policy}-{self.target.budget:g}-{digest}.json"
        return folder / name.replace(", ", "-").replace(" ", "-")

    def search(self) -> dict[str, Any]:
        """Search, select and confirm."""
        families: list[type[Rhythmic]] = [BlindRhythmic]
        if self.target.policy.exact_tickets:
            families = [Rhythmic]
        given = hand_made(families[0])
        verdict = search(
            self.target, EFFORT, "locked", SEED, families=families, given=given, workers=1
        )
        names = {"environment_name": self.environment, "policy_name": self.policy}
        return {**names, **verdict.to_builtins()}


def cells() -> Iterator[Cell]:
    """All cells, the cheapest environments first."""
    for name, environment in ENVIRONMENTS.items():
        for description in (*LEADERS, *OTHERS):
            if name in MANY_ARMS and label(description) in SLOW:
                continue
            policy = POLICIES.make(description)
            for budget in BUDGETS[-1:] if name in COSTLY else BUDGETS:
                target = Target(
                    policy=policy, environment=environment, budget=budget, horizon=HORIZON
                )
                yield Cell(name, label(description), target)


def label(description: str | dict[str, Any]) -> str:
    """The policy's name, with its optimism if that is not the default."""
    if isinstance(description, str):
        return description
    return f"{description['name']}, optimism {description['optimism']:g}"


def play(folder: Path, only_leaders: bool) -> None:
    """Search the cells that the folder does not hold."""
    make_folder(folder)
    leaders = {label(description) for description in LEADERS}
    everything = [cell for cell in cells() if not only_leaders or cell.policy in leaders]
    for done, cell in enumerate(everything):
        file = cell.file(folder)
        spent = time.process_time()
        print(
            f"{done} of {len(everything)}, {spent:,.0f} s: {cell.policy}, {cell.environment}, "
            f"C = {cell.target.budget:g}",
            file=sys.stderr,
            flush=True,
        )
        if not file.exists():
            write_text(file, msgspec.json.encode(cell.search()).decode())
    quiet = folder / "quiet.parquet"
    if not quiet.exists() and not only_leaders:
        quiet_regrets().write_parquet(quiet)


def quiet_regrets() -> pl.DataFrame:
    """The mean pseudo-regret of each policy in each environment without an attack."""
    rows = [
        {
            "environment": name,
            "policy": label(description),
            "mean": armrace.simulate(
                POLICIES.make(description),
                environment,
                horizon=HORIZON,
                replications=QUIET_RUNS,
                seed=SEED,
                workers=1,
                progress=False,
            )
            .figure("pseudo_regret")
            .mean,
        }
        for name, environment in ENVIRONMENTS.items()
        for description in (*LEADERS, *OTHERS)
    ]
    return pl.DataFrame(rows)


def report(folder: Path) -> None:
    """Print the tables."""
    found = newest_verdicts(folder.glob("*.json"))
    keys = [(c.environment, c.policy, c.target.budget, c.target.horizon) for c in cells()]
    verdicts = [found[key] for key in keys if key in found]
    frame = worst_frame(verdicts)
    own = sum(found["attack"]["name"].endswith("Rhythmic") for found in verdicts)
    print(f"{len(verdicts)} cells; in {own} the worst attack is of the second family.\n")
    few = frame.filter(~pl.col("environment").is_in(MANY_ARMS))
    for part in (few, frame.filter(~pl.col("policy").is_in(SLOW))):
        print_cells(part, part.select(*WORST_CELL).unique(maintain_order=True).rows())
        print()
    if not (folder / "quiet.parquet").exists():
        return
    quiet = pl.read_parquet(folder / "quiet.parquet")
    reference = quiet.filter(pl.col("policy") == "thompson").select("environment", least="mean")
    ratios = (
        quiet.join(reference, on="environment")
        .group_by("policy")
        .agg(ratio=(pl.col("mean") / pl.col("least")).log().mean().exp())
        .sort("ratio")
    )
    print("Quiet regret relative to Thompson sampling's:")
    for policy, ratio in ratios.rows():
        print(f"- `{policy}` {ratio:.2f}")


if __name__ == "__main__":
    place = Path(sys.argv[1])
    if "--print" not in sys.argv[2:]:
        play(place, "--leaders" in sys.argv[2:])
    report(place)
