"""No attack."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream


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
