"""The arm of the largest index: what every index policy plays.

:func:`plays_leader` finds it most often without a look at all arms. While one arm is played, the
means of the others stay as they are, and their indices grow only with the factor of the bonus that
all arms share. So once an arm leads, the index of every other arm is bounded for as long as the
number of the round grows by one part in 2048. Until then one comparison a round is enough, and the
arm that is played is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

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
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import count_play, record

F = TypeVar("F", bound=Callable[..., Any])

_BRACKET = 11
"""What is known of the others is used while the number of the round grows by ``2^-11``."""

_SHORTEST = 8
"""A lead is not computed for fewer rounds than this: it would cost more than it saves."""


def plays_next_arm(state_class: type) -> Callable[[F], F]:
    """Register ``distribution`` and ``choose`` of a policy that draws nothing.

    The decorated function is inlined, takes a state and which arms are eligible, or ``None``, and
    returns the arm that is played next.

    Args:
        state_class: the class of the states.
    """

    def register(next_arm: F) -> F:
        @implement(distribution, state_class)
        def index_distribution(state: Any, out: npt.NDArray[np.float64]) -> None:
            out.fill(0.0)
            out[next_arm(state, None)] = 1.0

        @implement(choose, state_class)
        def index_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
            return make_ticket(next_arm(state, eligible))

        return next_arm

    return register


@inlined
def comes_first(index: float, arm: int, best_index: float, best: int, tie: float) -> bool:
    """Whether an arm is played before the best so far; of equal indices the lowest arm wins."""
    return index > best_index + tie or (index >= best_index - tie and arm < best)


def make_argmax(
    index: Callable[[Any, int, float], float], least_plays: int = 1
) -> Callable[[Any, float, Eligible], int]:
    """Make the compiled search for the arm with the largest ``index(state, arm, term)``.

    The first eligible arm with fewer than ``least_plays`` assigned plays comes before all
    others; of equal indices the lowest arm wins. ``term`` is what the indices of all arms have
    in common, such as a logarithm of the round.

    Args:
        index: the index of an arm, given the state, the arm and ``term``; it must be
            :func:`inlined`.
        least_plays: how often an arm is played before its index counts.
    """

    @inlined
    def arm_of_largest_index(state: Any, term: float, eligible: Eligible) -> int:
        best, best_index = 0, -np.inf
        for arm in range(state.counts.assigned.size):
            if eligible is not None and not eligible[arm]:
                continue
            # By assigned plays: an arm whose first reward is late is not played again and again.
            if state.counts.assigned[arm] < least_plays:
                return arm
            value = index(state, arm, term)
            if value > best_index:
                best, best_index = arm, value
        return best

    return arm_of_largest_index


def counts_spread(state_class: type) -> None:
    """Register the ``assign`` of states whose ``spread`` is one over the root of an arm's plays."""

    @implement(assign, state_class)
    def assign_and_spread(state: Any, ticket: Ticket) -> Ticket:
        count_play(state.counts, ticket.arm)
        state.spread[ticket.arm] = 1.0 / math.sqrt(state.counts.assigned[ticket.arm])
        return ticket


class Lead(NamedTuple):
    """A leader, and the round up to which no other arm's index exceeds a known bound."""

    arm: npt.NDArray[np.int64]
    until: npt.NDArray[np.int64]
    scale: npt.NDArray[np.float64]
    """The factor of the bonus in the first of these rounds, the smallest of all."""
    rival: npt.NDArray[np.float64]
    """An upper bound on the index of every other arm in these rounds."""


def make_lead() -> Lead:
    """Make a lead that is over."""
    return Lead(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1), np.zeros(1))


def plays_leader(
    state_class: type,
    index: Callable[[Any, int, float], float],
    bonus_scale: Callable[[int], float],
) -> None:
    """Register a policy that plays the largest index of its means, each arm once before.

    States have ``counts``, ``means``, ``spread`` and a :class:`Lead` as ``scratch``.
    ``index(state, arm, scale)`` grows with the scale, and ``bonus_scale(round)`` with the round.
    """
    counts_spread(state_class)
    arm_of_largest_index = make_argmax(index)

    @inlined
    def next_arm(state: Any, eligible: Eligible) -> int:
        return arm_of_largest_index(state, bonus_scale(state.counts.rounds[0] + 1), eligible)

    @inlined
    def still_leads(state: Any) -> bool:
        lead = state.scratch
        if state.counts.rounds[0] >= lead.until[0]:
            return False
        return index(state, lead.arm[0], lead.scale[0]) > lead.rival[0]

    @inlined
    def find_leader(state: Any) -> int:
        arm, lead, played = next_arm(state, None), state.scratch, state.counts.rounds[0]
        rounds = played >> _BRACKET
        lead.arm[0], lead.until[0] = arm, 0
        if rounds >= _SHORTEST:
            lead.until[0] = played + rounds
            lead.scale[0] = bonus_scale(played + 1)
            largest, rival = bonus_scale(played + rounds), -np.inf
            for other in range(state.counts.assigned.size):
                if other != arm:
                    bound = index(state, other, largest)
                    if state.counts.assigned[other] == 0:
                        bound = np.inf  # an arm that was never played comes before all others
                    rival = max(rival, bound)
            lead.rival[0] = rival
        return arm

    @implement(distribution, state_class)
    def leader_distribution(state: Any, out: npt.NDArray[np.float64]) -> None:
        out.fill(0.0)
        out[next_arm(state, None)] = 1.0

    @implement(choose, state_class)
    def leader_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
        if eligible is None:
            return make_ticket(state.scratch.arm[0] if still_leads(state) else find_leader(state))
        # The known lead is over all arms, and is left as it is for the next unrestricted choice.
        return make_ticket(next_arm(state, eligible))

    @implement(learn, state_class)
    def leader_learn(state: Any, ticket: Ticket, reward: float) -> None:
        state.means[ticket.arm] = record(state.counts, ticket.arm, reward)
        if ticket.arm != state.scratch.arm[0]:  # the bound on the others is void
            state.scratch.until[0] = 0
