"""Exports of decisions as NDJSON and as Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.files import atomic_path
from armrace.service.loading import in_parts
from armrace_client.answers import DecisionRow

__all__ = ["DEFAULT_FORMAT", "FORMATS", "write_rows"]

FORMATS = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
"""The media type of each format."""
DEFAULT_FORMAT = "ndjson"
_ROWS_AT_ONCE = 50_000
"""With their conversion, some 60 to 80 MB."""


def write_rows(rows: Iterable[DecisionRow], path: Path | str) -> None:
    """Write rows into a file, whose ending says the format: ``.ndjson`` or ``.parquet``.

    Few rows are in memory at a time.

    Args:
        rows: the rows.
        path: the file.
    """
    target = Path(path)
    kind = target.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise InvalidParameter(f"an export must end in .ndjson or .parquet; got {target.name!r}.")
    with atomic_path(target) as place:
        if kind == "ndjson":
            _write_ndjson(rows, place)
        else:
            _write_parquet(rows, place)


def _write_ndjson(rows: Iterable[DecisionRow], path: Path) -> None:
    encoder = msgspec.json.Encoder()
    with path.open("wb") as file:
        for part in in_parts(rows, _ROWS_AT_ONCE):
            file.write(encoder.encode_lines(part))


def _write_parquet(rows: Iterable[DecisionRow], path: Path) -> None:
    """Write a file for each part first: Polars cannot append to a Parquet file."""
    import polars

    # Beside the target, where there is room for it: the usual place may be memory.
    with TemporaryDirectory(dir=path.parent) as folder:
        files = []
        for number, part in enumerate(in_parts(rows, _ROWS_AT_ONCE)):
            files.append(Path(folder) / f"{number}.parquet")
            _to_frame(part).write_parquet(files[-1])
        if files:
            polars.scan_parquet(files).sink_parquet(path)
        else:
            _to_frame([]).write_parquet(path)


def _to_frame(rows: list[DecisionRow]) -> Any:
    """Return rows as a data frame of Polars."""
    import polars

    schema = {
        "decision": polars.Int64,
        "time": polars.Int64,
        "arm": polars.String,
        "probability": polars.Float64,
        "by": polars.String,
        "unit": polars.String,
        "request": polars.String,
        "source": polars.String,
        "labels": polars.String,
        "reward": polars.Float64,
        "reward_time": polars.Int64,
        "suspicion": polars.Float64,
        "counts": polars.Boolean,
        "void": polars.Boolean,
    }
    # Labels as JSON: a column of Parquet has one type, and labels have names of their own.
    rows = [
        msgspec.structs.replace(row, labels=msgspec.json.encode(row.labels).decode())
        for row in rows
    ]
    return polars.DataFrame([msgspec.structs.astuple(row) for row in rows], schema, orient="row")
