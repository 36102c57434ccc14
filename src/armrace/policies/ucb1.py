"""UCB1: play the arm with the largest upper confidence bound."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream
from armrace.policies.counting import CountingPolicy

__all__ = ["Ucb1"]


class Ucb1State(NamedTuple):
    """Counts, means and ``spread``, 1/sqrt(assigned), which changes for one arm a round."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]


class Ucb1(CountingPolicy, frozen=True, tag="ucb1"):
    """Plays the arm with the largest ``mean + sqrt(2 ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. The regret is at most
    ``8 sum ln T/gap + (1 + pi^2/3) sum gap`` in expectation without corruption; being
    deterministic, UCB1 is easily fooled. While feedback is outstanding, ``n`` counts the
    plays assigned and the mean is that of the rewards seen (1 before the first).

    >>> f"{upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)):.5f}"
    '1.45971'
    """

    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem"
    )

    def start(self, arms: int, horizon: int) -> Ucb1State:
        return Ucb1State(counts=make_counts(arms), means=np.ones(arms), spread=np.zeros(arms))

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
def _next_arm(state: Ucb1State) -> int:
    played = state.counts.rounds[0]
    arms = state.means.size
    if played < arms:
        return played
    scale = bonus_scale(played + 1)
    best, best_index = 0, -np.inf
    for arm in range(arms):
        index = upper_bound(state.means[arm], state.spread[arm], scale)
        if index > best_index:
            best, best_index = arm, index
    return best


@implement(distribution, Ucb1State)
def ucb1_distribution(state: Ucb1State, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state)] = 1.0


@implement(decide, Ucb1State)
def ucb1_decide(state: Ucb1State, stream: Stream) -> Ticket:
    arm = _next_arm(state)
    assign(state.counts, arm)
    state.spread[arm] = 1.0 / math.sqrt(state.counts.assigned[arm])
    return Ticket(arm, 0, 1.0, 0)


@implement(learn, Ucb1State)
def ucb1_learn(state: Ucb1State, ticket: Ticket, reward: float) -> None:
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)
