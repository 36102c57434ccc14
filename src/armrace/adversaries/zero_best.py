"""Make the best arm look worthless for as long as the budget lasts."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream


class ZeroBestState(NamedTuple):
    """The arm to attack."""

    best: int


class ZeroBest(Adversary, frozen=True, tag="zero-best"):
    """Sets the best arm's reward to 0 in every round while the budget lasts.

    It knows the means and looks at nothing else.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> ZeroBest().change_rewards(setting, [1, 1])
    [0.0, 1.0]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "the click fraud of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain attack on the best arm."

    def start(self, setting: Setting) -> ZeroBestState:
        return ZeroBestState(setting.best)

    def smallest_cost(self, state: ZeroBestState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, state.best)


@implement(corrupt, ZeroBestState)
def zero_best(
    state: ZeroBestState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    rewards[state.best] = 0.0
