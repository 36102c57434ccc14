"""ACE, the attack by adaptive estimates: the oracle's, by one who must learn the means."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Floats, corrupt, implement, observe
from armrace.kernels.streams import Stream
from armrace.kernels.tampering import (
    Tally,
    deviation,
    lower_reward,
    make_tally,
    remember_clean,
    tally_play,
)
from armrace.specification import Confidence, Limits

__all__ = ["AdaptiveConstant"]


class AdaptiveConstantState(NamedTuple):
    """Whom to promote, and what was seen so far."""

    target: int
    delta: float
    tally: Tally


class AdaptiveConstant(Adversary, frozen=True, tag="adaptive-constant"):
    """Takes from every arm its estimated lead over the target, as large as it may plausibly be.

    With means of the rewards before corruption and
    ``b(N) = sqrt(ln(pi^2 K N^2/(3 delta))/(2N))``, a play of arm ``i`` loses
    ``mean of i - mean of the target + b(plays of i) + b(plays of the target)`` where that is
    positive. It works against any learner; one of logarithmic regret costs O(log T). All arms that
    may be played are lowered, once they and the target have been played. Rewards do not go
    below 0.

    >>> import numpy as np
    >>> state = AdaptiveConstant(target=1).start(Setting(np.array([0.6, 0.5]), 1000, budget=9))
    >>> state.tally.pulls[:] = 50, 100
    >>> state.tally.clean_sums[:] = 30.0, 50.0
    >>> f"{largest_lead(state, 0):.6f}"
    '0.721848'
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "ACE of Liu and Shroff (2019), Data poisoning attacks on stochastic bandits; formula as "
        "implemented by others"
    )

    target: Annotated[
        int | None, Limits("the arm to promote, from 0; by default the second best", 0)
    ] = None
    delta: Confidence = 0.05

    def start(self, setting: Setting) -> AdaptiveConstantState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        return AdaptiveConstantState(target, self.delta, make_tally(setting.arms))


@inlined
def largest_lead(state: AdaptiveConstantState, arm: int) -> float:
    """By how much ``arm`` may be better than the target, at most."""
    tally, target = state.tally, state.target
    lead: float = tally.clean_sums[arm] / tally.pulls[arm]
    lead -= tally.clean_sums[target] / tally.pulls[target]
    lead += deviation(tally.pulls[arm], tally.pulls.size, state.delta)
    return lead + deviation(tally.pulls[target], tally.pulls.size, state.delta)


@implement(corrupt, AdaptiveConstantState)
def take_largest_lead(
    state: AdaptiveConstantState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    remember_clean(state.tally, rewards)
    if state.tally.pulls[state.target] > 0:
        for arm in range(rewards.size):
            if arm != state.target and weights[arm] > 0.0 and state.tally.pulls[arm] > 0:
                lower_reward(rewards, arm, largest_lead(state, arm), left)


@implement(observe, AdaptiveConstantState)
def tally_for_adaptive_constant(
    state: AdaptiveConstantState, round: int, arm: int, reward: float
) -> None:
    tally_play(state.tally, arm, reward)
