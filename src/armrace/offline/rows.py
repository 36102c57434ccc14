"""The rows of a log: checked, converted, and counted where they cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
import numpy as np
import polars as pl

from armrace.contexts import LONGEST_TEXT, Boolean, Category, Number, Schema
from armrace.errors import BadFeature
from armrace.formatting import count, number_of, percent
from armrace.offline.readers import FEATURE, STRUCTURED, Piece

_EXAMPLES = 5


class RowProblem(msgspec.Struct, kw_only=True):
    """A reason why rows cannot be used."""

    reason: str
    rows: int = 0
    examples: list[int] = msgspec.field(default_factory=list)
    """The first few rows of them, counted from 1 after the header."""

    def words(self) -> str:
        """Say it in one sentence."""
        more = ", ..." if self.rows > len(self.examples) else ""
        where = ", ".join(count(row) for row in self.examples) + more
        return f"{number_of(self.rows, 'row')} left out: {self.reason} (row {where})."


class RowReport(msgspec.Struct, kw_only=True):
    """Counts of the rows of a log that were read, used and left out."""

    rows: int = 0
    used: int = 0
    problems: list[RowProblem] = msgspec.field(default_factory=list)
    remarks: list[str] = msgspec.field(default_factory=list)
    """What else a reader should know, such as rows that are out of order."""

    def note(self, reason: str, rows: Iterable[int]) -> None:
        """Count rows that cannot be used.

        Args:
            reason: why the rows cannot be used.
            rows: the numbers of the rows.
        """
        numbers = list(rows)
        if not numbers:
            return
        found = next((each for each in self.problems if each.reason == reason), None)
        if found is None:
            found = RowProblem(reason=reason)
            self.problems.append(found)
        found.rows += len(numbers)
        found.examples += numbers[: _EXAMPLES - len(found.examples)]

    @property
    def left_out(self) -> int:
        """How many rows cannot be used."""
        return self.rows - self.used

    def sentences(self) -> list[str]:
        """Say how many rows were used, and name each reason with its count and first rows."""
        share = f" ({percent(self.used / self.rows)})" if 0 < self.used < self.rows else ""
        verb = "is" if self.rows == 1 else "are"
        first = f"{count(self.used)} of {number_of(self.rows, 'row')}{share} {verb} used."
        listed = sorted(self.problems, key=lambda each: -each.rows)
        return [first, *(each.words() for each in listed), *self.remarks]

    def __str__(self) -> str:
        """Return the sentences, one a line."""
        return "\n".join(self.sentences())


_TRUTHS = {"true": "1", "false": "0"}
_BEGIN, _END = -62_135_596_800_000, 253_402_300_800_000
"""The years 1 to 9999 in milliseconds since 1970; no other date can be written."""
_UNITS = ((1e11, 1e3), (_END, 1.0), (_END * 1e3, 1e-3), (_END * 1e6, 1e-6))
"""Sizes below which numbers are seconds, milli-, micro- and nanoseconds since 1970, and how many
milliseconds each has: from 1979 to 5138 no unit is mistaken for another."""
_FORMATS = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%d")
_LONGEST_NAME = 256
_NOT_UTF8 = "\N{REPLACEMENT CHARACTER}"
"""What stands for bytes that are not UTF-8."""


def checked_rows(
    piece: Piece,
    bounds: tuple[float, float],
    report: RowReport,
    refused: Mapping[str, str] | None = None,
    schema: Schema | None = None,
    key: bytes = b"",
) -> pl.DataFrame:
    """Return the usable rows of a piece, and count the others in the report.

    Features are encoded; with them there is a column ``leaf``.
    """
    raw = piece.frame
    if piece.remark:
        report.remarks.append(piece.remark)
    numbers = np.arange(piece.first, piece.first + raw.height)
    columns = {"row": pl.Series(numbers, dtype=pl.Int64)}
    branches: dict[str, np.ndarray] = {}
    usable = np.ones(raw.height, dtype=np.bool_)
    for reason in dict.fromkeys(piece.unreadable.values()):
        places = [at for at, why in piece.unreadable.items() if why == reason]
        _exclude(report, usable, numbers, reason, np.isin(np.arange(raw.height), places))
    for role in raw.columns:
        given = raw[role]
        if is_structured(given):
            every = np.ones(raw.height, dtype=np.bool_)
            _exclude(report, usable, numbers, STRUCTURED.format(role), every)
            given = pl.Series(role, [None] * raw.height, dtype=pl.String)
        if schema is not None and role.startswith(FEATURE):
            name = role.removeprefix(FEATURE)
            columns[role], branches[name], faults = _read_feature(schema, name, given, key)
        else:
            columns[role], faults = _READERS[role](given, bounds)
        for reason, mask in faults:
            _exclude(report, usable, numbers, reason, mask)
    if schema is not None:
        columns["leaf"] = pl.Series(np.full(raw.height, schema.leaf(branches), dtype=np.int64))
    for arm, reason in (refused or {}).items():
        _exclude(report, usable, numbers, reason, _flags(columns["arm"] == arm))
    report.rows += raw.height
    report.used += int(usable.sum())
    return pl.DataFrame(columns).filter(pl.Series(usable))


def is_structured(raw: pl.Series) -> bool:
    """Whether a column has lists or objects in place of values."""
    return raw.dtype.is_nested() or raw.dtype == pl.Object


def _exclude(
    report: RowReport,
    usable: np.ndarray,
    numbers: np.ndarray,
    reason: str,
    mask: np.ndarray,
) -> None:
    """Count rows that are excluded for this reason, each row for its first reason only."""
    struck = mask & usable
    if struck.any():
        report.note(reason, numbers[struck].tolist())
        usable[struck] = False


Faults = Iterator[tuple[str, np.ndarray]]
Reader = Callable[[pl.Series, tuple[float, float]], tuple[pl.Series, Faults]]


def _read_name(role: str, raw: pl.Series, bounds: tuple[float, float]) -> tuple[pl.Series, Faults]:
    text = read_names(raw)
    return text, iter([(f"the {role} is missing", _flags(text.is_null())), *_unfit(role, text)])


def _read_label(role: str, raw: pl.Series, bounds: tuple[float, float]) -> tuple[pl.Series, Faults]:
    text = read_names(raw)
    return text, _unfit(role, text)


def read_names(raw: pl.Series) -> pl.Series:
    """Text without surrounding spaces; empty text is missing."""
    if raw.dtype in (pl.Float32, pl.Float64):
        raw = raw.fill_nan(None)
        if (raw.drop_nulls() % 1 == 0).all():  # whole numbers beside gaps, as pandas writes them
            raw = raw.cast(pl.Int64, strict=False)
    text = raw.cast(pl.String, strict=False)
    different = text.unique()
    if ((different.str.strip_chars() == different) & (different != "")).all():
        return text  # as nearly always, and much faster than to look at every row
    text = text.str.strip_chars()
    return pl.select(pl.when(text != "").then(text)).to_series()


def _unfit(role: str, text: pl.Series) -> Faults:
    different = text.unique()
    if different.str.contains(_NOT_UTF8, literal=True).any():
        # Names in another encoding that differ in such a character only would become one name.
        reason = f"the {role} is not in UTF-8, to which the file must be converted"
        yield reason, _flags(text.str.contains(_NOT_UTF8, literal=True))
    if (different.str.len_bytes().max() or 0) > _LONGEST_NAME:  # type: ignore[operator]
        reason = f"the {role} has more than {_LONGEST_NAME} characters"
        yield reason, _flags(text.str.len_chars() > _LONGEST_NAME)


def _flags(mask: pl.Series) -> np.ndarray:
    """Return a mask as an array; what is missing counts as false."""
    flags: np.ndarray = mask.fill_null(False).to_numpy()
    return flags


def read_numbers(raw: pl.Series) -> pl.Series:
    """Numbers where there are any; text such as ``true`` counts as 1."""
    if raw.dtype == pl.String:
        raw = raw.str.strip_chars()
        read = raw.cast(pl.Float64, strict=False)
        if read.null_count() > raw.null_count():
            raw = raw.str.to_lowercase().replace(_TRUTHS)
            read = raw.cast(pl.Float64, strict=False)
        return read
    try:
        return raw.cast(pl.Float64, strict=False)
    except pl.exceptions.PolarsError:
        return pl.Series(raw.name, [None] * len(raw), dtype=pl.Float64)


def are_missing(raw: pl.Series) -> np.ndarray:
    """Return which values are missing or empty."""
    empty = raw.is_null()
    return _flags(empty | (raw.str.strip_chars() == "") if raw.dtype == pl.String else empty)


def _read_reward(raw: pl.Series, bounds: tuple[float, float]) -> tuple[pl.Series, Faults]:
    low, high = bounds
    array, faults = _read_number("reward", raw, low, high, f"[{low:g}, {high:g}]")
    scaled = array if bounds == (0.0, 1.0) else (array - low) / (high - low)
    return pl.Series(scaled), faults


def _read_propensity(raw: pl.Series, bounds: tuple[float, float]) -> tuple[pl.Series, Faults]:
    array, faults = _read_number("propensity", raw, math.ulp(0.0), 1.0, "(0, 1]")
    return pl.Series(array), faults


def _read_number(
    role: str, raw: pl.Series, low: float, high: float, limits: str
) -> tuple[np.ndarray, Faults]:
    values = read_numbers(raw)
    array = values.fill_null(np.nan).to_numpy()
    with np.errstate(invalid="ignore"):
        outside = ~((array >= low) & (array <= high))
    faults = [
        (f"the {role} is missing", are_missing(raw)),
        (f"the {role} is not a number", _flags(values.is_null()) | np.isnan(array)),
        (f"the {role} is outside {limits}", outside),
    ]
    return array, iter(faults)


def _read_time(raw: pl.Series, bounds: tuple[float, float]) -> tuple[pl.Series, Faults]:
    times = _milliseconds(raw)
    faults = [
        ("the time is missing", are_missing(raw)),
        ("the time cannot be read", _flags(times.is_null())),
    ]
    return times, iter(faults)


def _milliseconds(raw: pl.Series) -> pl.Series:
    """Times in milliseconds since 1970; missing where none can be read in the years 1 to 9999."""
    if raw.dtype == pl.Date:
        raw = raw.cast(pl.Datetime("ms"))
    times = raw.dt.epoch("ms") if isinstance(raw.dtype, pl.Datetime) else _read_numbers_or_text(raw)
    return times.set(~times.is_between(_BEGIN, _END, closed="left"), None)


def _read_numbers_or_text(raw: pl.Series) -> pl.Series:
    """Milliseconds since 1970, of numbers of any unit and of dates in text."""
    numbers = read_numbers(raw)
    size = numbers.abs()
    scaled = pl.lit(None, dtype=pl.Float64)
    for limit, milliseconds in reversed(_UNITS):
        scaled = pl.when(size < limit).then(numbers * milliseconds).otherwise(scaled)
    plain = pl.select(scaled.round().cast(pl.Int64, strict=False)).to_series()
    if raw.dtype != pl.String or not _flags(numbers.is_null() & raw.is_not_null()).any():
        return plain
    written = raw.str.strip_chars().str.replace(" ", "T")
    for form in _FORMATS:
        read = written.str.to_datetime(form, strict=False, time_unit="ms", time_zone="UTC")
        plain = plain.fill_null(read.dt.epoch("ms"))
        if not plain.null_count():
            break
    return plain


_READERS: dict[str, Reader] = {
    "arm": partial(_read_name, "arm"),
    "reward": _read_reward,
    "propensity": _read_propensity,
    "time": _read_time,
    "source": partial(_read_label, "source"),
    "unit": partial(_read_label, "unit"),
    "identifier": partial(_read_name, "identifier"),
    "reason": partial(_read_label, "reason"),
}


def _read_feature(
    schema: Schema, name: str, raw: pl.Series, key: bytes
) -> tuple[pl.Series, np.ndarray, Faults]:
    """Return the codes of a feature and the branches that they take towards a leaf."""
    kind = type(schema.features[name])
    if raw.dtype in (pl.Float32, pl.Float64):
        raw = raw.fill_nan(None)
    values = read_names(raw) if kind is Category else read_numbers(raw).fill_nan(None)
    # Every value once, as a service would encode it.
    unique = values.unique().drop_nulls().to_list()
    known = {each: _encoded(schema, name, each, key) for each in unique}
    usable = {each: parts for each, parts in known.items() if parts is not None}
    codes, branches = (
        _replaced(values, {each: parts[at] for each, parts in usable.items()}) for at in (0, 1)
    )
    missing = are_missing(raw)
    unfit = _flags(codes.is_null()) & ~missing
    faults = [(f"the feature {name} is {_UNFIT[kind]}", unfit)]
    if schema.missing == "bucket":
        code, branch = schema.encode_value(name, None)
        codes, branches = (
            codes.set(pl.Series(missing), code),
            branches.set(pl.Series(missing), branch),
        )
    else:
        faults.append((f"the feature {name} is missing", missing))
    return codes, branches.fill_null(0).to_numpy(), iter(faults)


_UNFIT = {
    Number: "not a finite number",
    Boolean: "not true or false",
    Category: f"a text of more than {LONGEST_TEXT} characters",
}


def _encoded(schema: Schema, name: str, value: str | float, key: bytes) -> tuple[int, int] | None:
    """Encode a value as it stands in a file; ``None`` if it cannot be."""
    if isinstance(schema.features[name], Boolean):
        return schema.encode_value(name, bool(value)) if value in (0.0, 1.0) else None
    try:
        return schema.encode_value(name, value, key)
    except BadFeature:
        return None


def _replaced(values: pl.Series, codes: Mapping[Any, int]) -> pl.Series:
    """Return the code of each value; null where it has none."""
    if not codes:
        return pl.Series(values.name, [None] * len(values), dtype=pl.Int16)
    return values.replace_strict(
        list(codes), list(codes.values()), default=None, return_dtype=pl.Int16
    )
