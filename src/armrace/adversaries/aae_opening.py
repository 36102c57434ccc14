"""The paper's attack on arm elimination: zero the best arm until it is deleted, then stop."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.specification import Confidence


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
