"""Many pairs of samples of one arm at once: which of them cannot come from one fixed mean.

To examine an arm takes most of a millisecond, and an experiment may have thousands of them. So the
evidence of all arms is bounded from above first, in large arrays that leave the interpreter to
others, and only where an arm has moved since the last audit. Arms that cannot raise an alarm are
not examined.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.audit.evidence import (
    Counts,
    Floats,
    TwoSamples,
    compare_samples,
    mixture_costs,
    nearest_sums_of_many,
)

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
