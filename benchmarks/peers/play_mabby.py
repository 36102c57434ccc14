"""mabby: its Simulation, recording rewards only."""

from __future__ import annotations

import math

from common import MEANS, report
from mabby import BernoulliArm, Metric, Simulation
from mabby.bandit import Bandit
from mabby.strategies import UCB1Strategy


def play(rounds: int, seed: int) -> int:
    strategy = UCB1Strategy(alpha=math.sqrt(2))
    bandit = Bandit([BernoulliArm(p=mean) for mean in MEANS], seed=seed)
    simulation = Simulation(bandit, strategies=[strategy], seed=seed)
    simulation.run(trials=1, steps=rounds, metrics=[Metric.REWARDS])
    return int(next(iter(simulation.agents)).Ns[0])


report("mabby", play)
