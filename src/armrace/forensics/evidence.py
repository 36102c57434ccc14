"""The difference between two samples of one arm, measured by the logarithm of an e-value.

If both samples have the mean ``m``, the product of their mixed likelihoods (Jeffreys' prior)
divided by the likelihood of ``m`` has expectation at most 1, and dividing by the largest likelihood
instead can only lower it.

Compiled code looks at one pair of samples at a time, audits at many: what is computed for both
stands here in both forms, one below the other.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.common.divergence import kl

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


@inlined
def log_evidence(pulls: float, total: float, other_pulls: float, other_total: float) -> float:
    """Logarithm of the e-value of two samples of one arm, given by size and sum.

    It is ``n kl(x, z) + m kl(y, z) - ln(pi (n + 1/2))/2 - ln(pi (m + 1/2))/2`` for samples of
    sizes ``n`` and ``m`` with means ``x`` and ``y``, where ``z`` is the mean of all.
    """
    common = (total + other_total) / (pulls + other_pulls)
    divergence = 0.0
    if 0.0 < common < 1.0:  # else all rewards are equal, up to rounding errors
        divergence = pulls * kl(total / pulls, common)
        divergence += other_pulls * kl(other_total / other_pulls, common)
    return divergence - 0.5 * math.log(math.pi**2 * (pulls + 0.5) * (other_pulls + 0.5))


def mixture_costs(pulls: Floats, other_pulls: Floats) -> Floats:
    """Return what the mixtures cost in :func:`log_evidence`, for many pairs of samples.

    It is ``ln(pi (n + 1/2))/2`` for each of the two samples: Lemma 2 of the theory page.
    """
    costs: Floats = 0.5 * np.log(np.pi**2 * (pulls + 0.5) * (other_pulls + 0.5))
    return costs


@inlined
def nearest_sums(
    pulls: float,
    low: float,
    high: float,
    other_pulls: float,
    other_low: float,
    other_high: float,
) -> tuple[float, float]:
    """Return the sums of two samples, each known up to an interval, that differ least.

    These are the ends that face each other, or sums with equal means if there are any.
    """
    if high * other_pulls <= other_low * pulls:
        return high, other_low
    if low * other_pulls >= other_high * pulls:
        return low, other_high
    common = max(low / pulls, other_low / other_pulls)
    return common * pulls, common * other_pulls


def nearest_sums_of_many(
    pulls: Counts,
    low: Floats,
    high: Floats,
    other_pulls: Counts,
    other_low: Floats,
    other_high: Floats,
) -> tuple[Floats, Floats]:
    """Return what :func:`nearest_sums` returns, for many pairs of samples."""
    below = high * other_pulls <= other_low * pulls
    above = low * other_pulls >= other_high * pulls
    common = np.maximum(low / pulls, other_low / other_pulls)
    return (
        np.where(below, high, np.where(above, low, common * pulls)),
        np.where(below, other_low, np.where(above, other_high, common * other_pulls)),
    )
