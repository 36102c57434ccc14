"""Make the best arm look worthless and a decoy perfect."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class SwapBestState(NamedTuple):
    """The arm to attack and the arm to boost."""

    best: int
    decoy: int


class SwapBest(Adversary, frozen=True, tag="swap-best"):
    """Sets the best arm's reward to 0 and a decoy's to 1 while the budget lasts.

    It knows the means and looks at nothing else. A round costs the larger of the two changes.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> SwapBest().change_rewards(setting, [1, 0])
    [0.0, 1.0]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "the fake reviews of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain attack that moves two arms at the price of one."

    decoy: Annotated[
        int | None, Limits("the arm that is boosted, from 0; by default the second best", 0)
    ] = None

    def start(self, setting: Setting) -> SwapBestState:
        decoy = setting.arm_or(setting.runner_up, "decoy", self.decoy)
        if decoy == setting.best:
            raise InvalidParameter(f"decoy must not be the best arm; got {decoy}.")
        return SwapBestState(setting.best, decoy)

    def smallest_cost(self, state: SwapBestState, setting: Setting) -> float:
        return min(
            setting.smallest_change(np.zeros_like, state.best),
            setting.smallest_change(np.ones_like, state.decoy),
        )


@implement(corrupt, SwapBestState)
def swap_best(
    state: SwapBestState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    rewards[state.best] = 0.0
    rewards[state.decoy] = 1.0
