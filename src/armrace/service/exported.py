"""Reading back what :mod:`armrace.service.exports` wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.logs.survey import natural_key
from armrace.service.imports import LoggedRow, Rows

__all__ = ["rows_of_export", "survey_export"]

_NEEDED = (
    "time",
    "arm",
    "probability",
    "unit",
    "reward",
    "reward_time",
    "source",
    "suspicion",
    "counts",
    "labels",
    "void",
)


def rows_of_export(path: Path | str) -> Rows:
    """Return the rows of an export, whose ending says the format: .ndjson or .parquet.

    Raises:
        InvalidParameter: as they are read, the file turns out not to be an export of a service.
    """
    return Rows(lambda: _read_rows(path))


def _read_rows(path: Path | str) -> Iterator[LoggedRow]:
    number = 0
    for frame in _frames(Path(path)):
        for row in frame.iter_rows(named=True):
            number += 1
            try:
                fields = {name: row[name] for name in _NEEDED}
                fields["labels"] = _labels(fields["labels"])
                yield msgspec.convert(fields, LoggedRow)
            except msgspec.ValidationError as error:
                raise InvalidParameter(
                    f"{path} is not an export of a service: {error} (row {number})."
                ) from None


def _labels(given: Any) -> Any:
    """Return labels, which are text in Parquet, and have all names of a part in NDJSON."""
    if isinstance(given, str):
        return msgspec.json.decode(given)
    return {name: value for name, value in (given or {}).items() if value is not None}


def survey_export(path: Path | str) -> tuple[list[str], float]:
    """Return the arms of an export in natural order, and its smallest probability."""
    arms: set[str] = set()
    least, rows = 1.0, 0
    for frame in _frames(Path(path)):
        kinds: dict[str, Any] = {"arm": str, "probability": (int, float)}
        for name, kind in kinds.items():
            column = frame[name]
            # Polars gives all values of a column one type: the first says what the others are.
            place = int(column.is_not_null().arg_max() or 0)
            if len(column) and not isinstance(column[place], (kind, type(None))):
                wanted = "text" if kind is str else "a number"
                raise InvalidParameter(
                    f"{path} is not an export of a service: {name} must be {wanted}; got "
                    f"{frame.row(place, named=True)[name]!r:.100} (row {rows + place + 1})."
                )
        arms |= set(frame["arm"].drop_nulls().unique().to_list())
        smallest = frame["probability"].drop_nulls().min()
        least = least if smallest is None else min(least, smallest)
        rows += frame.height
    return sorted(arms, key=natural_key), least


def _frames(path: Path) -> Iterator[Any]:
    import polars as pl

    try:
        scan = pl.scan_ndjson(path) if path.suffix == ".ndjson" else pl.scan_parquet(path)
        present = scan.collect_schema().names()
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0][:200].rstrip(".")
        raise InvalidParameter(f"cannot read {path}: {reason}.") from None
    missing = [name for name in _NEEDED if name not in present]
    if missing:
        raise InvalidParameter(
            f"{path} is not an export of a service: it has no column {missing[0]!r}; for a log of "
            "another system, give --arm and --reward."
        )
    try:
        yield from scan.collect_batches(chunk_size=100_000, maintain_order=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0][:200].rstrip(".")
        raise InvalidParameter(f"cannot read {path}: {reason}.") from None
