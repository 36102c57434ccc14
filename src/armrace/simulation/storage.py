"""Results on disk: one Parquet file with the specification inside.

A file is written under a temporary name and renamed when it is complete, so that an interrupted
save leaves the old file. A digest of the contents detects damage when the file is read.
"""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from armrace.errors import DamagedFile, InvalidParameter, UnknownName
from armrace.files import atomic_path, check_unpacked
from armrace.forensics import Audit
from armrace.policies import ArmView
from armrace.simulation.results import Result
from armrace.simulation.stored_contents import check_contents, most_rows, row_bytes

_KEY = "armrace"
_FORMAT = 2
_MAGIC = b"PAR1"
_BLANK = b"sha256:" + b"0" * 64
_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a result file."""

    format: int
    spec: dict[str, Any]
    view: list[ArmView]
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    interrupted: bool
    digest: str
    audits: list[Audit] = []
    means: list[float] | None = None
    """Each arm's true mean, so that a result can be read without the class of its environment."""


def save(result: Result, target: Path) -> None:
    """Write ``result`` to ``target``, whole or not at all."""
    header = _Header(
        format=_FORMAT,
        spec=result.spec,
        view=result.view,
        seconds=result.seconds,
        interrupted=result.interrupted,
        digest=_BLANK.decode(),
        audits=result.audits,
        means=result.means.tolist(),
    )
    buffer = io.BytesIO()
    result.rows.write_parquet(buffer, metadata={_KEY: msgspec.json.encode(header).decode()})
    with atomic_path(target) as path:
        path.write_bytes(_sealed(buffer.getvalue()))


def load(path: str | Path) -> Result:
    """Read a result that :meth:`Result.save` wrote; see :func:`armrace.load`.

    The digest is checked before the contents are parsed: a Parquet reader that trusts damaged
    lengths can crash the process.

    Args:
        path: the file.

    Returns:
        The result.

    Raises:
        DamagedFile: the file is missing, damaged or not a result.
        UnknownName: the file has no means, and the class of its environment is not known here.
    """
    if not isinstance(path, (str, Path)):
        raise InvalidParameter(f"path must be the path of a result file; got {path!r}.")
    path = Path(path)
    if not path.is_file():
        raise DamagedFile(f"there is no result file {path}.")
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedFile(f"cannot read {path}: {error.strerror}.") from error
    if not (data.startswith(_MAGIC) and data.endswith(_MAGIC)):
        raise DamagedFile(f"{path} is not a readable result of armrace.")
    if not _SEAL.search(data):
        raise DamagedFile(f"{path} is a Parquet file, but not a result of armrace.")
    if _sealed(data) != data:
        raise DamagedFile(f"{path} is damaged: its contents do not match their digest.")
    try:
        header = _read_header(data)
        if header.format != _FORMAT:
            raise DamagedFile(
                f"{path} has format {header.format}; this version reads {_FORMAT}, and its "
                "specification runs it again."
            )
        result = _make_result(header, _read_rows(path, data, header))
        check_contents(result.spec, result.rows, len(result.audits), result.means, result.view)
    except (DamagedFile, UnknownName):
        raise
    except Exception as error:
        raise DamagedFile(f"{path} is not a readable result of armrace.") from error
    # A panic of Polars derives from BaseException, so that the clause above does not catch it.
    except pl.exceptions.PanicException as error:
        raise DamagedFile(f"{path} is not a readable result of armrace.") from error
    return result


def _make_result(header: _Header, rows: pl.DataFrame) -> Result:
    return Result(
        header.spec,
        rows,
        header.view,
        header.seconds,
        header.interrupted,
        header.audits,
        header.means,
    )


def _read_header(data: bytes) -> _Header:
    header = pl.read_parquet_metadata(io.BytesIO(data))[_KEY]
    return msgspec.json.decode(header, type=_Header)


def _read_rows(path: Path, data: bytes, header: _Header) -> pl.DataFrame:
    """Read a file's rows without trusting it: anyone can compute a valid digest.

    Columns and the number of rows are checked before any is read, since readers allocate memory for
    as much as a file announces, and an absurd amount would end the process.
    """
    announced = pl.scan_parquet(io.BytesIO(data))
    rows = announced.select(pl.len()).collect().item()
    check_unpacked(path, rows * row_bytes(announced.collect_schema()))
    if rows > most_rows(header.spec):
        raise ValueError(f"{rows} rows are announced")
    return pl.read_parquet(io.BytesIO(data))


def _sealed(data: bytes) -> bytes:
    """Return the contents with the digest filled in; it is computed with its field left blank."""
    # The header is at the end of a Parquet file; what looks like a seal before it is data.
    found = list(_SEAL.finditer(data))[-1]
    first, last = found.span()
    blank = data[:first] + _BLANK + data[last:]
    return data[:first] + b"sha256:" + hashlib.sha256(blank).hexdigest().encode() + data[last:]
