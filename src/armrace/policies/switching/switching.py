"""Decisions of a policy that treats rewards as stochastic until a test fails.

Before its switch such a policy draws from probabilities of its own, afterwards from EXP3.P. The
phase of a ticket says on which side of the switch the decision was assigned.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Eligible, Ticket, stamped
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import Counts, count_play
from armrace.policies.leaders.exponential_gains import (
    ExponentialGains,
    add_bonuses,
    fill_probabilities,
    gain_probabilities,
)

__all__ = [
    "AFTER_SWITCH",
    "BEFORE_SWITCH",
    "assign_on_a_side",
    "choose_on_a_side",
    "fill_a_side",
]

BEFORE_SWITCH, AFTER_SWITCH = 0, 1
"""Phases of tickets: which part of the policy learns from them."""


@inlined
def fill_a_side(
    switched: bool,
    probabilities: npt.NDArray[np.float64],
    fallback: ExponentialGains,
    out: npt.NDArray[np.float64],
) -> None:
    """Write into ``out`` the probabilities of the side that the policy is on."""
    if switched:
        fill_probabilities(fallback, out)
    else:
        for arm in range(out.size):
            out[arm] = probabilities[arm]


@inlined
def choose_on_a_side(
    switched: bool,
    probabilities: npt.NDArray[np.float64],
    fallback: ExponentialGains,
    stream: Stream,
    eligible: Eligible,
) -> Ticket:
    """Draw an arm from the side that the policy is on."""
    weights = gain_probabilities(fallback) if switched else probabilities
    return choose_by_weights(weights, 1.0, stream, eligible)


@inlined
def assign_on_a_side(
    switched: bool, fallback: ExponentialGains, counts: Counts, ticket: Ticket
) -> Ticket:
    """Count a decision on the side that the policy is on, and note the side."""
    count_play(counts, ticket.arm)
    if switched:
        add_bonuses(fallback)
        return stamped(ticket, AFTER_SWITCH, 0.0)
    return stamped(ticket, BEFORE_SWITCH, 0.0)
