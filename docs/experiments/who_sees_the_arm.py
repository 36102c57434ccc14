"""What it costs to mislead a race for a forger who sees the arm, and for one within the model.

``python docs/experiments/who_sees_the_arm.py`` prints the table of the guide to the model;
``--quick`` plays shorter runs with a smaller budget, once.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable
from typing import NamedTuple

from armrace.learner import Learner

MEANS = (0.9, 0.8)
BEST, WORSE = 0, 1
BUDGET, QUICK_BUDGET = 2000, 500
HORIZON, QUICK_HORIZON = 1_000_000, 50_000
SEEDS, QUICK_SEEDS = (1, 2, 3), (1,)
POLICIES = ("multi-layer-race", "sharp-race")

Answers = tuple[float, float]
Commit = Callable[[Learner, Answers], Answers]


class Run(NamedTuple):
    """The share of rounds on the worse arm, and what the forger spent."""

    misled: float
    spent: float


def play_committed(policy: str, commit: Commit, budget: float, horizon: int, seed: int) -> Run:
    """A forger within the model: it answers for both arms, then one of them is drawn.

    A round costs the largest of its changes, whether or not that arm is shown.
    """
    learner, coins = start(policy, horizon, seed)
    spent, misled = 0.0, 0
    for _ in range(horizon):
        honest = draw(coins)
        answers = commit(learner, honest) if spent < budget else honest
        spent += max(abs(new - old) for new, old in zip(answers, honest, strict=True))
        decision = learner.decide()
        misled += decision.arm == WORSE
        learner.learn(decision, answers[decision.ticket.arm])
    return Run(misled / horizon, spent)


def play_seeing(policy: str, budget: float, horizon: int, seed: int) -> Run:
    """A forger outside the model: whenever the best arm is shown, its reward becomes 0.

    Once fast layers have deleted the best arm, only slow layers show it, so that every forged
    reward is learned by a slow layer.
    """
    learner, coins = start(policy, horizon, seed)
    spent, misled = 0.0, 0
    for _ in range(horizon):
        honest = draw(coins)
        decision = learner.decide()
        reward = honest[decision.ticket.arm]
        if decision.arm == BEST and spent < budget:
            spent += reward
            reward = 0.0
        misled += decision.arm == WORSE
        learner.learn(decision, reward)
    return Run(misled / horizon, spent)


def start(policy: str, horizon: int, seed: int) -> tuple[Learner, random.Random]:
    """A learner before its first decision, and the coins of the honest rewards."""
    learner = Learner(policy, arms=2, horizon=horizon, seed=seed, watch=False, log=False)
    return learner, random.Random(seed)


def draw(coins: random.Random) -> Answers:
    """Honest rewards of both arms."""
    return float(coins.random() < MEANS[BEST]), float(coins.random() < MEANS[WORSE])


def zero_best(_: Learner, honest: Answers) -> Answers:
    """The best arm pays nothing."""
    return 0.0, honest[WORSE]


def zero_best_when_rare(learner: Learner, honest: Answers) -> Answers:
    """The best arm pays nothing in rounds in which it is drawn with probability below 1/2."""
    rare = 0.0 < learner.distribution()[BEST] < 0.5
    return (0.0 if rare else honest[BEST]), honest[WORSE]


def zero_best_when_likely(learner: Learner, honest: Answers) -> Answers:
    """The best arm pays nothing in rounds in which it is drawn with probability 1/2 or more."""
    likely = learner.distribution()[BEST] >= 0.5
    return (0.0 if likely else honest[BEST]), honest[WORSE]


def swap(_: Learner, __: Answers) -> Answers:
    """The best arm pays nothing, the worse arm 1."""
    return 0.0, 1.0


FORGERS: dict[str, Commit] = {
    "commits: best arm 0": zero_best,
    "commits: best arm 0 where likely": zero_best_when_likely,
    "commits: best arm 0 where rare": zero_best_when_rare,
    "commits: best arm 0, worse arm 1": swap,
}


def print_table(budget: float, horizon: int, seeds: tuple[int, ...]) -> None:
    """A row for each policy and forger, a mean over the seeds."""
    print(f"Share of {horizon:,} rounds on the worse arm, and what the forger spent:\n")
    print("| policy, forger | on the worse arm | spent |\n|---|---:|---:|")
    for policy in POLICIES:
        seeing = [play_seeing(policy, budget, horizon, seed) for seed in seeds]
        print_row(policy, "sees the arm: best arm 0", seeing)
        for name, commit in FORGERS.items():
            committed = [play_committed(policy, commit, budget, horizon, seed) for seed in seeds]
            print_row(policy, name, committed)


def print_row(policy: str, forger: str, runs: list[Run]) -> None:
    """Means over the runs."""
    misled, spent = (sum(column) / len(runs) for column in zip(*runs, strict=True))
    print(f"| `{policy}`, {forger} | {100 * misled:.1f}% | {spent:,.0f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs")
    quick = parser.parse_args().quick
    full = (BUDGET, HORIZON, SEEDS)
    print_table(*((QUICK_BUDGET, QUICK_HORIZON, QUICK_SEEDS) if quick else full))


if __name__ == "__main__":
    main()
