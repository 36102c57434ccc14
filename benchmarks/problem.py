"""The problem that everybody plays: ten Bernoulli arms, one of them better than the rest."""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import armrace

__all__ = ["ARMS", "BUILD", "EASY", "HARD", "ROOT", "Problem", "Run", "run_armrace"]

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
ARMS = 10


class Problem(NamedTuple):
    """The mean of the best arm, which comes first, and of all others."""

    best: float
    others: float

    @property
    def means(self) -> list[float]:
        """One mean an arm."""
        return [self.best] + [self.others] * (ARMS - 1)


HARD = Problem(0.5, 0.4)
"""The problem that is timed."""
EASY = Problem(0.9, 0.1)
"""Here arms are deleted in many layers within a million rounds."""


class Run(NamedTuple):
    """Some replications of one algorithm: pulls (a row a replication) and time."""

    pulls: npt.NDArray[np.int64]
    seconds: float
    """Seconds of the processor, per replication."""

    def nanoseconds(self, horizon: int) -> float:
        """Time a round."""
        return self.seconds / horizon * 1e9


def run_armrace(
    policy: str,
    problem: Problem,
    horizon: int,
    replications: int,
    seed: int,
    adversary: armrace.Adversary | str = "none",
    budget: float = 0.0,
) -> Run:
    """Some replications with one worker, timed as the user sees them: the whole call."""
    started = time.process_time()
    result = armrace.simulate(
        policy=policy,
        environment=problem.means,
        adversary=adversary,
        budget=budget,
        horizon=horizon,
        replications=replications,
        seed=seed,
        workers=1,
        progress=False,
    )
    seconds = time.process_time() - started
    return Run(result.final["pulls"].to_numpy(), seconds / replications)
