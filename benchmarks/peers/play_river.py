"""river: the loop of its documentation, with rewards drawn beforehand by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import MEANS, Play, Start, report
from river import bandit, proba

GAMMA = 0.01

MAKERS: dict[str, Callable[[int], Any]] = {
    "ucb1": lambda seed: bandit.UCB(delta=1, seed=seed),
    "thompson": lambda seed: bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed),
    "exp3": lambda seed: bandit.Exp3(gamma=GAMMA, seed=seed),
}


def player(make: Callable[[int], Any]) -> Play:
    def play(rounds: int, seed: int) -> int:
        generator = np.random.default_rng(seed)
        rewards = (generator.random((rounds, len(MEANS))) < MEANS).astype(float).tolist()
        policy = make(seed)
        arms = range(len(MEANS))
        best_pulls = 0
        for row in rewards:
            arm = policy.pull(arms)
            policy.update(arm, row[arm])
            best_pulls += arm == 0
        return best_pulls

    return play


def starter(make: Callable[[int], Any]) -> Start:
    def start(arms: int) -> Any:
        policy, choices = make(1), range(arms)
        return lambda: policy.pull(choices), policy.update

    return start


report(
    "river",
    {name: player(make) for name, make in MAKERS.items()},
    {name: starter(make) for name, make in MAKERS.items()},
)
