"""Play frozen attacks again, for the tails in ``docs/arena.md``.

A search confirms its winner with 60 replications, which are few for a 95th percentile.
``python docs/tails.py FOLDER``, after ``docs/grid.py``, plays the winning attacks on the
recommended policy with 1,000 replications on seeds that took no part in any search, and prints the
95th percentile relative to the mean, with a 95% interval by the bootstrap. It does the same for
quiet replications, 200 or, where they take long, 40. What ``FOLDER/tails`` holds is not played
again; ``--print`` only prints.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from grid import verdicts

import armrace
from armrace.files import make_folder, write_text
from armrace.formatting import count, figure
from armrace.simulation.arena import ENVIRONMENTS_OF_THE_ARENA

Floats = npt.NDArray[np.float64]

ATTACKED_RUNS, QUIET_RUNS, FEW_RUNS = 1_000, 200, 40
SEED = 1_000_003
RESAMPLES = 2_000
ATTACKED = ("optimistic-log-barrier", "optimistic-log-barrier, optimism 1.0")
QUIET = ("optimistic-log-barrier", "thompson")
HORIZON = 100_000
COSTLY = {"ratings", "hundred-arms"}
"""Environments in which a round takes long: fewer quiet runs there, and no attacked ones."""


class Runs(NamedTuple):
    """A policy in an environment under one attack, or under none."""

    environment: str
    policy: str
    budget: float
    setup: dict[str, Any]

    @property
    def replications(self) -> int:
        """How many there are."""
        if self.budget:
            return ATTACKED_RUNS
        return FEW_RUNS if self.environment in COSTLY else QUIET_RUNS

    def file(self, folder: Path) -> Path:
        """Where the regrets are kept: the name depends on all that they depend on."""
        told = msgspec.json.encode([self.setup, self.replications, SEED], order="sorted")
        name = f"{self.environment}-{self.policy}-{self.budget:g}"
        return folder / f"{name}-{hashlib.sha256(told).hexdigest()[:12]}.json".replace(", ", "-")

    def regrets(self, folder: Path, play: bool) -> Floats | None:
        """The pseudo-regret of every replication; None if they are neither kept nor played."""
        file = self.file(folder)
        if not file.exists():
            if not play:
                return None
            print(f"{self.policy}, {self.environment}, C = {self.budget:g}", file=sys.stderr)
            played = armrace.simulate(
                **self.setup, replications=self.replications, seed=SEED, workers=1, progress=False
            )
            write_text(file, msgspec.json.encode(played.sample("pseudo_regret").tolist()).decode())
        return np.array(msgspec.json.decode(file.read_bytes()))


def attacked(folder: Path) -> list[Runs]:
    """The winning attacks on the policies of ``ATTACKED``, by environment and budget."""
    found = [
        Runs(
            verdict["environment_name"],
            verdict["policy_name"],
            verdict["budget"],
            {
                "policy": verdict["policy"],
                "environment": verdict["environment"],
                "adversary": verdict["attack"],
                "budget": verdict["budget"],
                "horizon": verdict["horizon"],
            },
        )
        for verdict in verdicts(folder).values()
        if verdict["policy_name"] in ATTACKED
        and verdict["horizon"] == HORIZON
        and verdict["environment_name"] not in COSTLY
    ]
    return sorted(
        found, key=lambda runs: (ATTACKED.index(runs.policy), runs.environment, runs.budget)
    )


def quiet() -> list[Runs]:
    """The policies of ``QUIET`` without an attack."""
    return [
        Runs(
            name,
            policy,
            0.0,
            {
                "policy": {"name": policy},
                "environment": environment.to_builtins(),
                "horizon": HORIZON,
            },
        )
        for policy in QUIET
        for name, environment in ENVIRONMENTS_OF_THE_ARENA.items()
    ]


def ratio_interval(sample: Floats) -> tuple[float, float, float]:
    """The 95th percentile relative to the mean, and a 95% interval by the bootstrap."""
    draws = np.random.default_rng(SEED).integers(sample.size, size=(RESAMPLES, sample.size))
    resampled = sample[draws]
    ratios = np.quantile(resampled, 0.95, axis=1) / resampled.mean(axis=1)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return float(np.quantile(sample, 0.95) / sample.mean()), float(low), float(high)


def main(folder: Path, play: bool) -> None:
    """Play what is missing and print a table."""
    place = folder / "tails"
    make_folder(place)
    print("| environment | policy | C | mean | 95th percentile | their ratio | largest |")
    print("|---|---|---|---|---|---|---|")
    for runs in [*attacked(folder), *quiet()]:
        sample = runs.regrets(place, play)
        if sample is None:
            continue
        ratio, low, high = ratio_interval(sample)
        figures = [figure(sample.mean()), figure(float(np.quantile(sample, 0.95)))]
        texts = [*figures, f"{ratio:.2f} ({low:.2f} to {high:.2f})", figure(sample.max())]
        row = [runs.environment, f"`{runs.policy}`", count(runs.budget), *texts]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), "--print" not in sys.argv[2:])
