"""An attack that tries everything, legal or not, and writes down what it was shown."""

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import pytest

from armrace.adversaries import Adversary
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import corrupt, observe
from armrace.kernels.streams import uniform
from armrace.limits import Limits


class ChaosState(NamedTuple):
    illegal: float
    weights: np.ndarray
    lefts: np.ndarray
    known: np.ndarray
    arms: np.ndarray


class Chaos(Adversary, frozen=True, tag="chaos"):
    """Proposes arbitrary rewards, a share of them illegal: negative, above 1 or not a number."""

    sees_weights: ClassVar[bool] = True

    illegal: Annotated[float, Limits("share of rounds with an illegal proposal", 0, 1)] = 0.2

    def start(self, setting):
        return ChaosState(
            float(self.illegal),
            np.full((setting.horizon, setting.arms), np.nan),
            np.full(setting.horizon, np.nan),
            np.full(setting.horizon, -1, dtype=np.int64),
            np.full(setting.horizon, -1, dtype=np.int64),
        )


@implement(corrupt, ChaosState)
def try_everything(state, round, weights, rewards, left, stream):
    state.lefts[round] = left
    state.known[round] = state.arms[round]
    size = uniform(stream)
    for arm in range(rewards.size):
        state.weights[round, arm] = weights[arm]
        target = uniform(stream)
        rewards[arm] += size * (target - rewards[arm])
    if uniform(stream) < state.illegal:
        arm = int(uniform(stream) * rewards.size)
        kind = uniform(stream)
        if kind < 0.25:
            rewards[arm] = np.nan
        elif kind < 0.5:
            rewards[arm] = -0.25
        elif kind < 0.75:
            rewards[arm] = 1.25
        else:
            rewards[arm] = np.inf


@implement(observe, ChaosState)
def note_the_arm(state, round, arm, reward):
    state.arms[round] = arm


@pytest.fixture(scope="session")
def chaos():
    return Chaos
