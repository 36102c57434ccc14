"""MABWiser: predict and partial_fit in turns; it has no simulator for arms that are played."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import MEANS, Play, Start, report
from mabwiser.mab import MAB, LearningPolicy

MAKERS: dict[str, Callable[[], Any]] = {
    "ucb1": lambda: LearningPolicy.UCB1(alpha=1),
    "thompson": LearningPolicy.ThompsonSampling,
}


def player(make: Callable[[], Any]) -> Play:
    def play(rounds: int, seed: int) -> int:
        arms = list(range(len(MEANS)))
        generator = np.random.default_rng(seed)
        rewards = (generator.random((rounds, len(MEANS))) < MEANS).astype(float)
        policy = MAB(arms=arms, learning_policy=make(), seed=seed)
        policy.fit(decisions=arms, rewards=[rewards[arm, arm] for arm in arms])
        best_pulls = 1
        for row in rewards[len(arms) :]:
            arm = policy.predict()
            policy.partial_fit(decisions=[arm], rewards=[row[arm]])
            best_pulls += arm == 0
        return best_pulls

    return play


def starter(make: Callable[[], Any]) -> Start:
    def start(arms: int) -> Any:
        policy = MAB(arms=list(range(arms)), learning_policy=make(), seed=1)
        policy.fit(decisions=list(range(arms)), rewards=[arm % 2 for arm in range(arms)])
        return (
            policy.predict,
            lambda arm, reward: policy.partial_fit(decisions=[arm], rewards=[reward]),
        )

    return start


report(
    "mabwiser",
    {name: player(make) for name, make in MAKERS.items()},
    {name: starter(make) for name, make in MAKERS.items()},
)
