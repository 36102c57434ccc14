"""Waves of spam, during which most feedback is inverted."""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.adversaries.base import Adversary, Setting
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Floats, corrupt
from armrace.kernels.streams import Stream, uniform
from armrace.limits import Limits


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
