"""An attack that looks at nothing: spoil all arms, then praise one, then leave."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.generics import Floats, corrupt, implement
from armrace.kernels.streams import Stream
from armrace.specification import Limits

__all__ = ["ObservationFree"]


class ObservationFreeState(NamedTuple):
    """Whom to promote, and the rounds at which the two stages end."""

    target: int
    spoiled_until: int
    praised_until: int


class ObservationFree(Adversary, frozen=True, tag="observation-free"):
    """Pays nothing for a while, then 1 for a target and nothing for the rest, then stops.

    It needs to know neither the rewards nor what the learner does. The two lengths published
    for 50,000 rounds of arms with means 0.9 and 0.8 are 34 and 66 against UCB and Thompson
    sampling (the defaults), and 150 and 150 against epsilon-greedy.
    """

    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = "Xu, Kumar and Abernethy (2021), Observation-free attacks on bandits"

    target: Annotated[
        int | None, Limits("the arm to promote, from 0; by default the second best", 0)
    ] = None
    spoil: Annotated[int, Limits("rounds in which no arm pays", 0)] = 34
    praise: Annotated[int, Limits("rounds after that in which only the target pays", 0)] = 66

    def start(self, setting: Setting) -> ObservationFreeState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        return ObservationFreeState(target, self.spoil, self.spoil + self.praise)

    def windows(self, state: ObservationFreeState, horizon: int) -> list[tuple[int, int]]:
        return [(0, state.praised_until)]

    def smallest_cost(self, state: ObservationFreeState, setting: Setting) -> float:
        return min(
            setting.smallest_change(np.zeros_like, *range(setting.arms)),
            setting.smallest_change(np.ones_like, state.target),
        )


@implement(corrupt, ObservationFreeState)
def spoil_then_praise(
    state: ObservationFreeState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round < state.praised_until:
        for arm in range(rewards.size):
            rewards[arm] = 0.0
        if round >= state.spoiled_until:
            rewards[state.target] = 1.0
