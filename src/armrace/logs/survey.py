"""What one pass over a log finds out: names, rates, times."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import polars as pl

__all__ = ["Survey", "natural_key"]

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
        self.least_propensity = 1.0
        self.inverse_propensities = 0.0
        """The sum of 1 / propensity."""
        self.is_binary = True
        """Whether every reward is the smallest or the largest."""
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.disordered = 0
        """Rows that are earlier than the row before them."""
        self._latest: int | None = None

    def add_names(self, frame: pl.DataFrame) -> None:
        """Add the arms, sources, times and propensities of some rows."""
        _extend(self.arms, frame["arm"])
        if "source" in frame.columns:
            _extend(self.sources, frame["source"])
        if "propensity" in frame.columns and frame.height:
            propensities = frame["propensity"].to_numpy()
            self.least_propensity = min(self.least_propensity, float(propensities.min()))
            with np.errstate(over="ignore"):  # the inverse of the least numbers is infinite
                self.inverse_propensities += float((1.0 / propensities).sum())
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
        sources: npt.NDArray[np.int64],
    ) -> None:
        """Count rows and add rewards, by the places of arms and sources."""
        size = len(self.arms)
        self.is_binary &= bool(((rewards == 0.0) | (rewards == 1.0)).all())
        pulls = np.bincount(arms, minlength=size)
        totals: npt.NDArray[np.float64] = np.zeros(size)
        totals += np.bincount(arms, weights=rewards, minlength=size)
        pulls[: self.pulls.size] += self.pulls
        totals[: self.totals.size] += self.totals
        self.pulls, self.totals = pulls, totals
        known = np.bincount(sources[sources >= 0], minlength=len(self.sources))
        known[: self.source_rows.size] += self.source_rows
        self.source_rows = known


def _extend(places: dict[str, int], names: pl.Series) -> None:
    for name in names.drop_nulls().unique(maintain_order=True).to_list():
        places.setdefault(name, len(places))
