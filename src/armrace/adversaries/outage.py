"""An arm that fails for a while."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


class OutageState(NamedTuple):
    """The arm that fails, and the rounds from first to last, the last excluded."""

    arm: int
    first: int
    last: int


class Outage(Adversary, frozen=True, tag="outage"):
    """One arm pays nothing in a window of rounds while the budget lasts.

    It knows the means and looks at nothing else.

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
        return OutageState(arm, first, first + length)

    def windows(self, state: OutageState, horizon: int) -> list[tuple[int, int]]:
        return [(state.first, state.last)]

    def smallest_cost(self, state: OutageState, setting: Setting) -> float:
        return setting.smallest_change(np.zeros_like, state.arm)


@implement(corrupt, OutageState)
def fail_in_window(
    state: OutageState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    if state.first <= round < state.last:
        rewards[state.arm] = 0.0
