"""Data poisoning: attacks from the literature that make the learner play their target."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Adversary, Setting, Target
from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt, observe
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.specification import Confidence, SubGaussian


class Tally(NamedTuple):
    """Plays of each arm, and sums of its rewards before and after corruption."""

    pulls: npt.NDArray[np.int64]
    clean_sums: npt.NDArray[np.float64]
    paid_sums: npt.NDArray[np.float64]
    clean: npt.NDArray[np.float64]
    """Rewards of the current round before corruption."""
    sigma: float
    """By how much honest rewards deviate: they are sub-Gaussian with this parameter."""
    floor: float
    """The least reward that may be shown."""


def make_tally(arms: int, sigma: float = 0.5, floor: float = 0.0) -> Tally:
    """Make a tally before the first round.

    Args:
        arms: the number of arms.
        sigma: the sub-Gaussian parameter of honest rewards; 1/2 for any in [0, 1].
        floor: the least reward that may be shown.
    """
    pulls, sums = np.zeros(arms, dtype=np.int64), np.zeros((3, arms))
    return Tally(pulls, sums[0].copy(), sums[1].copy(), sums[2].copy(), float(sigma), float(floor))


@inlined
def remember_clean(tally: Tally, rewards: npt.NDArray[np.float64]) -> None:
    """Store the round's rewards until the arm is known.

    Args:
        tally: the tally to change.
        rewards: the round's rewards before corruption.
    """
    # ``observe`` is told only what the played arm paid after corruption.
    for arm in range(rewards.size):
        tally.clean[arm] = rewards[arm]


@inlined
def tally_play(tally: Tally, arm: int, reward: float) -> None:
    """Count a play that paid ``reward`` after corruption.

    Args:
        tally: the tally to change.
        arm: the arm that was played.
        reward: what it paid after corruption.
    """
    tally.pulls[arm] += 1
    tally.clean_sums[arm] += tally.clean[arm]
    tally.paid_sums[arm] += reward


@inlined
def deviation(pulls: int, arms: int, delta: float, sigma: float = 0.5) -> float:
    """``sqrt(2 sigma^2 ln(pi^2 K N^2/(3 delta))/N)``, for ``N`` pulls and ``K`` arms.

    With probability ``1 - delta``, no empirical mean of sub-Gaussian rewards deviates by more, for
    all arms and numbers of pulls at once: equation (23) of Liu and Shroff (2019).

    Args:
        pulls: the number of pulls.
        arms: the number of arms.
        delta: the probability with which some bound may fail.
        sigma: the sub-Gaussian parameter; 1/2 for rewards in [0, 1].

    >>> f"{deviation(10, 2, 0.05):.6f} {deviation(100, 2, 0.05):.6f}"
    '0.688654 0.265425'
    """
    return math.sqrt(
        2.0 * sigma * sigma / pulls * math.log(math.pi**2 * arms * pulls * pulls / (3.0 * delta))
    )


@inlined
def excess_over_allowed(
    tally: Tally, target: int, margin: float, delta: float, arm: int, reward: float
) -> float:
    """Return how far the sum of an arm that pays ``reward`` would exceed its goal.

    The goal is a mean below that of the target by ``margin`` and twice its deviation.
    """
    pulls = tally.pulls[target]
    # The target is never attacked: its sums before and after corruption are the same.
    allowed = tally.paid_sums[target] / pulls - margin
    allowed -= 2.0 * deviation(pulls, tally.pulls.size, delta, tally.sigma)
    # Sums include the play to come, so that a deficit of earlier rounds is carried over to it.
    excess: float = tally.paid_sums[arm] + reward - (tally.pulls[arm] + 1) * allowed
    return excess


@inlined
def lower_reward(
    rewards: npt.NDArray[np.float64], arm: int, amount: float, left: float, floor: float = 0.0
) -> None:
    """Subtract ``amount``, or as much of it as the reward and the budget allow.

    Args:
        rewards: the round's rewards, of which one is changed.
        arm: the arm whose reward is lowered.
        amount: by how much.
        left: what remains of the budget.
        floor: the least reward that may be shown.
    """
    applied = min(amount, left, rewards[arm] - floor)
    if applied > 0.0:
        rewards[arm] -= applied


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
