"""The observation-free attack with its published budgets, and with what UCB1 takes.

``python docs/experiments/observation_free.py`` prints the tables of the page; ``--quick`` plays
fewer replications.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from learners import EpsilonGreedy, Ucb

import armrace
from armrace.adversaries import ObservationFree
from armrace.policies import Policy

HORIZON, MEANS, TARGET = 50_000, (0.9, 0.8), 1
REPLICATIONS, QUICK = 100, 10
UCB_BUDGET, GREEDY_BUDGET = (34, 66), (150, 150)

Learner = Policy | str
LEARNERS: dict[str, Learner] = {
    "`ucb1`": "ucb1",
    "UCB, strength 1": Ucb(strength=1.0),
    "UCB, strength 1/2": Ucb(strength=0.5),
    "`kl-ucb`": "kl-ucb",
    "`moss`": "moss",
    "`thompson`": "thompson",
    "epsilon-greedy, 1/t": EpsilonGreedy(fading=1.0),
    "epsilon-greedy, 1/t, first of equals": EpsilonGreedy(fading=1.0, first=True),
    "epsilon-greedy, 10/t": EpsilonGreedy(fading=10.0),
    "epsilon-greedy, 0.1": EpsilonGreedy(fading=0.0, least=0.1),
    "`tsallis-inf`": "tsallis-inf",
    "`exp3`": "exp3",
    "`active-arm-elimination`": "active-arm-elimination",
    "`multi-layer-race`": "multi-layer-race",
}
SPLITS = [(34, 66), (34, 132), (50, 50), (58, 2), (62, 2), (64, 0), (64, 2), (66, 34), (68, 132)]


def target_plays(learner: Learner, spoil: int, praise: int, runs: int) -> npt.NDArray[np.int64]:
    """How often the target was played, in each replication."""
    result = armrace.simulate(
        learner,
        list(MEANS),
        ObservationFree(target=TARGET, spoil=spoil, praise=praise),
        budget=spoil + praise,
        horizon=HORIZON,
        replications=runs,
        seed=1,
        progress=False,
    )
    return np.asarray(result.final["pulls"].to_numpy()[:, TARGET])


def cells(plays: npt.NDArray[np.int64]) -> Iterable[str]:
    """Mean plays of the target, and in which share of the runs it got more than half of all."""
    return f"{plays.mean():,.0f}", f"{100 * (plays > HORIZON / 2).mean():.0f}%"


def print_published(runs: int) -> None:
    """Everybody under the two published budgets."""
    budgets = (UCB_BUDGET, GREEDY_BUDGET)
    heads = (f"({a}, {b}): plays | fooled" for a, b in budgets)
    print(f"| learner | {' | '.join(heads)} |\n|---|---:|---:|---:|---:|")
    for name, learner in LEARNERS.items():
        row = [cell for b in budgets for cell in cells(target_plays(learner, *b, runs))]
        print(f"| {name} | {' | '.join(row)} |")


def print_needed(runs: int) -> None:
    """What it takes to fool ``ucb1``."""
    print("\n| first stage | second stage | plays of the target | fooled |\n|---:|---:|---:|---:|")
    for spoil, praise in SPLITS:
        row = cells(target_plays("ucb1", spoil, praise, runs))
        print(f"| {spoil} | {praise} | {' | '.join(row)} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer replications")
    runs = QUICK if parser.parse_args().quick else REPLICATIONS
    print_published(runs)
    print_needed(runs)


if __name__ == "__main__":
    main()
