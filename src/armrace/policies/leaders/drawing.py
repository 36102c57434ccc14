"""Decisions of a leader that keeps the solution for its next one in scratch space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, choose, distribution
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream

F = TypeVar("F", bound=Callable[..., Any])


def draws_from_solution(state_class: type) -> Callable[[F], F]:
    """Register ``distribution`` and ``choose`` of a class of states by how it is solved.

    The decorated function is inlined, takes a state and returns the
    :class:`~armrace.policies.leaders.estimates.Solution` for its next decision.

    Args:
        state_class: the class of the states.
    """

    def register(solve: F) -> F:
        @implement(distribution, state_class)
        def leader_distribution(state: Any, out: npt.NDArray[np.float64]) -> None:
            weights = solve(state).weights
            for arm in range(out.size):
                out[arm] = weights[arm]

        @implement(choose, state_class)
        def leader_choose(state: Any, stream: Stream, eligible: Eligible = None) -> Ticket:
            return choose_by_weights(solve(state).weights, 1.0, stream, eligible)

        return solve

    return register
