"""Exports of decisions as NDJSON and as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.files import atomic_path
from armrace.service.answers import DecisionRow

__all__ = ["FORMATS", "write_rows"]

FORMATS = ("ndjson", "parquet")


def write_rows(rows: Sequence[DecisionRow], path: Path | str) -> None:
    """Write rows into a file, whose ending says the format: ``.ndjson`` or ``.parquet``.

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
            place.write_bytes(to_ndjson(rows))
        else:
            to_frame(rows).write_parquet(place)


def to_ndjson(rows: Sequence[DecisionRow]) -> bytes:
    """Return rows as lines of JSON."""
    return msgspec.json.Encoder().encode_lines(rows)


def to_frame(rows: Sequence[DecisionRow]) -> Any:
    """Return rows as a data frame of Polars."""
    import polars

    schema = {
        "decision": polars.Int64,
        "time": polars.Int64,
        "arm": polars.String,
        "probability": polars.Float64,
        "by_floor": polars.Boolean,
        "unit": polars.String,
        "reward": polars.Float64,
        "reward_time": polars.Int64,
        "source": polars.String,
        "suspicion": polars.Float64,
        "counts": polars.Boolean,
    }
    return polars.DataFrame([msgspec.structs.astuple(row) for row in rows], schema, orient="row")
