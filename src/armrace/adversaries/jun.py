"""Jun et al.'s attacks: keep the means of other arms, as paid, below that of a target."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

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
from armrace.specification import Confidence, SubGaussian


class JunState(NamedTuple):
    """The arm to promote, the margin, and a tally of all plays so far."""

    target: int
    margin: float
    delta: float
    likeliest_only: bool
    """Whether only the arm that is most likely to be played is attacked."""
    tally: Tally


class _Jun(Adversary, frozen=True):
    """What both attacks share."""

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits"
    )


class JunGreedy(_Jun, frozen=True, tag="jun-greedy"):
    """Lowers the rewards of the arm most likely to be played until it looks worse than the target.

    With ``b(N) = sqrt(2 sigma^2 ln(pi^2 K N^2/(3 delta))/N)``, the arm loses what brings its mean,
    as paid, down to ``mean of the target - 2 b(plays of the target)``. The original changes a
    reward after the arm is known, whenever another arm than the target is played; of two public
    implementations, one does that and the other spares plays that explore. An adversary who must
    fix rewards before the arm is drawn cannot: this one sees the learner's distribution and attacks
    the most likely arm, which is the one to be exploited, whenever that is not the target. With
    ``strikes="all"`` and ``account="seen"`` it is the original. Against epsilon-greedy the cost is
    of order ``log T``. The formula was checked against both implementations, not against the
    original text.

    >>> import numpy as np
    >>> state = JunGreedy(target=1).start(Setting(np.array([0.9, 0.5]), horizon=1000, budget=9))
    >>> state.tally.pulls[:] = 9, 100
    >>> state.tally.clean_sums[:] = state.tally.paid_sums[:] = 8.1, 50.0
    >>> f"{excess_over_allowed(state.tally, 1, 0.0, state.delta, 0, 0.9):.4f}"
    '9.3085'
    """

    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The formula agrees with two public programs, which differ in when they strike; the "
        "print was not available."
    )

    target: Target = None
    delta: Confidence = 0.05
    sigma: SubGaussian = 0.5
    strikes: Annotated[
        Literal["likeliest", "all"],
        "which arms are lowered: the likeliest, or as published all that may be played",
    ] = "likeliest"

    def start(self, setting: Setting) -> JunState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        tally = make_tally(setting.arms, self.sigma, setting.low)
        return JunState(target, 0.0, self.delta, self.strikes == "likeliest", tally)


class JunUcb(_Jun, frozen=True, tag="jun-ucb"):
    """Lowers every other arm's rewards just enough to keep its mean below the target's.

    With ``b(N) = sqrt(2 sigma^2 ln(pi^2 K N^2/(3 delta))/N)``, a play of arm ``i`` loses what
    brings its mean, as paid, down to ``mean of the target - 2 b(plays of the target) - margin``.
    Rewards do not go below the least that the environment allows, 0 unless they are Gaussian; what
    could not be taken is taken from later plays. It sees the learner's distribution: all arms that
    may be played are lowered, which for a deterministic learner is one. UCB then plays them
    O(log T) times, at a cost of that order. With rewards in [0, 1] a target of low mean cannot be
    made the best.

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

    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The formula agrees with a public program; the margin is the one that a later paper "
        "quotes. The print was not available."
    )

    target: Target = None
    margin: Annotated[float, Limits("by how much the others are kept lower", 0, 1e6, True)] = 0.5
    delta: Confidence = 0.05
    sigma: SubGaussian = 0.5

    def start(self, setting: Setting) -> JunState:
        target = setting.arm_or(setting.runner_up, "target", self.target)
        tally = make_tally(setting.arms, self.sigma, setting.low)
        return JunState(target, float(self.margin), self.delta, False, tally)


@implement(corrupt, JunState)
def keep_below_target(
    state: JunState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    tally, target = state.tally, state.target
    remember_clean(tally, rewards)
    # Without a play of the target, there is no mean below which to keep the others.
    if tally.pulls[target] == 0:
        return
    likeliest = 0
    for arm in range(weights.size):
        if weights[arm] > weights[likeliest]:
            likeliest = arm
    for arm in range(rewards.size):
        attacked = arm == likeliest if state.likeliest_only else weights[arm] > 0.0
        if attacked and arm != target:
            amount = excess_over_allowed(
                tally, target, state.margin, state.delta, arm, rewards[arm]
            )
            lower_reward(rewards, arm, amount, left, tally.floor)


@implement(observe, JunState)
def tally_for_jun(state: JunState, round: int, arm: int, reward: float) -> None:
    tally_play(state.tally, arm, reward)
