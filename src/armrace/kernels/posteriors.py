"""Thompson's rule with Beta posteriors: draw a mean for every arm, play the largest.

A reward that is neither 0 nor 1 is turned into one of them by a coin of the learner's. The coin
is thrown with the decision and travels on the ticket, so that late feedback changes nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.beta import draw_beta, law_of_largest
from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream, uniform

__all__ = ["Posteriors", "make_posteriors"]

_COIN_SIDES = 2.0**53


class Posteriors(NamedTuple):
    """Successes and failures of each arm since the uniform prior."""

    counts: Counts
    successes: npt.NDArray[np.float64]
    failures: npt.NDArray[np.float64]
    turned: npt.NDArray[np.bool_]
    """Whether a reward of 0 is the success."""


def make_posteriors(arms: int, turned: bool) -> Posteriors:
    """Uniform posteriors."""
    return Posteriors(
        counts=make_counts(arms),
        successes=np.zeros(arms),
        failures=np.zeros(arms),
        turned=np.array([turned]),
    )


@inlined
def _draw_arm(state: Posteriors, stream: Stream) -> int:
    best, best_draw = 0, -1.0
    for arm in range(state.successes.size):
        draw = draw_beta(state.successes[arm] + 1.0, state.failures[arm] + 1.0, stream)
        if draw > best_draw:
            best, best_draw = arm, draw
    return best


@implement(distribution, Posteriors)
def posteriors_distribution(state: Posteriors, out: npt.NDArray[np.float64]) -> None:
    law_of_largest(state.successes, state.failures, out)


@implement(decide, Posteriors)
def posteriors_decide(state: Posteriors, stream: Stream) -> Ticket:
    arm = _draw_arm(state, stream)
    assign(state.counts, arm)
    coin = int(uniform(stream) * _COIN_SIDES)
    return Ticket(arm, 0, np.nan, coin)


@implement(learn, Posteriors)
def posteriors_learn(state: Posteriors, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    rewarded = ticket.note < reward * _COIN_SIDES
    if rewarded != state.turned[0]:
        state.successes[ticket.arm] += 1.0
    else:
        state.failures[ticket.arm] += 1.0
