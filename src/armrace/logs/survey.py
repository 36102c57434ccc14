"""What one pass over a log finds out: names, rates, times."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["UNLIKELY", "Survey", "natural_key"]

UNLIKELY = 1e-4
"""What happens with a smaller probability is taken to contradict its assumptions."""
_SHARE = 0.01
_SMALLEST = 1_000

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Return a key that sorts numbers within names by their value.

    >>> sorted(["ad 10", "ad 9", "b", "2"], key=natural_key)
    ['2', 'ad 9', 'ad 10', 'b']
    """
    parts = _DIGITS.split(name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]


class Survey:
    """Figures of a log, collected piece by piece."""

    def __init__(self) -> None:
        self.arms: dict[str, int] = {}
        """The place of each arm, in the order of their first rows."""
        self.sources: dict[str, int] = {}
        self.pulls: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.totals: npt.NDArray[np.float64] = np.zeros(0)
        self.source_rows: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.inverse: npt.NDArray[np.float64] = np.zeros(0)
        """The sum of 1 / propensity of each arm: in as many rows it could be shown."""
        self.least: npt.NDArray[np.float64] = np.zeros(0)
        """The smallest propensity of each arm."""
        self.smallest: npt.NDArray[np.float64] = np.zeros(0)
        """The smallest propensities of all, in order; at most :data:`_SMALLEST`."""
        self.is_binary = True
        """Whether every reward is the smallest or the largest."""
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.disordered = 0
        """Rows that are earlier than the row before them."""
        self._latest: int | None = None

    def add_names(self, frame: pl.DataFrame) -> None:
        """Add the arms, sources and times of some rows."""
        _extend(self.arms, frame["arm"])
        if "source" in frame.columns:
            _extend(self.sources, frame["source"])
        if "time" in frame.columns and frame.height:
            self._add_times(frame["time"].to_numpy())

    def _add_times(self, times: npt.NDArray[np.int64]) -> None:
        low, high = int(times.min()), int(times.max())
        self.first_time = low if self.first_time is None else min(low, self.first_time)
        self.last_time = high if self.last_time is None else max(high, self.last_time)
        self.disordered += int((np.diff(times) < 0).sum())
        self.disordered += self._latest is not None and int(times[0]) < self._latest
        self._latest = int(times[-1])

    def add_figures(
        self,
        arms: npt.NDArray[np.int64],
        rewards: npt.NDArray[np.float64],
        propensities: npt.NDArray[np.float64] | None,
        sources: npt.NDArray[np.int64],
    ) -> None:
        """Count rows and add rewards and propensities, by the places of arms and sources."""
        size = len(self.arms)
        self.is_binary &= bool(((rewards == 0.0) | (rewards == 1.0)).all())
        pulls = np.bincount(arms, minlength=size)
        totals: npt.NDArray[np.float64] = np.zeros(size)
        totals += np.bincount(arms, weights=rewards, minlength=size)
        pulls[: self.pulls.size] += self.pulls
        totals[: self.totals.size] += self.totals
        self.pulls, self.totals = pulls, totals
        if propensities is not None:
            self._add_propensities(arms, propensities)
        known = np.bincount(sources[sources >= 0], minlength=len(self.sources))
        known[: self.source_rows.size] += self.source_rows
        self.source_rows = known

    def _add_propensities(
        self, arms: npt.NDArray[np.int64], propensities: npt.NDArray[np.float64]
    ) -> None:
        size = len(self.arms)
        with np.errstate(over="ignore"):  # the inverse of the least numbers is infinite
            inverse: npt.NDArray[np.float64] = np.zeros(size)
            inverse += np.bincount(arms, weights=1.0 / propensities, minlength=size)
        least: npt.NDArray[np.float64] = np.ones(size)
        np.minimum.at(least, arms, propensities)
        inverse[: self.inverse.size] += self.inverse
        least[: self.least.size] = np.minimum(least[: self.least.size], self.least)
        self.inverse, self.least = inverse, least
        merged = np.concatenate([self.smallest, propensities])
        if merged.size > _SMALLEST:
            merged = np.partition(merged, _SMALLEST)[:_SMALLEST]
        self.smallest = np.sort(merged)

    def contradicted(self) -> npt.NDArray[np.bool_]:
        """Return which arms have hardly a row where their propensities announce many.

        If an arm could be shown in each of N rows, with at least the smallest propensity p of its
        own rows, then the sum S of 1 / propensity over its rows has the mean N, and Maurer's
        inequality for sums that are not negative says that it is below N - x with a probability of
        at most exp(-p x^2 / 2N). An arm is contradicted if that is below :data:`UNLIKELY`, divided
        by the number of arms, and S is below a hundredth of N. None is if all of them together
        have more than a hundredth of the rows: then not some rows are wrong, but the propensities.
        """
        rows = int(self.pulls.sum())
        few = (self.inverse < _SHARE * rows) & (self.chances() < UNLIKELY)
        return few & (int(self.pulls[few].sum()) <= _SHARE * rows)

    def chances(self) -> npt.NDArray[np.float64]:
        """Return a bound on the probability that each arm has so few rows, if it has propensities.

        It is that of any arm of the log, so that a limit on it holds for all arms together.
        """
        rows = int(self.pulls.sum())
        missing = np.maximum(rows - self.inverse, 0.0)
        bounds: npt.NDArray[np.float64] = np.exp(-self.least * missing**2 / (2 * rows))
        return np.minimum(len(self.arms) * bounds, 1.0)


def _extend(places: dict[str, int], names: pl.Series) -> None:
    for name in names.drop_nulls().unique(maintain_order=True).to_list():
        places.setdefault(name, len(places))
