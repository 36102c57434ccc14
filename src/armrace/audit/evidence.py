"""The difference between two samples of one arm, measured by the logarithm of an e-value.

If both samples have the mean ``m``, the product of their mixed likelihoods (Jeffreys' prior)
divided by the likelihood of ``m`` has expectation at most 1, and dividing by the largest likelihood
instead can only lower it.

Compiled code looks at one pair of samples at a time (:mod:`armrace.policies.common.blocks`), audits
at many: what is computed for both stands there and here.

Every test of an audit compares two samples of the same arm, given by their sizes and means: plays
of two layers, or plays before and after a moment. The *threshold* ``t`` of a comparison is such
that honest samples with a fixed mean satisfy

    n kl(x, z) + m kl(y, z) <= t,    z = (n x + m y) / (n + m),

in all comparisons of the audit and at all times at once, with probability one minus the level. The
left side is convex in ``(x, y)`` and grows with the distance between them. If it is above ``t``,
the rewards were changed by at least the cost of the cheapest move of the two means towards each
other that brings it down to ``t``.

To examine an arm takes most of a millisecond, and an experiment may have thousands of them. So the
evidence of all arms is bounded from above first, in large arrays that leave the interpreter to
others, and only where an arm has moved since the last audit. Arms that cannot raise an alarm are
not examined.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.policies.common.blocks import log_evidence
from armrace.policies.common.divergence import kl
from armrace.statistics.proportions import bisect

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]


def mixture_costs(pulls: Floats, other_pulls: Floats) -> Floats:
    """Return what the mixtures cost in :func:`log_evidence`, for many pairs of samples.

    It is ``ln(pi (n + 1/2))/2`` for each of the two samples: Lemma 2 of the theory page.
    """
    costs: Floats = 0.5 * np.log(np.pi**2 * (pulls + 0.5) * (other_pulls + 0.5))
    return costs


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

    def _permits(self, mean: float, upper_mean: float) -> bool:
        return self.divergence(mean, upper_mean) <= self.threshold

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
        if self._permits(lower, self.upper_mean):
            return self.upper_mean
        return bisect(partial(self._permits, lower), lower, self.upper_mean, _HALVINGS)[1]

    def _permitted_lower(self) -> float:
        """A number that is at least the smallest lower mean that the upper one permits."""
        upper = self.upper_mean
        return bisect(lambda lower: self._permits(lower, upper), upper, self.mean, _HALVINGS)[0]


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


_TRIED = 3
"""The number of pairs whose certificate is computed: those expected to give the largest ones.
"""


class Samples(NamedTuple):
    """Samples of assigned plays: their sizes, and the range of their sums.

    The two differ where rewards are outstanding, each of which may be anything in [0, 1].
    """

    pulls: Counts
    low: Floats
    high: Floats

    def at(self, places: npt.NDArray[np.intp]) -> Samples:
        """The samples at these places."""
        return Samples(self.pulls[places], self.low[places], self.high[places])


class Pairs(NamedTuple):
    """Pairs of samples: sizes, sums, how much they diverge, and what is subtracted from that.

    ``price`` is the cost of the mixtures, ``sharing`` the cost of sharing a level with other
    pairs.
    """

    pulls: Floats
    sums: Floats
    other_pulls: Floats
    other_sums: Floats
    divergence: Floats
    price: Floats
    sharing: Floats

    @property
    def evidence(self) -> Floats:
        """Logarithms of the e-values, each times its weight."""
        found: Floats = self.divergence - self.price - self.sharing
        return found

    @property
    def means(self) -> Floats:
        """Means of the first samples."""
        return self.sums / self.pulls

    @property
    def other_means(self) -> Floats:
        """Means of the second samples."""
        return self.other_sums / self.other_pulls

    def comparison(self, index: int, log_term: float) -> TwoSamples:
        """One of the pairs, at the level ``exp(-log_term)``."""
        return compare_samples(
            float(self.pulls[index]),
            float(self.sums[index]),
            float(self.other_pulls[index]),
            float(self.other_sums[index]),
            log_term + float(self.sharing[index]),
        )

    def rejected(self, log_term: float) -> Iterator[TwoSamples]:
        """The rejected pairs, in decreasing order of the certificate to expect."""
        found = np.flatnonzero(self.evidence > log_term)
        for index in found[np.argsort(-self._promise(found, log_term))]:
            yield self.comparison(index, log_term)

    def least_change(self, log_term: float) -> float:
        """The largest certificate of the few most promising pairs; 0 if none is rejected."""
        tried = zip(range(_TRIED), self.rejected(log_term), strict=False)
        return max((found.least_change() for _, found in tried), default=0.0)

    def _promise(self, found: npt.NDArray[np.int64], log_term: float) -> Floats:
        """Approximate certificates: divergence grows like the square of the difference of means."""
        n, m = self.pulls[found], self.other_pulls[found]
        gap = np.abs(self.means - self.other_means)[found]
        kept = np.sqrt((log_term + self.price + self.sharing)[found] / self.divergence[found])
        promised: Floats = np.minimum(n, m) * gap * (1.0 - kept)
        return promised


def pairs_of(
    pulls: Counts,
    sums: Floats,
    other_pulls: Counts,
    other_sums: Floats,
    sharing: Floats | float = 0.0,
) -> Pairs:
    """Pairs of samples given by arrays of equal length; ``sharing`` is minus the log of a weight.

    >>> size = np.array([50])
    >>> found = pairs_of(size, np.zeros(1), size, np.full(1, 50.0))
    >>> f"{found.divergence[0]:.3f} {found.price[0]:.3f}"
    '69.315 5.067'
    """
    n, m = pulls.astype(np.float64), other_pulls.astype(np.float64)
    x, y = np.clip(sums, 0.0, n), np.clip(other_sums, 0.0, m)
    divergence = _entropy(n + m, x + y) - _entropy(n, x) - _entropy(m, y)
    price = mixture_costs(n, m)
    return Pairs(n, x, m, y, np.maximum(divergence, 0.0), price, np.zeros(n.shape) + sharing)


def nearest_pairs(first: Samples, second: Samples, sharing: Floats | float = 0.0) -> Pairs:
    """Pairs of samples with those of the possible sums that diverge least.

    Whatever the outstanding rewards turn out to be, the pairs diverge at least as much.

    >>> first = Samples(np.array([10]), np.array([2.0]), np.array([5.0]))
    >>> second = Samples(np.array([10]), np.array([7.0]), np.array([9.0]))
    >>> found = nearest_pairs(first, second)
    >>> found.sums.tolist(), found.other_sums.tolist()
    ([5.0], [7.0])
    """
    sums, others = nearest_sums_of_many(*first, *second)
    return pairs_of(first.pulls, sums, second.pulls, others, sharing)


def join(*groups: Pairs) -> Pairs:
    """All pairs of several groups."""
    return Pairs(*(np.concatenate(column) for column in zip(*groups, strict=True)))


def _entropy(pulls: Floats, sums: Floats) -> Floats:
    """The size of a sample times the entropy of its mean."""
    mean = sums / pulls
    total: Floats = -pulls * (_x_log_x(mean) + _x_log_x(1.0 - mean))
    return total


def _x_log_x(x: Floats) -> Floats:
    logarithm = np.log(x, where=x > 0.0, out=np.zeros_like(x))
    product: Floats = x * logarithm
    return product


Arms = npt.NDArray[np.intp]

MOST_EXAMINED = 500
"""If more arms can raise an alarm, those with the most evidence are examined, so that an audit
takes a second or two at most. Certificates stay valid: what is not examined counts as unchanged."""
_TOGETHER = 2**16
_ROUNDING = 1e-6


class Screen:
    """Bounds on the evidence of arms, kept from one audit of a learner to the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen = np.zeros((0, 0), dtype=np.int64)
        self._bounds = np.zeros(0)

    def suspects(
        self,
        counts: npt.NDArray[np.int64],
        plays: npt.NDArray[np.int64],
        bounds_of: Callable[[Arms], npt.NDArray[np.float64]],
        log_term: float,
    ) -> list[int]:
        """Return the arms whose evidence may exceed ``log_term``, in order."""
        # No n plays of an arm are more evidence than n ln 2.
        able = plays * math.log(2.0) > log_term
        with self._lock:
            if self._seen.shape != counts.shape:
                self._seen, self._bounds = np.full_like(counts, -1), np.zeros(plays.size)
            moved = np.flatnonzero(able & (self._seen != counts).any(axis=0))
            if moved.size:
                self._bounds[moved] = bounds_of(moved)
                self._seen[:, moved] = counts[:, moved]
            found = np.flatnonzero(able & (self._bounds > log_term - _ROUNDING))
            strongest = np.argsort(-self._bounds[found], kind="stable")[:MOST_EXAMINED]
        return sorted(found[strongest].tolist())


def in_parts(places: Arms, each: int) -> Iterator[Arms]:
    """Yield places in parts, each of which takes arrays of a size that fits into the cache."""
    yield from np.array_split(places, -(-places.size * each // _TOGETHER))
