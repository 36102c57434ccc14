"""Jun et al.'s attack on epsilon-greedy: lower the arm that is about to be exploited."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from armrace.adversaries.attack_tally import (
    Tally,
    excess_over_allowed,
    lower_reward,
    make_tally,
    remember_clean,
    tally_play,
)
from armrace.adversaries.base import Adversary, Setting, Target
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt, observe
from armrace.kernels.streams import Stream
from armrace.specification import Confidence


class JunGreedyState(NamedTuple):
    """The arm to promote, and a tally of all plays so far."""

    target: int
    delta: float
    tally: Tally


class JunGreedy(Adversary, frozen=True, tag="jun-greedy"):
    """Lowers the rewards of the arm most likely to be played until it looks worse than the target.

    With ``b(N) = sqrt(ln(pi^2 K N^2/(3 delta))/(2N))``, the arm loses what brings its mean, as
    paid, down to ``mean of the target - 2 b(plays of the target)``. The original changes a reward
    after the arm is known, whenever another arm than the target is played; of two public
    implementations, one does that and the other spares plays that explore. An adversary who must
    fix rewards before the arm is drawn cannot: this one sees the learner's distribution and attacks
    the most likely arm, which is the one to be exploited, whenever that is not the target. Against
    epsilon-greedy the cost is of order ``log T``. The formula was checked against both
    implementations, not against the original text.

    >>> import numpy as np
    >>> state = JunGreedy(target=1).start(Setting(np.array([0.9, 0.5]), horizon=1000, budget=9))
    >>> state.tally.pulls[:] = 9, 100
    >>> state.tally.clean_sums[:] = state.tally.paid_sums[:] = 8.1, 50.0
    >>> f"{excess_over_allowed(state.tally, 1, 0.0, state.delta, 0, 0.9):.4f}"
    '9.3085'
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits, here for rewards "
        "in [0, 1]"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The formula agrees with two public programs, which differ in when they strike; the "
        "print was not available."
    )

    target: Target = None
    delta: Confidence = 0.05

    def start(self, setting: Setting) -> JunGreedyState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        return JunGreedyState(target, self.delta, make_tally(setting.arms))


@implement(corrupt, JunGreedyState)
def spoil_likeliest(
    state: JunGreedyState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    remember_clean(state.tally, rewards)
    likeliest = 0
    for arm in range(weights.size):
        if weights[arm] > weights[likeliest]:
            likeliest = arm
    tally, target = state.tally, state.target
    if likeliest != target and tally.pulls[target] > 0:
        reward = rewards[likeliest]
        amount = excess_over_allowed(tally, target, 0.0, state.delta, likeliest, reward)
        lower_reward(rewards, likeliest, amount, left)


@implement(observe, JunGreedyState)
def tally_for_jun_greedy(state: JunGreedyState, round: int, arm: int, reward: float) -> None:
    tally_play(state.tally, arm, reward)
