"""MOSS: an upper confidence bound that knows the horizon."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    learn,
)
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.indices.argmax import make_argmax, plays_next_arm


class MossState(NamedTuple):
    """Counts, means, and the bonus of each arm, which changes only when the arm is played."""

    counts: Counts
    means: npt.NDArray[np.float64]
    bonuses: npt.NDArray[np.float64]
    fair_share: npt.NDArray[np.float64]
    """Plays an arm would get if all got the same, ``T/K``."""


class Moss(CountingPolicy, frozen=True, tag="moss"):
    """Plays the arm with the largest ``mean + sqrt(max(0, ln(T / (K n))) / n)``.

    Each arm is played once first; the bonus vanishes once an arm has had its equal share ``T/K``
    of the plays. Without corruption the expected regret is at most ``49 sqrt(K T)`` whatever the
    means, without the logarithm of UCB1. The index is as restated by others from the paper; the 49
    is from memory. It needs the horizon, and being deterministic it is easily fooled by an
    adversary. While feedback is outstanding, ``n`` counts the plays assigned and the mean is that
    of the rewards seen (1 before the first).

    >>> f"{0.5 + bonus(10, fair_share=1000 / 2):.5f}"
    '1.12546'
    """

    family: ClassVar[str] = "stochastic"
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Audibert and Bubeck (2009), Minimax policies for adversarial and stochastic bandits"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with a public implementation; the constant 49 of the bound could "
        "not be found in print."
    )

    def start(self, arms: int, horizon: int) -> MossState:
        return MossState(
            counts=make_counts(arms),
            means=np.ones(arms),
            bonuses=np.zeros(arms),
            fair_share=np.array([horizon / arms]),
        )

    def upper_bound(self, state: MossState, arm: int) -> float:
        return float(state.means[arm] + state.bonuses[arm])


@inlined
def bonus(plays: int, fair_share: float) -> float:
    """Return the bonus that is added to the mean of an arm."""
    return math.sqrt(max(0.0, math.log(fair_share / plays)) / plays)


@inlined
def _index(state: MossState, arm: int, term: float) -> float:
    return state.means[arm] + state.bonuses[arm]


_arm_of_largest_index = make_argmax(_index)


@plays_next_arm(MossState)
@inlined
def _next_arm(state: MossState, eligible: Eligible) -> int:
    # Indices of all arms have no term in common.
    return _arm_of_largest_index(state, 0.0, eligible)


@implement(assign, MossState)
def moss_assign(state: MossState, ticket: Ticket) -> Ticket:
    arm = ticket.arm
    count_play(state.counts, arm)
    # By plays assigned, not rewards seen: docs/decisions/017.
    state.bonuses[arm] = bonus(state.counts.assigned[arm], state.fair_share[0])
    return ticket


@implement(learn, MossState)
def moss_learn(state: MossState, ticket: Ticket, reward: float) -> None:
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)
