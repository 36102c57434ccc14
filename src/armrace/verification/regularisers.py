"""Regularisers of leaders, as the proofs need them: separable, with a scale for each arm.

A leader plays the minimiser of ``<E, p> + sum scale * potential(p)`` over the simplex, where ``E``
are the expected losses. All functions take and return arrays with an entry for each arm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Regulariser(NamedTuple):
    """A potential of a probability, and what follows from it."""

    potential: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]
    """The derivative of the potential."""
    steepness: Callable[[Floats], Floats]
    """The probability times the second derivative: the change of the slope for a relative change
    of the probability."""
    stability: Callable[[Floats, Floats, Floats], Floats]
    """From probabilities ``p``, surprises ``z`` and scales, the largest value over ``r > 0`` of
    ``z (p - r)`` minus the divergence of ``r`` from ``p``; NaN if there is none."""


def excess_of_logarithm(step: Floats) -> Floats:
    """``y - ln(1 + y)``; NaN for ``y <= -1``, where no bound holds.

    >>> excess_of_logarithm(np.array([0.0, -1.0]))
    array([ 0., nan])
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(step > -1, step - np.log1p(step), np.nan)


def _barrier_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    return np.asarray(scale * excess_of_logarithm(z * p / scale))


def _tsallis_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    """Evaluate at the maximiser ``r = p/(1 + y)^2`` with ``y = z sqrt(p) / (2 scale)``."""
    step = z * np.sqrt(p) / (2 * scale)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(step > -1, 2 * scale * np.sqrt(p) * step**2 / (1 + step), np.nan)


def _entropy_stability(p: Floats, z: Floats, scale: Floats) -> Floats:
    return np.asarray(p * scale * (np.expm1(-z / scale) + z / scale))


BARRIER = Regulariser(
    potential=lambda p: -np.log(p),
    slope=lambda p: -1 / p,
    steepness=lambda p: 1 / p,
    stability=_barrier_stability,
)
TSALLIS = Regulariser(
    potential=lambda p: -4 * np.sqrt(p),
    slope=lambda p: -2 / np.sqrt(p),
    steepness=lambda p: 1 / np.sqrt(p),
    stability=_tsallis_stability,
)
ENTROPY = Regulariser(
    potential=lambda p: p * np.log(p),
    slope=lambda p: 1 + np.log(p),
    steepness=np.ones_like,
    stability=_entropy_stability,
)
