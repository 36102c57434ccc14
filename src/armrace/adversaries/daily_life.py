"""Attacks as they occur in daily life: bots, bought reviews, spam and outages."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits

_MANY_BURSTS = 10_000
"""With more bursts the list of their windows would cost more than skipping the rest saves."""


class ClickBotsState(NamedTuple):
    """The ad, the rounds from burst to burst, and the rounds that a burst lasts."""

    ad: int
    period: int
    burst: int


class ClickBots(Adversary, frozen=True, tag="click-bots"):
    """Bots call up one ad and never click it, in bursts that come back periodically.

    In the first ``burst`` rounds of every ``period`` the ad pays nothing, so that it seems to have
    a low click-through rate and its competitors gain. It knows the means and looks at nothing else.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [ClickBots().change_rewards(setting, [1, 1], round=at) for at in (1, 2, 10)]
    [[0.0, 1.0], [1.0, 1.0], [0.0, 1.0]]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the click fraud of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of bots that click one item."

    ad: Annotated[int | None, Limits("the ad they call up, from 0; by default the best", 0)] = None
    period: Annotated[
        int | None, Limits("rounds from burst to burst; by default horizon/100", 1)
    ] = None
    burst: Annotated[
        int | None, Limits("rounds a burst lasts; by default a fifth of the period", 1)
    ] = None

    def validate(self) -> None:
        if self.period is not None and self.burst is not None:
            _require_room(self.period, self.burst)

    def start(self, setting: Setting) -> ClickBotsState:
        ad = setting.arm_or(setting.best, "ad", self.ad)
        period = max(1, setting.horizon // 100) if self.period is None else self.period
        burst = max(1, period // 5) if self.burst is None else self.burst
        _require_room(period, burst)
        return ClickBotsState(ad, period, burst)

    def windows(self, state: ClickBotsState, horizon: int) -> list[tuple[int, int]]:
        if horizon > _MANY_BURSTS * state.period:
            return super().windows(state, horizon)
        return [(first, first + state.burst) for first in range(0, horizon, state.period)]

    def smallest_cost(self, state: ClickBotsState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, state.ad)


def _require_room(period: int, burst: int) -> None:
    if burst > period:
        raise InvalidParameter(
            f"burst must be at most period; got burst {burst} and period {period}."
        )


@implement(corrupt, ClickBotsState)
def withhold_clicks(
    state: ClickBotsState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    if round % state.period < state.burst:
        rewards[state.ad] = 0.0


class SleeperBotsState(NamedTuple):
    """The arm they attack, the arm they boost, and the round in which they begin."""

    best: int
    decoy: int
    wake: int


class SleeperBots(Adversary, frozen=True, tag="sleeper-bots"):
    """Honest for a long time; then the best arm pays nothing and a decoy 1 while the budget lasts.

    It knows the means and looks at nothing else. A learner that has settled by then hardly plays
    the other arms any more, so it learns slowly that the attack has ended.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [SleeperBots().change_rewards(setting, [1, 0], round=at) for at in (499, 500)]
    [[1.0, 0.0], [0.0, 1.0]]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the click fraud of section 1 of Lykouris, Mirrokni and Paes Leme (2018), delayed"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of bots that behave honestly first."

    decoy: Annotated[
        int | None, Limits("the arm they serve, from 0; by default the second best", 0)
    ] = None
    wake: Annotated[
        int | None, Limits("round in which they wake, from 0; by default horizon/2", 0)
    ] = None

    def start(self, setting: Setting) -> SleeperBotsState:
        decoy = setting.arm_or(setting.runner_up, "decoy", self.decoy)
        if decoy == setting.best:
            raise InvalidParameter(f"decoy must not be the best arm; got {decoy}.")
        wake = setting.horizon // 2 if self.wake is None else self.wake
        return SleeperBotsState(setting.best, decoy, wake)

    def windows(self, state: SleeperBotsState, horizon: int) -> list[tuple[int, int]]:
        return [(state.wake, horizon)]

    def smallest_cost(self, state: SleeperBotsState, setting: Setting) -> float:
        return min(
            setting.smallest_change(np.zeros_like, state.best),
            setting.smallest_change(np.ones_like, state.decoy),
        )


@implement(corrupt, SleeperBotsState)
def wake_and_swap(
    state: SleeperBotsState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if round >= state.wake:
        rewards[state.best] = 0.0
        rewards[state.decoy] = 1.0


class FakeReviewsState(NamedTuple):
    """The arm that is praised, and in which share of the rounds."""

    decoy: int
    rate: float


class FakeReviews(Adversary, frozen=True, tag="fake-reviews"):
    """In a random share of the rounds, a decoy's reward is a full mark, deserved or not.

    Other arms keep their rewards. It knows the means and looks at nothing else. A learner that is
    misled keeps playing the decoy, and is paid for it as long as the budget lasts.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> FakeReviews(rate=1.0).change_rewards(setting, [1, 0])
    [1.0, 1.0]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the fake reviews of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of bought reviews."

    decoy: Annotated[
        int | None, Limits("the arm that is praised, from 0; by default the worst", 0)
    ] = None
    rate: Annotated[float, Limits("share of the rounds with a fake review", 0, 1)] = 0.5

    def start(self, setting: Setting) -> FakeReviewsState:
        worst = int(np.argmin(setting.means))  # the first of equals
        decoy = setting.arm_or(worst, "decoy", self.decoy)
        return FakeReviewsState(decoy, float(self.rate))

    def smallest_cost(self, state: FakeReviewsState, setting: Setting) -> float:
        return setting.smallest_change(np.ones_like, state.decoy)


@implement(corrupt, FakeReviewsState)
def praise_decoy(
    state: FakeReviewsState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if uniform(stream) < state.rate:
        rewards[state.decoy] = 1.0


class SpamWaveState(NamedTuple):
    """Chance that a wave begins, its length, its share of spam, and where the current one ends."""

    onset: float
    length: int
    rate: float
    until: npt.NDArray[np.int64]


class SpamWave(Adversary, frozen=True, tag="spam-wave"):
    """Waves begin at random; during one, most rounds turn every reward r into 1 - r.

    It looks at nothing. Outside waves rewards are unchanged. In every round outside a wave, one
    begins with probability ``waves`` over the horizon.

    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> SpamWave(waves=1000, rate=1.0).change_rewards(setting, [1, 0.25])
    [0.0, 0.75]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the email spam of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of waves of spam."

    waves: Annotated[float, Limits("how many waves to expect", 0)] = 10.0
    length: Annotated[int | None, Limits("rounds a wave lasts; by default horizon/100", 1)] = None
    rate: Annotated[float, Limits("share of a wave's rounds that are spam", 0, 1)] = 0.8

    def start(self, setting: Setting) -> SpamWaveState:
        length = max(1, setting.horizon // 100) if self.length is None else self.length
        onset = min(1.0, self.waves / setting.horizon)
        return SpamWaveState(onset, length, float(self.rate), np.zeros(1, dtype=np.int64))

    def smallest_cost(self, state: SpamWaveState, setting: Setting) -> float:
        return setting.smallest_change(lambda reward: 1.0 - reward, *range(setting.arms))


@implement(corrupt, SpamWaveState)
def spam_in_waves(
    state: SpamWaveState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    if round >= state.until[0] and uniform(stream) < state.onset:
        state.until[0] = round + state.length
    if round < state.until[0] and uniform(stream) < state.rate:
        for arm in range(rewards.size):
            rewards[arm] = 1.0 - rewards[arm]


class OutageState(NamedTuple):
    """The arm, the rounds from first to last, and the share of its rewards that remains."""

    arm: int
    first: int
    last: int
    remaining: float


class _InWindow(Adversary, frozen=True):
    """An attack on one arm in one window."""

    def windows(self, state: OutageState, horizon: int) -> list[tuple[int, int]]:
        return [(state.first, state.last)]

    def smallest_cost(self, state: OutageState, setting: Setting) -> float:
        return setting.smallest_change(lambda reward: reward * state.remaining, state.arm)


class Outage(_InWindow, frozen=True, tag="outage"):
    """One arm pays nothing in a window of rounds while the budget lasts.

    It knows the means and looks at nothing else.

    >>> import numpy as np
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> [Outage().change_rewards(setting, [1, 1], round=at) for at in (99, 100, 200)]
    [[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    """

    family: ClassVar[str] = "paper"
    reference: ClassVar[str] = (
        "the construction next door of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A plain model of a failed sensor."

    arm: Annotated[int | None, Limits("the arm that fails, from 0; by default the best", 0)] = None
    first: Annotated[
        int | None, Limits("first round of the outage, from 0; by default horizon/10", 0)
    ] = None
    length: Annotated[int | None, Limits("rounds it lasts; by default horizon/10", 1)] = None

    def start(self, setting: Setting) -> OutageState:
        tenth = max(1, setting.horizon // 10)
        arm = setting.arm_or(setting.best, "arm", self.arm)
        first = tenth if self.first is None else self.first
        length = tenth if self.length is None else self.length
        return OutageState(arm, first, first + length, 0.0)


class Construction(_InWindow, frozen=True, tag="construction"):
    """One arm's rewards shrink by a factor in a window of rounds.

    Unlike in an ``outage``, the arm keeps paying something. It knows the means and looks at
    nothing else.

    >>> import numpy as np
    >>> setting = Setting(np.array([0.9, 0.5]), horizon=1000, budget=100)
    >>> Construction().change_rewards(setting, [1, 1], round=50)
    [0.4, 1.0]
    """

    family: ClassVar[str] = "daily life"
    reference: ClassVar[str] = (
        "the construction next door of section 1 of Lykouris, Mirrokni and Paes Leme (2018)"
    )
    source_kind: ClassVar[str] = "ours"
    source_note: ClassVar[str] = "A model of a building site that spoils one arm for a while."

    arm: Annotated[int | None, Limits("the arm that suffers, from 0; by default the best", 0)] = (
        None
    )
    first: Annotated[
        int | None, Limits("first round of the works, from 0; by default horizon/20", 0)
    ] = None
    length: Annotated[int | None, Limits("rounds they last; by default horizon/10", 1)] = None
    severity: Annotated[float, Limits("share of its rewards that the arm loses", 0, 1)] = 0.6

    def start(self, setting: Setting) -> OutageState:
        arm = setting.arm_or(setting.best, "arm", self.arm)
        first = setting.horizon // 20 if self.first is None else self.first
        length = max(1, setting.horizon // 10) if self.length is None else self.length
        return OutageState(arm, first, first + length, 1.0 - self.severity)


@implement(corrupt, OutageState)
def shrink_in_window(
    state: OutageState,
    round: int,
    weights: Floats,
    rewards: Floats,
    left: float,
    stream: Stream,
) -> None:
    if state.first <= round < state.last:
        rewards[state.arm] *= state.remaining
