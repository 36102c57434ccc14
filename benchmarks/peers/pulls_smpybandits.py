"""SMPyBandits' policies on a shared problem: how often each arm was pulled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from common import Problem, loop, report_pulls
from SMPyBandits import Policies


class RootedTsallisInf(Policies.TsallisInf):
    """Its Tsallis-INF with the normaliser found as a root, left of all losses, by Newton's step."""

    def getReward(self, arm: int, reward: float) -> None:  # noqa: N802  the library's name
        self.t += 1
        self.cumulative_losses[arm] += (1.0 - reward) / self.weights[arm]
        losses = self.cumulative_losses - self.cumulative_losses.min()
        x, excess = -1.0 / self.eta, np.inf
        while excess > 1e-10:
            weights = (self.eta * (losses - x)) ** -2.0
            excess = weights.sum() - 1.0
            x -= excess / (2.0 * self.eta * (weights**1.5).sum())
        self.weights = weights / weights.sum()


def play(make: Callable[[Problem], Any], problem: Problem) -> list[list[int]]:
    def start(generator: np.random.Generator) -> tuple[Any, Any]:
        np.random.seed(generator.integers(2**32))  # noqa: NPY002  the library's own generator
        policy = make(problem)
        policy.startGame()
        return policy.choice, policy.getReward

    return loop(start, problem)


MAKERS = {
    "UCB": lambda p: Policies.UCB(p.arms),
    "klUCB": lambda p: Policies.klUCB(p.arms),
    "MOSSH": lambda p: Policies.MOSSH(p.arms, horizon=p.horizon),
    "Thompson": lambda p: Policies.Thompson(p.arms),
    "Exp3WithHorizon": lambda p: Policies.Exp3WithHorizon(p.arms, horizon=p.horizon),
    "TsallisInf": lambda p: Policies.TsallisInf(p.arms),
    "TsallisInf, root": lambda p: RootedTsallisInf(p.arms),
}

report_pulls(
    "SMPyBandits",
    {name: lambda p, make=make: play(make, p) for name, make in MAKERS.items()},
)
