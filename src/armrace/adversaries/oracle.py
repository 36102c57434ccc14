"""The oracle attack: take from every arm what its mean exceeds the target's, and a margin."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.adversaries.attack_tally import lower_reward
from armrace.adversaries.base import Adversary, Setting, Target
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class OracleState(NamedTuple):
    """The amount that each arm loses; 0 for the target."""

    amounts: npt.NDArray[np.float64]


class Oracle(Adversary, frozen=True, tag="oracle"):
    """Takes from every better arm the known difference to the target's mean, and a margin.

    A play of arm ``i`` loses ``mean of i - mean of the target + margin`` where that is positive, so
    that the target becomes the best by ``margin``, against any learner; one of logarithmic regret
    then costs O(log T). It sees the learner's distribution: all arms that may be played are
    lowered. Rewards do not go below 0, so with Bernoulli arms that are far apart, or with a target
    of low mean, it does not reach its goal.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> Oracle().change_rewards(setting, [1, 1])
    [0.5, 1.0]
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "the oracle attack of Liu and Shroff (2019), Data poisoning attacks on stochastic bandits"
    )
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "The amounts follow from its goal, that the target be the best by the margin; they "
        "were not compared with the print."
    )

    target: Target = None
    margin: Annotated[float, Limits("by how much the others are made worse", 0, 1, True)] = 0.1

    def start(self, setting: Setting) -> OracleState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        amounts = np.maximum(0.0, setting.means - setting.means[target] + self.margin)
        amounts[target] = 0.0
        return OracleState(amounts)


@implement(corrupt, OracleState)
def take_difference(
    state: OracleState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    for arm in range(rewards.size):
        if weights[arm] > 0.0:
            lower_reward(rewards, arm, state.amounts[arm], left)
