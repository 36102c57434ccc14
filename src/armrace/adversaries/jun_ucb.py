"""Jun et al.'s attack on UCB: keep every other arm's mean below the target's by a margin."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

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
from armrace.limits import Limits
from armrace.specification import Confidence


class JunUcbState(NamedTuple):
    """The arm to promote, the margin, and a tally of all plays so far."""

    target: int
    margin: float
    delta: float
    tally: Tally


class JunUcb(Adversary, frozen=True, tag="jun-ucb"):
    """Lowers every other arm's rewards just enough to keep its mean below the target's.

    With ``b(N) = sqrt(ln(pi^2 K N^2/(3 delta))/(2N))``, a play of arm ``i`` loses what brings its
    mean, as paid, down to ``mean of the target - 2 b(plays of the target) - margin``. Rewards do
    not go below 0; what could not be taken is taken from later plays. It sees the learner's
    distribution: all arms that may be played are lowered, which for a deterministic learner is one.
    UCB then plays them O(log T) times, at a cost of that order. With rewards in [0, 1] a target of
    low mean cannot be made the best.

    The default margin is the standard deviation bound ``sigma = 1/2`` of rewards in [0, 1]: Liu and
    Shroff (2019, p. 7) report that Jun et al. suggest it for an unknown horizon. The formula was
    checked against public implementations, not against the original text. One of them has ``b`` of
    the played arm in place of the target.

    >>> import numpy as np
    >>> state = JunUcb(target=1).start(Setting(means=np.array([0.9, 0.5]), horizon=1000, budget=9))
    >>> state.tally.pulls[:] = 9, 100
    >>> state.tally.clean_sums[:] = state.tally.paid_sums[:] = 8.1, 50.0
    >>> f"{excess_over_allowed(state.tally, 1, state.margin, state.delta, 0, 0.9):.4f}"
    '14.3085'
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits, here for rewards "
        "in [0, 1]"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The formula agrees with a public program; the margin is the one that a later paper "
        "quotes. The print was not available."
    )

    target: Target = None
    margin: Annotated[float, Limits("by how much the others are kept lower", 0, 1, True)] = 0.5
    delta: Confidence = 0.05

    def start(self, setting: Setting) -> JunUcbState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        return JunUcbState(target, float(self.margin), self.delta, make_tally(setting.arms))


@implement(corrupt, JunUcbState)
def keep_below_target(
    state: JunUcbState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    # Without a play of the target, there is no mean below which to keep the others.
    tally, target = state.tally, state.target
    remember_clean(tally, rewards)
    if tally.pulls[target] > 0:
        for arm in range(rewards.size):
            if arm != target and weights[arm] > 0.0:
                amount = excess_over_allowed(
                    tally, target, state.margin, state.delta, arm, rewards[arm]
                )
                lower_reward(rewards, arm, amount, left)


@implement(observe, JunUcbState)
def tally_for_jun_ucb(state: JunUcbState, round: int, arm: int, reward: float) -> None:
    tally_play(state.tally, arm, reward)
