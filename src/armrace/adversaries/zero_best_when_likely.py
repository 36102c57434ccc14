"""Zero the best arm only in rounds in which it is likely to be played."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class ZeroBestWhenLikelyState(NamedTuple):
    """The arm to attack, and the least probability of a play at which it is attacked."""

    best: int
    likely: float


class ZeroBestWhenLikely(Adversary, frozen=True, tag="zero-best-when-likely"):
    """Sets the best arm's reward to 0 in rounds in which it is played with probability 1/2 or more.

    It sees the learner's distribution. Against a deterministic learner, the whole budget is spent
    on rewards that the learner sees.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> attack = ZeroBestWhenLikely()
    >>> [attack.change_rewards(setting, [1, 1], weights=w) for w in ([0.6, 0.4], [0.4, 0.6])]
    [[0.0, 1.0], [1.0, 1.0]]
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "the adaptive adversary of section 2 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = (
        "The plain attack, spent only where the learner is likely to see it, as the paper's "
        "adversary may."
    )

    likely: Annotated[float, Limits("least probability at which it strikes", 0, 1)] = 0.5

    def start(self, setting: Setting) -> ZeroBestWhenLikelyState:
        return ZeroBestWhenLikelyState(setting.best, float(self.likely))

    def smallest_cost(self, state: ZeroBestWhenLikelyState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, state.best)


@implement(corrupt, ZeroBestWhenLikelyState)
def zero_best_when_likely(
    state: ZeroBestWhenLikelyState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if weights[state.best] >= state.likely:
        rewards[state.best] = 0.0
