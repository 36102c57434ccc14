"""Results on disk: one Parquet file with the specification inside.

A file is written beside its place and moved there when it is complete, so that an interrupted
save leaves what was there before. A digest of the numbers tells damage when it is read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from armrace.errors import DamagedFile, UnwritableOutput
from armrace.policies import ArmView
from armrace.simulation.results import Result

__all__ = ["atomic_path", "load", "save", "write_text"]

_KEY = "armrace"
_FORMAT = 1


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """What a result file says of itself."""

    format: int
    spec: dict[str, Any]
    view: list[ArmView]
    seconds: float
    interrupted: bool
    digest: str


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to write to; moved onto it if all goes well, else removed."""
    temporary: Path | None = None
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        os.close(descriptor)
        temporary = Path(name)
        yield temporary
        _synchronise(temporary)
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnwritableOutput(f"cannot write {target}: {reason}.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _synchronise(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_text(target: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(target) as path:
        path.write_text(text, encoding="utf-8")


def save(result: Result, target: Path) -> None:
    """Write ``result`` to ``target``, whole or not at all."""
    header = _Header(
        format=_FORMAT,
        spec=result.spec,
        view=result.view,
        seconds=result.seconds,
        interrupted=result.interrupted,
        digest=_digest(result.rows),
    )
    with atomic_path(target) as path:
        result.rows.write_parquet(path, metadata={_KEY: msgspec.json.encode(header).decode()})


def load(path: str | Path) -> Result:
    """Read a result that :meth:`Result.save` wrote."""
    path = Path(path)
    if not path.is_file():
        raise DamagedFile(f"there is no result file {path}.")
    try:
        metadata = pl.read_parquet_metadata(path)
        header = msgspec.json.decode(metadata[_KEY], type=_Header)
        rows = pl.read_parquet(path)
    except KeyError:
        raise DamagedFile(f"{path} is a Parquet file, but not a result of armrace.") from None
    except (pl.exceptions.PolarsError, msgspec.MsgspecError, OSError) as error:
        raise DamagedFile(f"{path} is not a readable result of armrace.") from error
    if header.format != _FORMAT:
        raise DamagedFile(f"{path} has format {header.format}; this version reads {_FORMAT}.")
    if _digest(rows) != header.digest:
        raise DamagedFile(f"{path} is damaged: its numbers do not match their digest.")
    return Result(header.spec, rows, header.view, header.seconds, header.interrupted)


def _digest(rows: pl.DataFrame) -> str:
    digest = hashlib.sha256()
    for name in rows.columns:
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(rows[name].to_numpy()).tobytes())
    return digest.hexdigest()
