"""Logs that other systems have written: surveyed once, then read in batches."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from armrace.contexts import LEAST_ROUNDS, Schema, read_schema
from armrace.errors import InvalidParameter
from armrace.formatting import count, figure, percent
from armrace.limits import MOST_ARMS
from armrace.offline.readers import FEATURE, Columns, make_columns, pieces_of
from armrace.offline.rows import RowReport, checked_rows
from armrace.statistics.distributions import chi_square_tail

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


_KEPT_ROWS = 10_000_000
"""Up to this many rows are kept in memory, some 30 bytes each; longer logs are read again."""
_DAY = 86_400_000.0
_ODD_ROWS, _FAR_BELOW = 10_000, 10.0
"""One in so many rows may have propensities so many times smaller than all others."""

Floats = npt.NDArray[np.float64]


class LogRows(NamedTuple):
    """Consecutive usable rows of a log."""

    arms: npt.NDArray[np.int64]
    """The places of the arms in :attr:`Log.arms`."""
    rewards: Floats
    """Scaled to [0, 1]."""
    propensities: Floats
    sources: npt.NDArray[np.int64]
    """The places of the sources in :attr:`Log.sources`; -1 where a row has none."""
    units: npt.NDArray[np.uint64]
    """A hash of each unit; empty if the log has none."""
    codes: npt.NDArray[np.int16]
    """The encoded features, one row each; without any if the log has no schema."""
    leaves: npt.NDArray[np.int64]
    """The leaf of each row; 0 if the log has no schema."""


class Log:
    """The rows of a log that can be used, and what is known of all of them.

    Args:
        place: a file or a data frame.
        columns: which columns are read.
        bounds: the smallest and the largest reward.
        schema: the features that are read, if any.
    """

    def __init__(
        self,
        place: Any,
        columns: Columns,
        bounds: tuple[float, float] = (0.0, 1.0),
        schema: Schema | None = None,
    ) -> None:
        self.place = place
        self.schema = schema
        self.feature_key = b""
        """The key by which texts fall into buckets, in rows that are read again."""
        self.columns = columns
        self.bounds = bounds
        self.report = RowReport()
        self.arms: list[str] = []
        """The arms in natural order, so that no figure depends on which came first."""
        self.sources: list[str] = []
        self.pulls: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        """How many rows show each arm."""
        self.totals: Floats = np.zeros(0)
        """The sum of the rewards of each arm, scaled to [0, 1]."""
        self.source_rows: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.least_propensity = 0.0
        self.usual_propensity = 0.0
        """The smallest propensity but for one in 10,000 rows, if those are ten times smaller."""
        self.announced: Floats = np.zeros(0)
        """The share of the rows in which each arm could be shown, as its propensities announce."""
        self.chances: Floats = np.zeros(0)
        """A bound on the probability of so few rows of an arm that could always be shown."""
        self.is_binary = True
        """Whether every reward is the smallest or the largest."""
        self.first_time: int | None = None
        self.last_time: int | None = None
        self._kept: list[LogRows] | None = []
        self._contradicted: dict[str, str] = {}
        """The arms that are left out, and why."""
        self._survey()

    @property
    def name(self) -> str:
        """The file of the log, or what it is."""
        return str(self.place) if isinstance(self.place, (str, Path)) else "data frame"

    @property
    def rows(self) -> int:
        """How many rows can be used."""
        return self.report.used

    @property
    def has_propensities(self) -> bool:
        """Whether the log says with which probability it showed its arms."""
        return self.columns.propensity is not None

    @property
    def mean_inverse_propensity(self) -> float:
        """The mean of 1 / propensity: the number of arms, if every arm can always be shown."""
        return float(self.announced.sum())

    @property
    def rates(self) -> Floats:
        """The mean reward of each arm, scaled to [0, 1]."""
        return self.totals / np.maximum(self.pulls, 1)

    @property
    def days(self) -> float | None:
        """The time from the first to the last row in days, if the log has times."""
        if self.first_time is None or self.last_time is None:
            return None
        return (self.last_time - self.first_time) / _DAY

    def frames(self, report: RowReport | None = None) -> Iterator[pl.DataFrame]:
        """Read the usable rows again, with all columns; see :func:`checked_rows`.

        Args:
            report: where rows that cannot be used are counted; by default nowhere.
        """
        noted = RowReport() if report is None else report
        for piece in pieces_of(self.place, self.columns):
            yield checked_rows(
                piece, self.bounds, noted, self._contradicted, self.schema, self.feature_key
            )

    def batches(self) -> Iterator[LogRows]:
        """Read the usable rows in order."""
        if self._kept is not None:
            yield from self._kept
            return
        arms = {arm: place for place, arm in enumerate(self.arms)}
        sources = {source: place for place, source in enumerate(self.sources)}
        for frame in self.frames():
            yield self._batch(frame, arms, sources)

    def sample(self, most: int) -> LogRows:
        """Return every n-th row, so that there are at most so many.

        Args:
            most: how many rows there may be.
        """
        stride, first, parts = -(-self.rows // most), 0, []
        for batch in self.batches():
            start = -first % stride
            parts.append([column[start::stride] for column in batch])
            first += batch.arms.size
        return LogRows(*map(np.concatenate, zip(*parts, strict=True)))

    def with_leaves(self, schema: Schema) -> Log:
        """Return the log with other leaves of the same features.

        Args:
            schema: the features of the log, with other leaves.
        """
        return Log(self.place, self.columns, self.bounds, schema)

    def _survey(self) -> None:
        """Read the log once: arms, rates, sources, times and rows that cannot be used."""
        found, kept = Survey(), self._kept
        for frame in self.frames(self.report):
            found.add_names(frame)
            if len(found.arms) > MOST_ARMS:
                raise InvalidParameter(
                    f"the column {self.columns.arm} must have at most {count(MOST_ARMS)} "
                    f"different arms; got more in the first {count(self.report.rows)} rows."
                )
            batch = self._batch(frame, found.arms, found.sources)
            known = batch.propensities if self.has_propensities else None
            found.add_figures(batch.arms, batch.rewards, known, batch.sources)
            # Once a log is too long it is never kept, since part of it would be of no use.
            kept = None if kept is None or self.report.used > _KEPT_ROWS else [*kept, batch]
        if self.report.used == 0:
            raise InvalidParameter(
                f"{self.name} has no usable row: {' '.join(self.report.sentences())}"
            )
        if self.has_propensities and (contradicted := found.contradicted()).any():
            self._contradicted = {
                arm: _contradiction(arm, found, place)
                for arm, place in found.arms.items()
                if contradicted[place]
            }
            # Read once more without them: they count for nothing, not for the least propensity.
            self.report, self._kept = RowReport(), []
            self._survey()
            return
        self._kept = kept
        self._take(found)

    def _take(self, found: Survey) -> None:
        labels = list(found.arms)
        order = sorted(range(len(labels)), key=lambda place: natural_key(labels[place]))
        self.arms = [labels[place] for place in order]
        self.sources = list(found.sources)
        self.pulls, self.totals = found.pulls[order], found.totals[order]
        self.source_rows, self.is_binary = found.source_rows, found.is_binary
        self.first_time, self.last_time = found.first_time, found.last_time
        if len(self.arms) < 2:
            raise InvalidParameter(
                f"the column {self.columns.arm} must have at least 2 arms; every usable row has "
                f"{self.arms[0]!r}."
            )
        if found.disordered:
            self.report.remarks.append(
                f"{count(found.disordered)} rows are earlier than the row before them; they are "
                "taken in the order of the log. Sort it by time if that is the true order."
            )
        uniform = 1.0 / len(self.arms)
        self.least_propensity = self.usual_propensity = uniform
        if self.has_propensities:
            self._take_propensities(found, order)
        if self._kept is not None:
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            self._kept = [each._replace(arms=place[each.arms]) for each in self._kept]
            if not self.has_propensities:
                self._kept = [
                    each._replace(propensities=np.full(each.arms.size, uniform))
                    for each in self._kept
                ]

    def _take_propensities(self, found: Survey, order: list[int]) -> None:
        self.announced = found.inverse[order] / self.report.used
        self.chances = found.chances()[order]
        odd = min(self.report.used // _ODD_ROWS, found.smallest.size - 1)
        least, others = float(found.smallest[0]), float(found.smallest[odd])
        self.least_propensity = least
        self.usual_propensity = others if others > _FAR_BELOW * least else least

    def _batch(
        self, frame: pl.DataFrame, arms: Mapping[str, int], sources: Mapping[str, int]
    ) -> LogRows:
        columns = set(frame.columns)
        propensities = np.full(frame.height, self.least_propensity)
        if self.has_propensities:
            propensities = np.ascontiguousarray(frame["propensity"].to_numpy(), dtype=np.float64)
        return LogRows(
            _coded(frame["arm"], arms),
            np.ascontiguousarray(frame["reward"].to_numpy(), dtype=np.float64),
            propensities,
            _coded(frame["source"], sources) if "source" in columns else np.zeros(0, np.int64),
            frame["unit"].hash(seed=0).to_numpy() if "unit" in columns else np.zeros(0, np.uint64),
            *self._contexts(frame),
        )

    def _contexts(self, frame: pl.DataFrame) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.int64]]:
        """Return the codes and leaves of some rows; none if there is no schema."""
        if self.schema is None:
            return np.zeros((0, 0), np.int16), np.zeros(0, np.int64)
        codes: npt.NDArray[np.int16] = np.empty((frame.height, len(self.schema.features)), np.int16)
        for place, name in enumerate(self.schema.features):
            codes[:, place] = frame[FEATURE + name].to_numpy()
        return codes, np.ascontiguousarray(frame["leaf"].to_numpy())


def _contradiction(arm: str, found: Survey, place: int) -> str:
    """Say why an arm is left out."""
    rows, inverse = int(found.pulls[place]), float(found.inverse[place])
    announced = found.pulls.sum() / (inverse / rows)
    return (
        f"the arm {arm!r} has {count(rows)} {'row' if rows == 1 else 'rows'}, where its "
        f"propensities announce about {count(round(announced))}"
    )


def _coded(names: pl.Series, places: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Return the place of each name; -1 where there is none."""
    if not places:
        return np.full(len(names), -1, dtype=np.int64)
    coded = names.replace_strict(
        list(places), list(places.values()), default=-1, return_dtype=pl.Int64
    )
    return np.ascontiguousarray(coded.fill_null(-1).to_numpy())


def open_log(
    place: Any,
    columns: Columns | Mapping[str, str] | Path | str | None = None,
    *,
    rewards: Sequence[float] = (0.0, 1.0),
    schema: Schema | Mapping[str, Any] | Path | str | None = None,
    **given: str | None,
) -> Log:
    """Survey a log: its arms, their rates, and the rows that cannot be used.

    Args:
        place: a file of CSV, NDJSON or Parquet, or a data frame of Polars, pandas or anything else
            that exports Arrow.
        columns: which columns are read: a mapping of roles to names, or the TOML file of one.
        rewards: the smallest and the largest reward, which are scaled to 0 and 1.
        schema: the features of the visitors, which are columns of the same names: a schema, plain
            data of one, or the file of one, in JSON or TOML.
        given: single columns by role: ``arm``, ``reward``, ``propensity``, ``time``, ``source``
            and ``unit``. They have precedence over ``columns``.

    Returns:
        The log, whose rows can be read again.

    Raises:
        InvalidParameter: there is no usable row, or fewer than two arms.
        UnknownName: the log has no such column.
    """
    bounds = tuple(rewards)
    numbers = all(isinstance(end, (int, float)) and math.isfinite(end) for end in bounds)
    if len(bounds) != 2 or not numbers or not bounds[0] < bounds[1]:
        raise InvalidParameter(
            f"rewards must be the smallest and the largest reward, as 0,1; got {rewards!r}."
        )
    chosen, declared = make_columns(columns, **given), read_schema(schema)
    if declared is not None:
        chosen = msgspec.structs.replace(chosen, features=tuple(declared.features))
    return Log(place, chosen, (float(bounds[0]), float(bounds[1])), declared)


_FACTOR = 1.4
_NAMED = 3


def doubts_of(log: Log, floor: float) -> list[str]:
    """Return a sentence for each doubt about the propensities of a log, and about its leaves."""
    found = []
    arms = len(log.arms)
    leaves, rounds = 1 if log.schema is None else log.schema.shape.leaves, log.rows * floor
    if leaves > 1 and rounds < leaves * arms * LEAST_ROUNDS:
        found.append(
            f"A run has {figure(rounds / (leaves * arms))} rounds for each of {arms} arms in each "
            f"of {leaves} leaves, where {LEAST_ROUNDS} are needed: policies with leaves have "
            "hardly begun to learn when the log ends."
        )
    if not log.has_propensities:
        chance = _chance_if_uniform(log)
        if chance < UNLIKELY:
            fewest, most = int(log.pulls.min()), int(log.pulls.max())
            found.append(
                "No propensities are given, so every arm is taken to have been shown with the same "
                f"probability; but arms have from {count(fewest)} to {count(most)} rows, which "
                f"would happen with a probability of {figure(chance)}. The estimates are then "
                "wrong; give --propensity COLUMN."
            )
        return found
    inverse = log.mean_inverse_propensity
    if not arms / _FACTOR <= inverse <= arms * _FACTOR:
        found.append(
            f"The mean of 1 / propensity is {figure(inverse)}; with {arms} arms that can always be "
            f"shown it would be near {arms}. Some arms could not be shown at times, the "
            "propensities are not those of the arms shown, or a few rows with tiny ones dominate."
        )
    else:
        found += _doubted_arms(log)
    if floor > log.least_propensity:
        found.append(
            f"Propensities below {figure(floor)} are raised to it; the smallest is "
            f"{figure(log.least_propensity)}. This trades bias for variance: arms are "
            "underestimated where they were shown with a smaller propensity."
        )
    elif floor * log.rows < 1.0:
        found.append(
            f"The smallest propensity is {figure(floor)}, so that rejection replay accepts "
            f"{percent(floor)} of the rows, which is none of them; a --floor accepts more, with a "
            "bias against arms of smaller propensities."
        )
    return found


def _doubted_arms(log: Log) -> list[str]:
    """Name the arms that have too few rows for their propensities."""
    doubted = np.flatnonzero((log.chances < UNLIKELY) & (log.announced < 1.0 / _FACTOR))
    worst = sorted(doubted, key=lambda arm: log.announced[arm])
    listed = [f"{log.arms[arm]} could be shown in {percent(log.announced[arm])}" for arm in worst]
    if not listed:
        return []
    more = f" and {count(len(listed) - _NAMED)} more" if len(listed) > _NAMED else ""
    return [
        f"Arms have fewer rows than their propensities announce: {', '.join(listed[:_NAMED])} of "
        f"the rows{more}. They could not be shown at times, or their propensities are too large; "
        "the estimates of what policies earn by them are then wrong."
    ]


def _chance_if_uniform(log: Log) -> float:
    """Return the probability that uniform choices differ at least so much."""
    expected = log.rows / len(log.arms)
    # With fewer rows an arm the statistic does not yet have the chi-square law.
    if expected < 5.0:
        return 1.0
    statistic = float(((log.pulls - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(log.arms) - 1)
