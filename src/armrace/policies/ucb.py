"""UCB with a bonus of any size, as experiments with sub-Gaussian rewards have it."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.limits import Limits
from armrace.policies.common.counts import CountingPolicy, Counts, make_counts
from armrace.policies.indices.argmax import Lead, make_lead, plays_leader


class UcbState(NamedTuple):
    """Counts, means, ``spread``, 1/sqrt(assigned), and the factor of the bonus."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    bonus: float
    scratch: Lead
    """What spares most rounds a look at all arms."""


class Ucb(CountingPolicy, frozen=True, tag="ucb"):
    """Plays the arm with the largest ``mean + bonus sqrt(ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. Attacks on bandits were
    published against ``bonus = 3 sigma`` for rewards that are sub-Gaussian with parameter sigma;
    ``sqrt(2)`` is ``ucb1``. Rewards may lie outside [0, 1].

    >>> state = Ucb(bonus=0.3).start(2, 1000)  # 3 sigma, sigma = 0.1
    >>> state.means[0], state.spread[0] = 0.5, 1 / math.sqrt(10)
    >>> f"{_index(state, 0, _bonus_scale(100)):.6f}"
    '0.703584'
    """

    family: ClassVar[str] = "published"
    takes_any_reward: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Jun, Li, Ma and Zhu (2018), Adversarial attacks on stochastic bandits, and Liu and Shroff "
        "(2019), Data poisoning attacks on stochastic bandits"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = "The index is that of the program of Liu and Shroff."

    bonus: Annotated[float, Limits("factor of the bonus: 3 sigma in the papers", 0, 1e6)] = 1.5

    def start(self, arms: int, horizon: int) -> UcbState:
        counts, spread = make_counts(arms), np.zeros(arms)
        return UcbState(counts, np.ones(arms), spread, float(self.bonus), make_lead())

    def upper_bound(self, state: UcbState, arm: int) -> float:
        return float(_index(state, arm, _bonus_scale(int(state.counts.rounds[0]))))


@inlined
def _bonus_scale(round_number: int) -> float:
    """The part of the bonus that changes with the round."""
    return math.sqrt(math.log(round_number))


@inlined
def _index(state: UcbState, arm: int, scale: float) -> float:
    return state.means[arm] + state.bonus * scale * state.spread[arm]


plays_leader(UcbState, _index, _bonus_scale)
