"""mabby: its Simulation, recording rewards only."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from common import MEANS, Play, Start, report
from mabby import BernoulliArm, Metric, Simulation
from mabby.bandit import Bandit
from mabby.strategies import BetaTSStrategy, UCB1Strategy

MAKERS: dict[str, Callable[[], Any]] = {
    "ucb1": lambda: UCB1Strategy(alpha=math.sqrt(2)),
    "thompson": BetaTSStrategy,
}


def player(make: Callable[[], Any]) -> Play:
    def play(rounds: int, seed: int) -> int:
        bandit = Bandit([BernoulliArm(p=mean) for mean in MEANS], seed=seed)
        simulation = Simulation(bandit, strategies=[make()], seed=seed)
        simulation.run(trials=1, steps=rounds, metrics=[Metric.REWARDS])
        return int(next(iter(simulation.agents)).Ns[0])

    return play


def starter(make: Callable[[], Any]) -> Start:
    def start(arms: int) -> Any:
        strategy, generator = make(), np.random.default_rng(1)
        strategy.prime(arms, 10**6)
        return (
            lambda: strategy.choose(generator),
            lambda arm, reward: strategy.update(arm, reward, generator),
        )

    return start


report(
    "mabby",
    {name: player(make) for name, make in MAKERS.items()},
    {name: starter(make) for name, make in MAKERS.items()},
)
