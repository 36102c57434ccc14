"""What linear policies share: a model of each arm, what it predicts, and how it learns.

A reward counts with the weight ``min(1, trust / width)``, where the width is that of the played
arm in the visitor's context before the update. With an infinite trust all rewards count alike.

Each model is a ridge regression, updated one reward at a time by ``+ - * /`` and square roots in a
fixed order: IEEE 754 rounds these correctly, so that a log gives the same numbers on every machine.
Library functions such as ``exp`` do not promise that, and neither do matrix products, whose order
of additions depends on the processor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    ContextShape,
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

_UPDATES_BETWEEN_REFRESHES = 65_536
"""Rounding errors of the updates stay below 1e-9 for millions of rewards; this is a safeguard."""


class Ridge(NamedTuple):
    """One model for each arm (first axis): ``A = I + sum w x x'`` and ``b = sum w y x``.

    Where arms have features, there is one model for all, and each arm has a vector of its own.
    """

    matrices: Floats
    """``A``, which with ``b`` is all that the rewards have said."""
    moments: Floats
    """``b``."""
    inverses: Floats
    """The inverse of ``A``, updated with it."""
    weights: Floats
    """``A^-1 b``, the coefficients of the prediction."""
    updates: npt.NDArray[np.int64]
    scratch: Floats


def make_ridge(models: int, dimension: int) -> Ridge:
    """Models without rewards, which predict 0."""
    identity = np.tile(np.eye(dimension), (models, 1, 1))
    nothing = np.zeros((models, dimension))
    return Ridge(
        matrices=identity,
        moments=nothing,
        inverses=identity.copy(),
        weights=nothing.copy(),
        updates=np.zeros(models, dtype=np.int64),
        scratch=np.zeros(dimension),
    )


@inlined
def model_of(ridge: Ridge, arm: int, vector: Floats) -> tuple[int, Floats]:
    """The model that predicts an arm's reward, and the vector that it looks at."""
    size = ridge.scratch.size
    if vector.size == size:
        return arm, vector
    return 0, vector[arm * size : (arm + 1) * size]


@inlined
def predicted(ridge: Ridge, arm: int, vector: Floats) -> float:
    """The reward that is predicted of an arm, which may lie outside [0, 1]."""
    model, own = model_of(ridge, arm, vector)
    weights, total = ridge.weights[model], 0.0
    for place in range(own.size):
        total += own[place] * weights[place]
    return total


@inlined
def squared_width(ridge: Ridge, arm: int, vector: Floats) -> float:
    """``x' A^-1 x``: how little is known about the reward in this context, at most 1."""
    model, own = model_of(ridge, arm, vector)
    inverse, size, total = ridge.inverses[model], own.size, 0.0
    for block in range(size >> 2):
        row = block << 2
        one, two, three, four = _four_rows(inverse, own, row)
        total += one * own[row]
        total += two * own[row + 1]
        total += three * own[row + 2]
        total += four * own[row + 3]
    for row in range(size & ~3, size):
        total += _one_row(inverse, own, row) * own[row]
    return max(total, 0.0)


@inlined
def _one_row(inverse: Floats, vector: Floats, row: int) -> float:
    """A row of a matrix times a vector."""
    part = 0.0
    for column in range(vector.size):
        part += inverse[row, column] * vector[column]
    return part


@inlined
def _four_rows(inverse: Floats, vector: Floats, row: int) -> tuple[float, float, float, float]:
    """Four rows of a symmetric matrix times a vector, from a row on.

    Each sum has its terms in their order, but four are under way at once: a processor need not
    wait for each addition. Column by column, since those of a symmetric matrix lie side by side.
    """
    one = two = three = four = 0.0
    for column in range(vector.size):
        factor = vector[column]
        one += inverse[column, row] * factor
        two += inverse[column, row + 1] * factor
        three += inverse[column, row + 2] * factor
        four += inverse[column, row + 3] * factor
    return one, two, three, four


@inlined
def fit(ridge: Ridge, arm: int, vector: Floats, reward: float, weight: float) -> None:
    """Learn a reward with a weight, by the formula of Sherman and Morrison."""
    error = reward - predicted(ridge, arm, vector)
    model, vector = model_of(ridge, arm, vector)
    inverse, weights = ridge.inverses[model], ridge.weights[model]
    matrix, moment = ridge.matrices[model], ridge.moments[model]
    size = vector.size
    image, square = ridge.scratch, 0.0
    for block in range(size >> 2):
        row = block << 2
        one, two, three, four = _four_rows(inverse, vector, row)
        image[row], image[row + 1], image[row + 2], image[row + 3] = one, two, three, four
    for row in range(size & ~3, size):
        image[row] = _one_row(inverse, vector, row)
    for row in range(size):
        square += image[row] * vector[row]
    factor = weight / (1.0 + weight * max(square, 0.0))
    step = factor * error
    for row in range(size):
        scaled, weighted = factor * image[row], weight * vector[row]
        # Both halves of the matrices from the same three numbers, multiplied in the same order, so
        # that they stay symmetric to the bit, and a whole row at a time.
        for column in range(size):
            below = column <= row
            inverse[row, column] -= (
                scaled * image[column] if below else factor * image[column] * image[row]
            )
            matrix[row, column] += (
                weighted * vector[column] if below else weight * vector[column] * vector[row]
            )
        weights[row] += step * image[row]
        moment[row] += weighted * reward
    ridge.updates[model] += 1
    if ridge.updates[model] % _UPDATES_BETWEEN_REFRESHES == 0:
        refresh(ridge, model)


@outlined
def refresh(ridge: Ridge, model: int) -> None:
    """Compute the inverse and the coefficients anew, by Cholesky's factors of ``A``.

    If ``A`` is not positive definite, which no rewards can bring about, the coefficients become
    NaN: the next decision is then refused, where a repair would hide the damage.
    """
    matrix, inverse, moment = ridge.matrices[model], ridge.inverses[model], ridge.moments[model]
    size = moment.size
    lower = np.zeros((size, size))
    for row in range(size):
        for column in range(row + 1):
            rest = matrix[row, column]
            for k in range(column):
                rest -= lower[row, k] * lower[column, k]
            lower[row, column] = math.sqrt(rest) if row == column else rest / lower[column, column]
    solution = np.zeros(size)
    for column in range(size):
        for row in range(size):
            rest = 1.0 if row == column else 0.0
            for k in range(row):
                rest -= lower[row, k] * solution[k]
            solution[row] = rest / lower[row, row]
        for back in range(size):
            row = size - 1 - back
            rest = solution[row]
            for k in range(row + 1, size):
                rest -= lower[k, row] * solution[k]
            solution[row] = rest / lower[row, row]
        for row in range(column, size):
            inverse[row, column] = solution[row]
            inverse[column, row] = solution[row]
    for row in range(size):
        total = 0.0
        for column in range(size):
            total += inverse[row, column] * moment[column]
        ridge.weights[model, row] = total


F = TypeVar("F", bound=Callable[..., Any])


class LinearModels(NamedTuple):
    """Counts of plays, the models, and how much a reward may teach."""

    counts: Counts
    ridge: Ridge
    trust: float


def make_models(arms: int, shape: ContextShape, trust: float = math.inf) -> LinearModels:
    """Models before the first reward, which predict 0 for every arm."""
    ridge = make_ridge(shape.models(arms), shape.dimension)
    return LinearModels(make_counts(arms), ridge, trust)


class LinearPolicy(CountingPolicy, frozen=True):
    """A policy whose state begins with :class:`LinearModels`."""

    takes_contexts: ClassVar[bool] = True
    takes_arm_features: ClassVar[bool] = True
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
