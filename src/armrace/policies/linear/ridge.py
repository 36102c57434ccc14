"""Ridge regression of the rewards of each arm, one reward at a time.

Only ``+ - * /`` and square roots in a fixed order: IEEE 754 rounds these correctly, so that a log
gives the same numbers on every machine. Library functions such as ``exp`` do not promise that, and
neither do matrix products, whose order of additions depends on the processor.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined

_UPDATES_BETWEEN_REFRESHES = 65_536
"""Rounding errors of the updates stay below 1e-9 for millions of rewards; this is a safeguard."""

Floats = npt.NDArray[np.float64]


class Ridge(NamedTuple):
    """One model for each arm (first axis): ``A = I + sum w x x'`` and ``b = sum w y x``."""

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


def make_ridge(arms: int, dimension: int) -> Ridge:
    """Models of arms without rewards, which predict 0."""
    identity = np.tile(np.eye(dimension), (arms, 1, 1))
    nothing = np.zeros((arms, dimension))
    return Ridge(
        matrices=identity,
        moments=nothing,
        inverses=identity.copy(),
        weights=nothing.copy(),
        updates=np.zeros(arms, dtype=np.int64),
        scratch=np.zeros(dimension),
    )


@inlined
def predicted(ridge: Ridge, arm: int, vector: Floats) -> float:
    """The reward that an arm's model predicts, which may lie outside [0, 1]."""
    weights, total = ridge.weights[arm], 0.0
    for place in range(vector.size):
        total += vector[place] * weights[place]
    return total


@inlined
def squared_width(ridge: Ridge, arm: int, vector: Floats) -> float:
    """``x' A^-1 x``: how little is known about the reward in this context, at most 1."""
    inverse, total = ridge.inverses[arm], 0.0
    for row in range(vector.size):
        part = 0.0
        for column in range(vector.size):
            part += inverse[row, column] * vector[column]
        total += part * vector[row]
    return max(total, 0.0)


@inlined
def fit(ridge: Ridge, arm: int, vector: Floats, reward: float, weight: float) -> None:
    """Learn a reward with a weight, by the formula of Sherman and Morrison."""
    inverse, weights = ridge.inverses[arm], ridge.weights[arm]
    matrix, moment = ridge.matrices[arm], ridge.moments[arm]
    size = vector.size
    error = reward - predicted(ridge, arm, vector)
    image, square = ridge.scratch, 0.0
    for row in range(size):
        part = 0.0
        for column in range(size):
            part += inverse[row, column] * vector[column]
        image[row] = part
        square += part * vector[row]
    factor = weight / (1.0 + weight * max(square, 0.0))
    step = factor * error
    for row in range(size):
        scaled, weighted = factor * image[row], weight * vector[row]
        for column in range(row + 1):
            inverse[row, column] -= scaled * image[column]
            inverse[column, row] = inverse[row, column]
            matrix[row, column] += weighted * vector[column]
            matrix[column, row] = matrix[row, column]
        weights[row] += step * image[row]
        moment[row] += weighted * reward
    ridge.updates[arm] += 1
    if ridge.updates[arm] % _UPDATES_BETWEEN_REFRESHES == 0:
        refresh(ridge, arm)


@outlined
def refresh(ridge: Ridge, arm: int) -> None:
    """Compute the inverse and the coefficients anew, by Cholesky's factors of ``A``.

    If ``A`` is not positive definite, which no rewards can bring about, the coefficients become
    NaN: the next decision is then refused, where a repair would hide the damage.
    """
    matrix, inverse, moment = ridge.matrices[arm], ridge.inverses[arm], ridge.moments[arm]
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
        ridge.weights[arm, row] = total
