"""Which arms an audit must examine: bounds on the evidence of many arms at once.

To examine an arm takes most of a millisecond, and an experiment may have thousands of them. So the
evidence of all arms is bounded from above first, in large arrays that leave the interpreter to
others, and only where an arm has moved since the last audit. Arms that cannot raise an alarm are
not examined.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

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
