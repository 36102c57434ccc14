"""Thompson's rule with Beta posteriors: draw a mean for every arm, play the largest.

A reward that is neither 0 nor 1 is rounded to one of them at random. The random number is drawn
with the decision and kept as the ticket's memo, so that the time at which feedback arrives makes no
difference.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    distribution_among,
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream, uniform
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.posteriors.beta import draw_beta, law_of_largest


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
def _draw_arm(state: Posteriors, stream: Stream, eligible: Eligible) -> int:
    """Draw a mean for every eligible arm, and return the arm of the largest."""
    best, best_draw = 0, -1.0
    for arm in range(state.successes.size):
        if eligible is not None and not eligible[arm]:
            continue
        draw = draw_beta(state.successes[arm] + 1.0, state.failures[arm] + 1.0, stream)
        if draw > best_draw:
            best, best_draw = arm, draw
    return best


@implement(distribution, Posteriors)
def posteriors_distribution(state: Posteriors, out: npt.NDArray[np.float64]) -> None:
    law_of_largest(state.successes, state.failures, out)


@implement(distribution_among, Posteriors)
def posteriors_distribution_among(
    state: Posteriors, eligible: npt.NDArray[np.bool_], out: npt.NDArray[np.float64]
) -> None:
    count = 0
    for arm in range(eligible.size):
        count += eligible[arm]
    successes, failures, law = np.empty(count), np.empty(count), np.empty(count)
    place = 0
    for arm in range(eligible.size):
        if eligible[arm]:
            successes[place], failures[place] = state.successes[arm], state.failures[arm]
            place += 1
    # Dividing the probabilities among all arms by their sum would be wrong: posteriors are drawn
    # and compared, not weighed.
    law_of_largest(successes, failures, law)
    place = 0
    for arm in range(eligible.size):
        out[arm] = 0.0
        if eligible[arm]:
            out[arm] = law[place]
            place += 1


@implement(choose, Posteriors)
def posteriors_choose(state: Posteriors, stream: Stream, eligible: Eligible = None) -> Ticket:
    arm = _draw_arm(state, stream, eligible)
    # The probability costs as much as hundreds of rounds; ``distribution`` computes it on request.
    return make_ticket(arm, 0, np.nan, uniform(stream))


@implement(assign, Posteriors)
def posteriors_assign(state: Posteriors, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, Posteriors)
def posteriors_learn(state: Posteriors, ticket: Ticket, reward: float) -> None:
    record(state.counts, ticket.arm, reward)
    # A coin that shows heads with probability ``reward``: 0 and 1 are never rounded.
    rewarded = ticket.memo < reward
    if rewarded != state.turned[0]:
        state.successes[ticket.arm] += 1.0
    else:
        state.failures[ticket.arm] += 1.0
