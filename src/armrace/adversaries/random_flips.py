"""Random errors."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits


class RandomFlipsState(NamedTuple):
    """The share of the rounds that are flipped."""

    rate: float


class RandomFlips(Adversary, frozen=True, tag="random-flips"):
    """In a random share of the rounds, turns every reward r into 1 - r.

    It looks at nothing.

    >>> import numpy as np
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> RandomFlips(rate=1.0).change_rewards(setting, [1, 0.25])
    [0.0, 0.75]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "data errors as in section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain model of noise."

    rate: Annotated[float, Limits("share of the rounds that are flipped", 0, 1)] = 0.1

    def start(self, setting: Setting) -> RandomFlipsState:
        return RandomFlipsState(float(self.rate))

    def smallest_cost(self, state: RandomFlipsState, setting: Setting) -> float:
        return setting.smallest_change(lambda reward: 1.0 - reward, *range(setting.arms))


@implement(corrupt, RandomFlipsState)
def flip_at_random(
    state: RandomFlipsState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if uniform(stream) < state.rate:
        for arm in range(rewards.size):
            rewards[arm] = 1.0 - rewards[arm]
