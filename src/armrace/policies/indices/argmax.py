"""The arm of the largest index: what every index policy plays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, make_ticket
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import count_play

F = TypeVar("F", bound=Callable[..., Any])


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
