"""An attack that observes nothing: first no arm pays, then only a target, then it stops."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting, Target
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class ObservationFreeState(NamedTuple):
    """The arm to promote, and the rounds at which the two stages end."""

    target: int
    spoiled_until: int
    praised_until: int


class ObservationFree(Adversary, frozen=True, tag="observation-free"):
    """Pays nothing for a while, then 1 for a target and nothing for the rest, then stops.

    It observes neither rewards nor the learner. The two lengths published for 50,000 rounds of arms
    with means 0.9 and 0.8 are 34 and 66 against UCB and Thompson sampling (the defaults), and 150
    and 150 against epsilon-greedy; attack and lengths were checked against the paper's Table 1.
    :meth:`lengths` has the paper's lengths for other cases.

    >>> setting = Setting(np.array([0.9, 0.8]), horizon=50_000, budget=100)
    >>> [ObservationFree().change_rewards(setting, [1, 0], round=at) for at in (33, 34, 100)]
    [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]]
    """

    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "Xu, Kumar and Abernethy (2021), Observation-free attacks on stochastic bandits"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "The phases and their lengths agree with Table 1 of the paper, which an experiment repeats."
    )

    target: Target = None
    spoil: Annotated[int, Limits("rounds in which no arm pays", 0)] = 34
    praise: Annotated[int, Limits("rounds after that in which only the target pays", 0)] = 66

    def start(self, setting: Setting) -> ObservationFreeState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        return ObservationFreeState(target, self.spoil, self.spoil + self.praise)

    @staticmethod
    def lengths(arms: int, horizon: int, mean: float) -> tuple[int, int]:
        """Lengths of the two stages against UCB with bonus ``sqrt(ln T/n)``.

        For a target with this ``mean``, in (0, 1), they are ``C1 = K ceil(ln T/mean^2)`` and
        ``C2 = ceil(mean C1/(1 - mean))``. The source of these is a restatement of the paper's
        appendix, not its text. The first is the published 34; the second is above the published 66.

        Args:
            arms: the number of arms.
            horizon: the number of rounds.
            mean: the mean reward of the target.

        >>> ObservationFree.lengths(arms=2, horizon=50_000, mean=0.8)
        (34, 136)
        """
        spoil = arms * math.ceil(math.log(horizon) / mean**2)
        praise = round(mean * spoil / (1.0 - mean), 9)  # 136 and a rounding error is not 137
        return spoil, math.ceil(praise)

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
