"""What linear policies share: a model of each arm, what it predicts, and how it learns.

A reward counts with the weight ``min(1, trust / width)``, where the width is that of the played
arm in the visitor's context before the update. With an infinite trust all rewards count alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Floats,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    forwards,
    learn,
    make_ticket,
    vector_of,
)
from armrace.kernels.streams import Stream
from armrace.policies.base import ArmView
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.linear.ridge import Ridge, fit, make_ridge, predicted, squared_width

F = TypeVar("F", bound=Callable[..., Any])


class LinearModels(NamedTuple):
    """Counts of plays, the models, and how much a reward may teach."""

    counts: Counts
    ridge: Ridge
    trust: float


def make_models(arms: int, dimension: int, trust: float = math.inf) -> LinearModels:
    """Models before the first reward, which predict 0 for every arm."""
    return LinearModels(make_counts(arms), make_ridge(arms, dimension), trust)


class LinearPolicy(CountingPolicy, frozen=True):
    """A policy whose state begins with :class:`LinearModels`."""

    takes_contexts: ClassVar[bool] = True
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True

    def inspect(self, state: Any) -> Sequence[ArmView]:
        return super().inspect(state.models)

    def coefficients(self, state: Any) -> Floats:
        found: Floats = state.models.ridge.weights
        return found


@inlined
def width(models: LinearModels, arm: int, context: Visitor) -> float:
    """How uncertain the prediction for an arm is: 1 or less, and 0 once all is known."""
    return math.sqrt(squared_width(models.ridge, arm, vector_of(context)))


@implement(assign, LinearModels)
def assign_to_models(state: LinearModels, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, LinearModels)
def fit_models(state: LinearModels, ticket: Ticket, reward: float, context: Visitor = None) -> None:
    record(state.counts, ticket.arm, reward)
    weight = 1.0
    if state.trust < np.inf:
        uncertain = width(state, ticket.arm, context)
        if uncertain > state.trust:
            weight = state.trust / uncertain
    fit(state.ridge, ticket.arm, vector_of(context), reward, weight)


def plays_largest(state_class: type) -> Callable[[F], F]:
    """Register ``distribution`` and ``choose`` of a policy that plays the arm of the largest score.

    The decorated function is inlined and takes a state, an arm and a context. Of equal scores the
    first arm wins.
    """

    def register(score: F) -> F:
        @inlined
        def largest(state: Any, eligible: Eligible, context: Visitor) -> int:
            best, best_score = -1, -np.inf
            for arm in range(state.models.counts.pulls.size):
                if eligible is not None and not eligible[arm]:
                    continue
                found = score(state, arm, context)
                if best < 0 or found > best_score:
                    best, best_score = arm, found
            return best

        @implement(distribution, state_class)
        def score_distribution(state: Any, out: Floats, context: Visitor = None) -> None:
            out.fill(0.0)
            out[largest(state, None, context)] = 1.0

        @implement(choose, state_class)
        def score_choose(
            state: Any, stream: Stream, eligible: Eligible = None, context: Visitor = None
        ) -> Ticket:
            return make_ticket(largest(state, eligible, context))

        return score

    return register


@forwards(assign, learn)
class LinearOptimism(NamedTuple):
    """Models, and how many widths are added to a prediction."""

    models: LinearModels
    radius: float


@plays_largest(LinearOptimism)
@inlined
def optimistic_score(state: LinearOptimism, arm: int, context: Visitor) -> float:
    """The prediction plus ``radius`` widths."""
    known = predicted(state.models.ridge, arm, vector_of(context))
    return known + state.radius * width(state.models, arm, context)
