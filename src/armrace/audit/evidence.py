"""The difference between two samples of one arm, measured by the logarithm of an e-value.

If both samples have the mean ``m``, the product of their mixed likelihoods (Jeffreys' prior)
divided by the likelihood of ``m`` has expectation at most 1, and dividing by the largest likelihood
instead can only lower it.

Compiled code looks at one pair of samples at a time, audits at many: what is computed for both
stands here in both forms, one below the other.

Every test of an audit compares two samples of the same arm, given by their sizes and means: plays
of two layers, or plays before and after a moment. The *threshold* ``t`` of a comparison is such
that honest samples with a fixed mean satisfy

    n kl(x, z) + m kl(y, z) <= t,    z = (n x + m y) / (n + m),

in all comparisons of the audit and at all times at once, with probability one minus the level. The
left side is convex in ``(x, y)`` and grows with the distance between them. If it is above ``t``,
the rewards were changed by at least the cost of the cheapest move of the two means towards each
other that brings it down to ``t``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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


_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_GOLDEN_STEPS = 36
_HALVINGS = 42


class TwoSamples(NamedTuple):
    """Two samples of one arm, of which the second has the larger mean.

    Otherwise :func:`compare_samples` replaces each reward ``r`` by ``1 - r``, which changes neither
    divergence nor costs.
    """

    pulls: float
    mean: float
    upper_pulls: float
    upper_mean: float
    threshold: float
    """The largest divergence of honest samples."""

    def divergence(self, mean: float, upper_mean: float) -> float:
        """The left side above for other means; 0 if the first is not below the second."""
        if mean >= upper_mean:
            return 0.0
        n, m = self.pulls, self.upper_pulls
        common = (n * mean + m * upper_mean) / (n + m)
        # Both means are then equal, and 0 or 1, up to rounding.
        if not 0.0 < common < 1.0:
            return 0.0
        return n * kl(mean, common) + m * kl(upper_mean, common)

    def rejects(self, change: float = 0.0, upper_change: float = 0.0) -> bool:
        """Whether changes of at most these sums cannot explain how the samples differ."""
        lower = self.mean + change / self.pulls
        upper = self.upper_mean - upper_change / self.upper_pulls
        return self.divergence(lower, upper) > self.threshold

    def least_change(self) -> float:
        """A lower bound on the sum of all changes to the rewards; 0 if there may be none.

        The cost of moving the lower mean to ``x`` and the upper one down to the largest ``y``
        that ``x`` permits is convex in ``x``: golden section brackets its least. ``y`` grows with
        ``x``, so that the cost of the bracket's lower ``x`` and its upper ``y`` is not above it.
        """
        if not self.rejects():
            return 0.0
        low, high = self.mean, self._permitted_lower()
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = self._cost(left, left), self._cost(right, right)
        for _ in range(_GOLDEN_STEPS):
            if at_left <= at_right:
                high, right, at_right = right, left, at_left
                left = high - _GOLDEN * (high - low)
                at_left = self._cost(left, left)
            else:
                low, left, at_left = left, right, at_right
                right = low + _GOLDEN * (high - low)
                at_right = self._cost(right, right)
        return max(0.0, self._cost(low, high))

    def _cost(self, lower: float, permits: float) -> float:
        change = self.upper_mean - self._permitted_upper(permits)
        return self.pulls * (lower - self.mean) + self.upper_pulls * change

    def _permitted_upper(self, lower: float) -> float:
        """A number that is at least the largest upper mean that the lower one permits."""
        inside, outside = lower, self.upper_mean
        if self.divergence(lower, outside) <= self.threshold:
            return outside
        for _ in range(_HALVINGS):
            middle = 0.5 * (inside + outside)
            if self.divergence(lower, middle) <= self.threshold:
                inside = middle
            else:
                outside = middle
        return outside

    def _permitted_lower(self) -> float:
        """A number that is at least the smallest lower mean that the upper one permits."""
        outside, inside = self.mean, self.upper_mean
        for _ in range(_HALVINGS):
            middle = 0.5 * (inside + outside)
            if self.divergence(middle, self.upper_mean) <= self.threshold:
                inside = middle
            else:
                outside = middle
        return inside


def compare_samples(
    pulls: float, total: float, other_pulls: float, other_total: float, log_term: float
) -> TwoSamples:
    """A comparison at the level ``exp(-log_term)``, for all sizes of both samples at once.

    >>> found = compare_samples(50, 0.0, 50, 50.0, log_term=6.8)
    >>> f"{found.threshold:.3f} {found.least_change():.3f} {found.rejects(30.0, 30.0)}"
    '11.867 26.137 False'
    """
    price = -log_evidence(pulls, 0.0, other_pulls, 0.0)  # of equal samples: the mixtures' cost
    mean, other_mean = total / pulls, other_total / other_pulls
    if mean > other_mean:
        mean, other_mean = 1.0 - mean, 1.0 - other_mean
    return TwoSamples(pulls, mean, other_pulls, other_mean, log_term + price)
