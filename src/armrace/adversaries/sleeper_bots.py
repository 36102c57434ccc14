"""Bots that are honest for a long time and then attack."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.errors import InvalidParameter
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


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
