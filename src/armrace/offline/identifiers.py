"""Files of identifiers: the decisions, units or sources that a fraud team has judged, with reasons.

A file is CSV, NDJSON or Parquet, or plain text with one identifier in each line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from armrace.errors import InvalidParameter
from armrace.offline.readers import NamedColumns, listed_pieces, pieces_of
from armrace.offline.rows import RowReport, checked_rows
from armrace_client.operations import IDENTIFIERS, LABEL_BYTES

_SEPARATORS = ",;\t|{"
"""What a line has that is more than an identifier."""


_LABEL = "label:"
_LONGEST = {kind[:-1]: (200, "characters") for kind in IDENTIFIERS} | {
    "decision": (256, "characters")
}
"""How long an identifier may be."""


def selector_of(by: str) -> Callable[[list[str]], dict[str, Any]]:
    """Return what makes a selection of identifiers: the fields of a ruling.

    Args:
        by: what they are of: ``decision``, ``request``, ``unit``, ``source`` or ``label:NAME``.
    """
    label = by.removeprefix(_LABEL)
    if by in _LONGEST:
        return lambda names: {f"{by}s": names}
    if label == by or not label:
        kinds = ", ".join(_LONGEST)
        raise InvalidParameter(f"by must be {kinds} or label:NAME; got {by!r:.100}.")
    return lambda names: {"labels": {label: names}}


class IdentifierColumns(NamedColumns, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The columns of a file of identifiers."""

    of = "file"
    identifier: str
    reason: str | None = None


class Part(NamedTuple):
    """Some identifiers of a file, each once, with their reasons if the file has them."""

    identifiers: list[str]
    reasons: list[str] | None


class IdentifierFile:
    """The identifiers of a file, which are read piece by piece.

    Args:
        path: the file.
        by: what the identifiers are of, as :func:`selector_of` takes it.
        column: where they are; by default the column called like what they are of. Without a column
            the file may be plain text, whose first line is an identifier too, unless it is that
            name.
        reasons: where the reasons are, if there are any.
    """

    def __init__(
        self, path: Path, by: str, column: str | None = None, reasons: str | None = None
    ) -> None:
        label = by.removeprefix(_LABEL)
        self._path, self._longest = path, _LONGEST.get(by, (LABEL_BYTES, "bytes"))
        self._columns = IdentifierColumns(identifier=column or label, reason=reasons)
        self._is_list = column is None and reasons is None and _is_list(path, label)
        self.report = RowReport()
        for _ in self._frames(self.report):
            pass
        if not self.report.used:
            raise InvalidParameter(f"no row of {path} can be used: {self.report}")

    def parts(self, most_bytes: int) -> Iterator[Part]:
        """Yield the identifiers in parts, each of which is shorter than this as JSON."""
        waiting: list[pl.DataFrame] = []
        for frame in self._frames(RowReport()):
            waiting.append(frame)
            if sum(map(_bytes, waiting)) > most_bytes:
                *whole, rest = _halves(pl.concat(waiting), most_bytes)
                yield from map(_part, whole)
                waiting = [rest]
        yield from map(_part, _halves(pl.concat(waiting), most_bytes))

    def _frames(self, report: RowReport) -> Iterator[pl.DataFrame]:
        read = listed_pieces if self._is_list else pieces_of
        for piece in read(self._path, self._columns):
            frame = checked_rows(piece, (0.0, 1.0), report)
            (most, unit), text = self._longest, frame["identifier"].str
            fits = (text.len_bytes() if unit == "bytes" else text.len_chars()) <= most
            reason = f"the identifier has more than {most} {unit}"
            report.note(reason, frame["row"].filter(~fits).to_list())
            report.used -= int((~fits).sum())
            yield frame.filter(fits)


def _is_list(path: Path, column: str) -> bool:
    """Whether a file has one identifier in each line and no names of columns."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    first = start.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")[0].strip()
    if start[:4] == b"PAR1" or start[:2] == b"\x1f\x8b" or b"\0" in start:
        return False
    words = first.decode("utf-8", "replace")
    return words.strip('"') not in ("", column) and not any(each in words for each in _SEPARATORS)


def _bytes(frame: pl.DataFrame) -> int:
    """Return how long identifiers and reasons are as JSON, if they need no escapes."""
    texts = [frame[name] for name in ("identifier", "reason") if name in frame.columns]
    return sum(int(each.str.len_bytes().sum()) + 3 * len(each) for each in texts)


def _halves(frame: pl.DataFrame, most_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield rows in as few parts as are short enough; of equal identifiers, the last one stays."""
    frame = frame.unique("identifier", keep="last", maintain_order=True)
    if frame.height < 2 or len(msgspec.json.encode(_part(frame))) <= most_bytes:
        yield frame
        return
    yield from _halves(frame[: frame.height // 2], most_bytes)
    yield from _halves(frame[frame.height // 2 :], most_bytes)


def _part(frame: pl.DataFrame) -> Part:
    reasons = frame["reason"].fill_null("").to_list() if "reason" in frame.columns else None
    return Part(frame["identifier"].to_list(), reasons)
