"""An attack that reads all weights and all rewards, and writes most of them, every round."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from armrace.adversaries import Adversary
from armrace.adversaries.base import Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream

__all__ = ["FlipWhatMayBePlayed"]


class FlipState(NamedTuple):
    """From which probability of being played on a reward is flipped."""

    likely: float


class FlipWhatMayBePlayed(Adversary, frozen=True, tag="flip-what-may-be-played"):
    """Turns every reward r that may be collected into 1 - r, and every other one into 0."""

    sees_weights: ClassVar[bool] = True

    def start(self, setting: Setting) -> FlipState:
        return FlipState(1e-9)


@implement(corrupt, FlipState)
def flip_what_may_be_played(
    state: FlipState, round: int, weights: Floats, rewards: Floats, left: float, stream: Stream
) -> None:
    for arm in range(rewards.size):
        rewards[arm] = 1.0 - rewards[arm] if weights[arm] > state.likely else 0.0
