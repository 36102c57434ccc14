"""UCB1: play the arm with the largest upper confidence bound."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.common.counts import CountingPolicy, Counts, make_counts
from armrace.policies.indices.argmax import Lead, make_lead, plays_leader


class Ucb1State(NamedTuple):
    """Counts, means and ``spread``, 1/sqrt(assigned), which changes for one arm a round."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    scratch: Lead
    """What spares most rounds a look at all arms."""


class Ucb1(CountingPolicy, frozen=True, tag="ucb1"):
    """Plays the arm with the largest ``mean + sqrt(2 ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. The regret is at most
    ``8 sum ln T/gap + (1 + pi^2/3) sum gap`` in expectation without corruption (Theorem 1 of the
    paper, from memory); being deterministic, UCB1 is easily fooled. While feedback is
    outstanding, ``n`` counts the plays assigned and the mean is that of the rewards seen (1
    before the first).

    >>> f"{upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)):.5f}"
    '1.45971'
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with public implementations and with the well-known bound; no print "
        "was compared."
    )

    def start(self, arms: int, horizon: int) -> Ucb1State:
        return Ucb1State(
            counts=make_counts(arms),
            means=np.ones(arms),
            spread=np.zeros(arms),
            scratch=make_lead(),
        )

    def upper_bound(self, state: Ucb1State, arm: int) -> float:
        scale = bonus_scale(int(state.counts.rounds[0]))
        return float(upper_bound(state.means[arm], state.spread[arm], scale))


@inlined
def bonus_scale(round_number: int) -> float:
    """The part of the bonus that all arms share."""
    return math.sqrt(2.0 * math.log(round_number))


@inlined
def upper_bound(mean: float, spread: float, scale: float) -> float:
    """The index of an arm."""
    return mean + scale * spread


@inlined
def _index(state: Ucb1State, arm: int, scale: float) -> float:
    return upper_bound(state.means[arm], state.spread[arm], scale)


plays_leader(Ucb1State, _index, bonus_scale)
