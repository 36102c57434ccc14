"""ACE: the oracle attack with estimated means."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from armrace.adversaries.attack_tally import (
    Tally,
    deviation,
    lower_reward,
    make_tally,
    remember_clean,
    tally_play,
)
from armrace.adversaries.base import Adversary, Setting, Target
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt, observe
from armrace.kernels.streams import Stream
from armrace.specification import Confidence, SubGaussian


class AdaptiveConstantState(NamedTuple):
    """The arm to promote, and a tally of all plays so far."""

    target: int
    delta: float
    tally: Tally


class AdaptiveConstant(Adversary, frozen=True, tag="adaptive-constant"):
    """Takes from every arm an upper confidence bound of its lead over the target.

    With means of the rewards before corruption and
    ``b(N) = sqrt(2 sigma^2 ln(pi^2 K N^2/(3 delta))/N)``, a play of arm ``i`` loses
    ``mean of i - mean of the target + b(plays of i) + b(plays of the target)`` where that is
    positive. Means and numbers of plays include the current reward, as published, so the first play
    of an arm can be attacked. It sees the learner's distribution: all arms that may be played are
    lowered, once the target has been played. Rewards do not go below
    the least that the environment allows: 0, unless they are Gaussian.

    Against any learner of O(log T) regret it succeeds with probability ``1 - 2 delta``, at a cost
    of ``O(sum ([mean of i - mean of the target]+ + 4 b(1)) log T)`` (Theorem 4). Formula, timing
    and theorem were checked against the paper, equations (23) to (25); the authors' code also
    spares the first K rounds.

    >>> import numpy as np
    >>> state = AdaptiveConstant(target=1).start(Setting(np.array([0.6, 0.5]), 1000, budget=9))
    >>> state.tally.pulls[:] = 49, 100
    >>> state.tally.clean_sums[:] = 29.4, 50.0
    >>> f"{largest_lead(state, 0, 0.6):.6f}"
    '0.721848'
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "ACE of Liu and Shroff (2019), Data poisoning attacks on stochastic bandits"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Equations (23) to (25) of the ICML paper, page 6, and the authors' program agree "
        "with the code."
    )

    target: Target = None
    delta: Confidence = 0.05
    sigma: SubGaussian = 0.5

    def start(self, setting: Setting) -> AdaptiveConstantState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        tally = make_tally(setting.arms, self.sigma, setting.low)
        return AdaptiveConstantState(target, self.delta, tally)


@inlined
def largest_lead(state: AdaptiveConstantState, arm: int, reward: float) -> float:
    """Upper bound of the lead of ``arm`` over the target, with a further play paid ``reward``."""
    tally, target = state.tally, state.target
    pulls = tally.pulls[arm] + 1
    lead: float = (tally.clean_sums[arm] + reward) / pulls
    lead -= tally.clean_sums[target] / tally.pulls[target]
    lead += deviation(pulls, tally.pulls.size, state.delta, tally.sigma)
    return lead + deviation(tally.pulls[target], tally.pulls.size, state.delta, tally.sigma)


@implement(corrupt, AdaptiveConstantState)
def take_largest_lead(
    state: AdaptiveConstantState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    # Without a play of the target, its mean and so the lead of other arms are unknown.
    remember_clean(state.tally, rewards)
    if state.tally.pulls[state.target] > 0:
        for arm in range(rewards.size):
            if arm != state.target and weights[arm] > 0.0:
                lead = largest_lead(state, arm, rewards[arm])
                lower_reward(rewards, arm, lead, left, state.tally.floor)


@implement(observe, AdaptiveConstantState)
def tally_for_adaptive_constant(
    state: AdaptiveConstantState, round: int, arm: int, reward: float
) -> None:
    tally_play(state.tally, arm, reward)
