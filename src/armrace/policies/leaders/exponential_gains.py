"""EXP3.P, on its own and as what SAO and SAPO turn to when rewards are not stochastic.

With gains ``G``, the probabilities are ``w = (1 - exploration) softmax(learning_rate G) +
exploration / K``. A round adds ``bonus / w[i]`` to the gain of every arm, and the reward over
its probability to the gain of the arm played. The bonuses do not depend on the reward. They are
added when the decision is assigned, with the probabilities of that moment, so that feedback may
come at any time.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.leaders.estimates import Solution, make_solution

BONUS, LEARNING_RATE, EXPLORATION = 0, 1, 2
"""Places in ``rates``."""


class ExponentialGains(NamedTuple):
    """State of EXP3.P: estimated gains and the rates."""

    gains: npt.NDArray[np.float64]
    rates: npt.NDArray[np.float64]
    scratch: Solution


def make_gains(arms: int, horizon: float, log_confidence: float) -> ExponentialGains:
    """EXP3.P before its first round; ``log_confidence`` is ``ln(K/delta)``."""
    state = ExponentialGains(np.zeros(arms), np.zeros(3), make_solution(arms))
    restart_gains(state, horizon, log_confidence)
    return state


@inlined
def restart_gains(state: ExponentialGains, horizon: float, log_confidence: float) -> None:
    """Forget all gains, and tune for ``horizon`` rounds to come."""
    arms = state.gains.size
    for arm in range(arms):
        state.gains[arm] = 0.0
    state.scratch.up_to_date[0] = False
    plays = horizon * arms
    # Bubeck and Cesa-Bianchi (2012), Theorem 3.2.
    state.rates[BONUS] = math.sqrt(log_confidence / plays)
    state.rates[LEARNING_RATE] = 0.95 * math.sqrt(math.log(arms) / plays)
    state.rates[EXPLORATION] = min(1.0, 1.05 * math.sqrt(arms * math.log(arms) / horizon))


@inlined
def fill_probabilities(state: ExponentialGains, out: npt.NDArray[np.float64]) -> None:
    """Write the probability of each arm into ``out``."""
    gains, rate, exploration = state.gains, state.rates[LEARNING_RATE], state.rates[EXPLORATION]
    arms = gains.size
    # Measured from the highest gain, the largest exponent is 0 and nothing overflows.
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
def gain_probabilities(state: ExponentialGains) -> npt.NDArray[np.float64]:
    """The probability of each arm, in scratch space."""
    solution = state.scratch
    if not solution.up_to_date[0]:
        fill_probabilities(state, solution.weights)
        solution.up_to_date[0] = True
    return solution.weights


@inlined
def add_bonuses(state: ExponentialGains) -> None:
    """Give every arm the bonus of a round."""
    weights = gain_probabilities(state)
    for arm in range(state.gains.size):
        state.gains[arm] += state.rates[BONUS] / weights[arm]
    state.scratch.up_to_date[0] = False


@inlined
def add_reward(state: ExponentialGains, arm: int, probability: float, reward: float) -> None:
    """Count the reward of an arm that was drawn with ``probability``."""
    # No floor is needed: exploration keeps every probability at ``exploration / K`` or more.
    state.gains[arm] += reward / probability
    state.scratch.up_to_date[0] = False
