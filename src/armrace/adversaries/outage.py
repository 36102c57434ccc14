"""An arm that fails for a while, or pays less than usual."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits


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
