"""No attack, and plain attacks that know the means, as the paper's sections name them."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits
from armrace.specification import Confidence


class NoAttackState(NamedTuple):
    """No information; a state must have a field."""

    unused: int


class NoAttack(Adversary, frozen=True, tag="none"):
    """Leaves every reward as it was drawn.

    >>> import numpy as np
    >>> NoAttack().change_rewards(Setting(np.array([0.9, 0.5]), 1000, budget=0), [1, 0.5])
    [1.0, 0.5]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = "the stochastic case"
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "It does nothing."

    def start(self, setting: Setting) -> NoAttackState:
        return NoAttackState(0)

    def windows(self, state: NoAttackState, horizon: int) -> list[tuple[int, int]]:
        return []

    def smallest_cost(self, state: NoAttackState, setting: Setting) -> float:
        return math.inf


@implement(corrupt, NoAttackState)
def leave_rewards(
    state: NoAttackState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    pass


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


class SwapBestState(NamedTuple):
    """The arm to attack and the arm to boost."""

    best: int
    decoy: int


class SwapBest(Adversary, frozen=True, tag="swap-best"):
    """Sets the best arm's reward to 0 and a decoy's to 1 while the budget lasts.

    It knows the means and looks at nothing else. A round costs the larger of the two changes.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> SwapBest().change_rewards(setting, [1, 0])
    [0.0, 1.0]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "the fake reviews of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain attack that moves two arms at the price of one."

    decoy: Annotated[
        int | None, Limits("the arm that is boosted, from 0; by default the second best", 0)
    ] = None

    def start(self, setting: Setting) -> SwapBestState:
        decoy = setting.arm_or(setting.runner_up, "decoy", self.decoy)
        if decoy == setting.best:
            raise InvalidParameter(f"decoy must not be the best arm; got {decoy}.")
        return SwapBestState(setting.best, decoy)

    def smallest_cost(self, state: SwapBestState, setting: Setting) -> float:
        return min(
            setting.smallest_change(np.zeros_like, state.best),
            setting.smallest_change(np.ones_like, state.decoy),
        )


@implement(corrupt, SwapBestState)
def swap_best(
    state: SwapBestState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    rewards[state.best] = 0.0
    rewards[state.decoy] = 1.0


class RandomFlipsState(NamedTuple):
    """The share of the rounds that are flipped."""

    rate: float


class RandomFlips(Adversary, frozen=True, tag="random-flips"):
    """In a random share of the rounds, turns every reward r into 1 - r.

    It looks at nothing.

    >>> import numpy as np
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> RandomFlips(rate=1.0).change_rewards(setting, [1, 0.25])
    [0.0, 0.75]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "data errors as in section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain model of noise."

    rate: Annotated[float, Limits("share of the rounds that are flipped", 0, 1)] = 0.1

    def start(self, setting: Setting) -> RandomFlipsState:
        return RandomFlipsState(float(self.rate))

    def smallest_cost(self, state: RandomFlipsState, setting: Setting) -> float:
        return setting.smallest_change(lambda reward: 1.0 - reward, *range(setting.arms))


@implement(corrupt, RandomFlipsState)
def flip_at_random(
    state: RandomFlipsState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if uniform(stream) < state.rate:
        for arm in range(rewards.size):
            rewards[arm] = 1.0 - rewards[arm]


class CleanObjectiveState(NamedTuple):
    """The number of hidden rounds."""

    rounds: int


class CleanObjective(Adversary, frozen=True, tag="clean-objective"):
    """Pays nothing, whichever arm is played, in as many first rounds as the budget buys.

    It looks at nothing. On two arms that always pay 1 and 0, or 0 and 1, a learner cannot tell the
    two cases apart during the first ``C`` rounds. If a coin decides between them, every learner's
    expected regret on the rewards before corruption is exactly ``C/2`` by then: for that objective,
    regret linear in ``C`` cannot be avoided.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [CleanObjective().change_rewards(setting, [1, 0], round=at) for at in (99, 100)]
    [[0.0, 0.0], [1.0, 0.0]]
    """

    family: ClassVar[str] = "literature"
    reference: ClassVar[str] = (
        "the uncorrupted objective in section 5 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = "Section 5 of the paper has the objective that it exploits."

    rounds: Annotated[
        int | None, Limits("how many rounds are hidden; by default as many as the budget buys", 1)
    ] = None

    def start(self, setting: Setting) -> CleanObjectiveState:
        if self.rounds is not None:
            return CleanObjectiveState(self.rounds)
        # A round costs 1 at most, so that the budget lasts at least this long.
        return CleanObjectiveState(int(min(setting.budget, setting.horizon)))

    def windows(self, state: CleanObjectiveState, horizon: int) -> list[tuple[int, int]]:
        return [(0, state.rounds)]

    def smallest_cost(self, state: CleanObjectiveState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, *range(setting.arms))


@implement(corrupt, CleanObjectiveState)
def hide_rewards(
    state: CleanObjectiveState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round < state.rounds:
        for arm in range(rewards.size):
            rewards[arm] = 0.0


class AaeOpeningState(NamedTuple):
    """The arm to attack, the arm to boost, and for how many rounds."""

    best: int
    second: int
    rounds: int
    boost: bool


class AaeOpening(Adversary, frozen=True, tag="aae-opening"):
    """Zeroes the best arm whenever it may be played, until arm elimination has deleted it.

    With all of its rewards 0, the best arm is deleted once the runner-up's mean exceeds twice
    the width ``sqrt(L/n)``, ``L = ln(2KT/delta)``: after some ``4L/mean^2`` pulls each, at a
    cost that is logarithmic in the horizon. With ``boost`` the runner-up always pays 1, and ``4L``
    pulls are enough. It sees the learner's distribution and spares arms of probability 0.

    >>> setting = Setting(np.array([1.0, 0.8]), horizon=1000, budget=100)
    >>> AaeOpening(delta=0.1).start(setting).rounds  # L = 10.597, 4L/0.64 = 66.2
    136
    """

    sees_weights: ClassVar[bool] = True
    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = "section 3.1 of Lykouris, Mirrokni and Paes Leme (2018)"
    source_kind: ClassVar[str] = "derived"
    source_note: ClassVar[str] = (
        "How many rewards it takes follows from the intervals of arm elimination; tests "
        "compare it with hand-worked cases."
    )

    delta: Confidence = 0.05
    boost: Annotated[bool, "also set the runner-up's reward to 1"] = False
    rounds: Annotated[
        int | None, Limits("length of the opening; by default what arm elimination needs", 1)
    ] = None

    def start(self, setting: Setting) -> AaeOpeningState:
        second = setting.runner_up
        rounds = self.rounds
        if rounds is None:
            shown = 1.0 if self.boost else float(setting.means[second])
            rounds = self._needed(setting, shown)
        return AaeOpeningState(setting.best, second, rounds, self.boost)

    def windows(self, state: AaeOpeningState, horizon: int) -> list[tuple[int, int]]:
        return [(0, state.rounds)]

    def smallest_cost(self, state: AaeOpeningState, setting: Setting) -> float:
        zeroing = setting.smallest_change(np.zeros_like, state.best)
        if not state.boost:
            return zeroing
        return min(zeroing, setting.smallest_change(np.ones_like, state.second))

    def _needed(self, setting: Setting, shown_mean: float) -> int:
        # Two arms that both pay nothing are never told apart.
        if shown_mean <= 0:
            return setting.horizon
        log_term = math.log(2 * setting.arms * setting.horizon / self.delta)
        # One more, because an arm is deleted only if the intervals are strictly apart.
        pulls = math.ceil(4 * log_term / shown_mean**2) + 1
        # Arm elimination plays its arms in turn, so that every arm gets as many.
        return min(setting.horizon, setting.arms * pulls)


@implement(corrupt, AaeOpeningState)
def spoil_opening(
    state: AaeOpeningState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round < state.rounds:
        if weights[state.best] > 0.0:
            rewards[state.best] = 0.0
        if state.boost and weights[state.second] > 0.0:
            rewards[state.second] = 1.0
