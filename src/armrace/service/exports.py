"""Exports of decisions as NDJSON and as Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from armrace.errors import InvalidParameter
from armrace.files import atomic_path
from armrace.service.loading import in_parts
from armrace_client.answers import DecisionRow

FORMATS = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
"""The media type of each format."""
_ROWS_AT_ONCE = 2000
"""More would keep the interpreter from others for milliseconds while they are converted."""


def write_rows(rows: Iterable[DecisionRow], path: Path | str) -> None:
    """Write rows into a file, whose ending says the format; few are in memory at a time."""
    target = Path(path)
    kind = target.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise InvalidParameter(f"an export must end in .ndjson or .parquet; got {target.name!r}.")
    parts = in_parts(rows, _ROWS_AT_ONCE)
    with atomic_path(target) as place:
        if kind == "parquet":
            _write_parquet(parts, place)
        else:
            with place.open("wb") as file:
                file.writelines(map(msgspec.json.Encoder().encode_lines, parts))


def _write_parquet(parts: Iterable[list[DecisionRow]], path: Path) -> None:
    """Write a file for each part first: Polars cannot append to a Parquet file."""
    import polars

    # Beside the target, where there is room for it: the usual place may be memory.
    with TemporaryDirectory(dir=path.parent) as folder:
        files = []
        for number, part in enumerate(chain([[]], parts)):  # the columns, if there are no rows
            files.append(Path(folder) / f"{number}.parquet")
            _to_frame(part).write_parquet(files[-1])
        polars.scan_parquet(files).sink_parquet(path)


def _to_frame(rows: list[DecisionRow]) -> Any:
    """Return rows as a data frame of Polars."""
    import polars

    # Labels as JSON: a column of Parquet has one type, and labels have names of their own.
    values = [
        msgspec.structs.astuple(
            msgspec.structs.replace(row, labels=msgspec.json.encode(row.labels).decode())
        )
        for row in rows
    ]
    schema = {field.name: field.type for field in msgspec.structs.fields(DecisionRow)}
    return polars.DataFrame(values, {**schema, "by": str, "labels": str}, orient="row")
