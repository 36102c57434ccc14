"""EXP3.P, on its own and as what SAO and SAPO turn to when rewards are not stochastic.

With gains ``G``, the probabilities are ``w = (1 - exploration) softmax(learning_rate G) +
exploration / K``. A round adds ``bonus / w[i]`` to the gain of every arm, and the reward over
its probability to the gain of the arm played. The bonuses do not depend on the reward, so they
are added when the arm is drawn, with the probabilities of that moment, and feedback may come
when it likes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.sampling import draw_arm
from armrace.kernels.streams import Stream

__all__ = [
    "BONUS",
    "EXPLORATION",
    "LEARNING_RATE",
    "ExponentialGains",
    "add_bonuses",
    "add_reward",
    "draw_from_gains",
    "fill_probabilities",
    "make_gains",
    "restart_gains",
]

BONUS, LEARNING_RATE, EXPLORATION = 0, 1, 2
"""Places in ``rates``."""


class ExponentialGains(NamedTuple):
    """State of EXP3.P: estimated gains, and the probabilities of the latest draw."""

    gains: npt.NDArray[np.float64]
    drawn_with: npt.NDArray[np.float64]
    rates: npt.NDArray[np.float64]


def make_gains(arms: int, horizon: float, log_confidence: float) -> ExponentialGains:
    """EXP3.P before its first round; ``log_confidence`` is ``ln(K/delta)``."""
    state = ExponentialGains(np.zeros(arms), np.full(arms, 1.0 / arms), np.zeros(3))
    restart_gains(state, horizon, log_confidence)
    return state


@inlined
def restart_gains(state: ExponentialGains, horizon: float, log_confidence: float) -> None:
    """Forget all gains, and tune for ``horizon`` rounds to come."""
    arms = state.gains.size
    for arm in range(arms):
        state.gains[arm] = 0.0
    plays = horizon * arms
    state.rates[BONUS] = math.sqrt(log_confidence / plays)
    state.rates[LEARNING_RATE] = 0.95 * math.sqrt(math.log(arms) / plays)
    state.rates[EXPLORATION] = min(1.0, 1.05 * math.sqrt(arms * math.log(arms) / horizon))


@inlined
def fill_probabilities(state: ExponentialGains, out: npt.NDArray[np.float64]) -> None:
    """Write the probability of each arm into ``out``."""
    gains, rate, exploration = state.gains, state.rates[LEARNING_RATE], state.rates[EXPLORATION]
    arms = gains.size
    highest = gains[0]
    for arm in range(1, arms):
        highest = max(highest, gains[arm])
    total = 0.0
    for arm in range(arms):
        weight = math.exp(rate * (gains[arm] - highest))
        out[arm] = weight
        total += weight
    scale, floor = (1.0 - exploration) / total, exploration / arms
    for arm in range(arms):
        out[arm] = scale * out[arm] + floor


@inlined
def draw_from_gains(state: ExponentialGains, stream: Stream) -> int:
    """Draw an arm; its probability is left in ``drawn_with``."""
    fill_probabilities(state, state.drawn_with)
    return draw_arm(state.drawn_with, 1.0, stream)


@inlined
def add_bonuses(state: ExponentialGains) -> None:
    """Give every arm the bonus of the round just drawn."""
    for arm in range(state.gains.size):
        state.gains[arm] += state.rates[BONUS] / state.drawn_with[arm]


@inlined
def add_reward(state: ExponentialGains, arm: int, probability: float, reward: float) -> None:
    """Count the reward of an arm that was drawn with ``probability``."""
    state.gains[arm] += reward / probability
