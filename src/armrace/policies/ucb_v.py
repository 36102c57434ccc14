"""UCB-V: an upper bound that grows with the variance of the rewards."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, learn
from armrace.limits import Limits
from armrace.policies.common.counts import (
    CountingPolicy,
    Counts,
    count_play,
    make_counts,
    record,
)
from armrace.policies.indices.argmax import make_argmax, plays_next_arm


class UcbVState(NamedTuple):
    """Counts, the sums of squared rewards, and the two constants."""

    counts: Counts
    squares: npt.NDArray[np.float64]
    zeta: float
    c: float


class UcbV(CountingPolicy, frozen=True, tag="ucb-v"):
    """Plays the arm with the largest ``mean + sqrt(2 V zeta ln t / n) + 3 c zeta ln t / n``.

    ``V`` is the empirical variance, divided by ``n``; each arm is played once first. Where rewards
    vary little it explores less than UCB1. Being deterministic, it is easily fooled.

    >>> f"{upper_bound(0.5, 0.25, 10, 1.2 * math.log(100), 1.0):.6f}"
    '2.683513'
    """

    family: ClassVar[str] = "published"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Audibert, Munos and Szepesvári (2009), Exploration-exploitation tradeoff using variance "
        "estimates in multi-armed bandits"
    )
    source_kind: ClassVar[str] = "memory"
    source_note: ClassVar[str] = "Index and constants are from memory; no print was compared."

    zeta: Annotated[float, Limits("factor of the logarithm; the proof takes above 1", 0, 1e6)] = 1.2
    c: Annotated[float, Limits("weight of the term that the range needs", 0, 1e6)] = 1.0

    def start(self, arms: int, horizon: int) -> UcbVState:
        return UcbVState(make_counts(arms), np.zeros(arms), float(self.zeta), float(self.c))

    def upper_bound(self, state: UcbVState, arm: int) -> float:
        return float(_index(state, arm, math.log(int(state.counts.rounds[0]))))


@inlined
def upper_bound(mean: float, variance: float, pulls: int, log_term: float, c: float) -> float:
    """The index of an arm; ``log_term`` is ``zeta ln t``."""
    return mean + math.sqrt(2.0 * variance * log_term / pulls) + 3.0 * c * log_term / pulls


@inlined
def _index(state: UcbVState, arm: int, log_round: float) -> float:
    pulls, plays = state.counts.pulls[arm], state.counts.assigned[arm]
    log_term = state.zeta * log_round
    if pulls == 0:  # its first reward is outstanding
        return upper_bound(1.0, 0.0, plays, log_term, state.c)
    mean = state.counts.sums[arm] / pulls
    variance = max(0.0, state.squares[arm] / pulls - mean * mean)
    return upper_bound(mean, variance, plays, log_term, state.c)


_arm_of_largest_index = make_argmax(_index)


@plays_next_arm(UcbVState)
@inlined
def _next_arm(state: UcbVState, eligible: Eligible) -> int:
    return _arm_of_largest_index(state, math.log(state.counts.rounds[0] + 1), eligible)


@implement(assign, UcbVState)
def ucb_v_assign(state: UcbVState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, UcbVState)
def ucb_v_learn(state: UcbVState, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    state.squares[ticket.arm] += reward * reward
