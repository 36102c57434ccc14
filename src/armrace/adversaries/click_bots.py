"""Bots that trigger an ad and do not click, in bursts."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
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
