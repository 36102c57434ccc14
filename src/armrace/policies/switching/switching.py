"""Decisions of a policy that treats rewards as stochastic until a test fails.

Before its switch such a policy draws from its own probabilities, afterwards from those of EXP3.P.
The phase of a ticket says on which side of the switch the decision was assigned, so that a late
reward reaches the part that made the decision.
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
    add_reward,
    fill_probabilities,
    gain_probabilities,
)

BEFORE_SWITCH, AFTER_SWITCH = 0, 1
"""Phases of tickets: which part of the policy learns from them."""


@inlined
def fill_a_side(
    switched: bool,
    probabilities: npt.NDArray[np.float64],
    fallback: ExponentialGains,
    out: npt.NDArray[np.float64],
) -> None:
    """Write into ``out`` the policy's own probabilities, or EXP3.P's after the switch."""
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
    """Draw an arm from the policy's own probabilities, or from EXP3.P's after the switch."""
    weights = gain_probabilities(fallback) if switched else probabilities
    return choose_by_weights(weights, 1.0, stream, eligible)


@inlined
def assign_on_a_side(
    switched: bool, fallback: ExponentialGains, counts: Counts, ticket: Ticket
) -> Ticket:
    """Count a decision, and record in its ticket whether it came before or after the switch."""
    count_play(counts, ticket.arm)
    if switched:
        add_bonuses(fallback)
        return stamped(ticket, AFTER_SWITCH, 0.0)
    return stamped(ticket, BEFORE_SWITCH, 0.0)


@inlined
def learn_after_switch(fallback: ExponentialGains, ticket: Ticket, reward: float) -> None:
    """Give EXP3.P the reward of a decision that it made; rewards of earlier ones are ignored."""
    # An earlier decision was not drawn with EXP3.P's probabilities, and its round got no bonuses.
    if ticket.phase == AFTER_SWITCH:
        add_reward(fallback, ticket.arm, ticket.probability, reward)


@inlined
def share_among_active(
    probabilities: npt.NDArray[np.float64], active: npt.NDArray[np.bool_]
) -> None:
    """Divide the probability that the other arms leave equally among the active arms."""
    rest, count = 1.0, 0
    for arm in range(active.size):
        if active[arm]:
            count += 1
        else:
            rest -= probabilities[arm]
    for arm in range(active.size):
        if active[arm]:
            probabilities[arm] = rest / count
