"""The files and columns of a log, read piece by piece; samples that come with the package."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

import msgspec
import polars as pl

from armrace.contexts import LONGEST_TEXT
from armrace.errors import InvalidParameter, UnknownName
from armrace.files import read_toml
from armrace.formatting import count

EVERY = ("*",)
"""Stands for all columns that have no role."""


class NamedColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The names of columns by their role; those that are ``None`` are not read."""

    of: ClassVar[str] = "log"
    """What has the columns, for messages."""

    def named(self) -> dict[str, str]:
        """Return the columns that are read, by their role."""
        given = {role: getattr(self, role) for role in self.__struct_fields__}
        given |= {FEATURE + name: name for name in given.pop("features", ())}
        return {role: name for role, name in given.items() if name is not None}

    def check(self, present: Iterable[str]) -> NamedColumns:
        """Return the columns; refuse one that the log does not have, and suggest the nearest.

        Args:
            present: the columns of the log.
        """
        names = list(present)
        for role, name in self.named().items():
            if name not in names:
                raise _unknown(self.of, role, name, names)
        return self


class Columns(NamedColumns, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The names of the columns of a log; those that are ``None`` are not read."""

    arm: str
    """What was shown."""
    reward: str
    """What it earned."""
    propensity: str | None = None
    """The probability with which the logging system chose the arm that it showed."""
    time: str | None = None
    """When it was shown: ISO 8601, or seconds, milli-, micro- or nanoseconds since 1970."""
    source: str | None = None
    """Where the feedback came from."""
    unit: str | None = None
    """The visitor, or what else the decision was made for."""
    features: tuple[str, ...] = ()
    """The features of a schema, which are columns of the same names; :data:`EVERY` for all columns
    that have no role."""

    def check(self, present: Iterable[str]) -> Columns:
        """Return the columns that are read, once it is known which those of all features are.

        Args:
            present: the columns of the log.
        """
        if self.features is not EVERY:
            super().check(present)
            return self
        names = dict.fromkeys(name for name in present if 0 < len(name) <= LONGEST_TEXT)
        plain = msgspec.structs.replace(self, features=())
        others = tuple(name for name in names if name not in plain.named().values())
        return msgspec.structs.replace(plain, features=others).check(names)


_MOST_NAMED = 12


def _unknown(of: str, role: str, name: str, names: list[str]) -> UnknownName:
    """Suggest the nearest column, or name the first few."""
    alike = [each for each in names if each.lower() == name.lower()]
    near = alike or difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]!r}?"
    else:
        shown = ", ".join(repr(each)[:60] for each in names[:_MOST_NAMED])
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        hint = f"there are {shown}{more}."
    return UnknownName(f"the {of} has no column {name!r} for the {role}; {hint}")


ROLES = tuple(name for name in Columns.__struct_fields__ if name != "features")
FEATURE = "feature "
"""Begins the role of a column that is a feature."""


def read_columns(path: Path | str) -> dict[str, str]:
    """Read a mapping of columns from a TOML file, such as ``arm = "item_id"``.

    The names may stand at the top of the file or in a table ``[columns]``.

    Args:
        path: the TOML file.
    """
    data = read_toml(path)
    table = data.get("columns", data)
    if not isinstance(table, dict):
        raise InvalidParameter(f"columns of {path} must be a table; got {table!r}.")
    for role, name in table.items():
        if role not in ROLES:
            raise UnknownName.among(f"role of a column in {path}", role, ROLES)
        if not isinstance(name, str):
            raise InvalidParameter(f"{role} of {path} must be the name of a column; got {name!r}.")
    return dict(table)


def make_columns(
    columns: Columns | Mapping[str, str] | Path | str | None = None, **given: str | None
) -> Columns:
    """Combine a mapping of columns with single names, which have precedence.

    Args:
        columns: a mapping, or the TOML file of one.
        given: names of columns by role; ``None`` where the mapping decides.

    Returns:
        The columns.

    Raises:
        InvalidParameter: the column of the arms or of the rewards is not given.
    """
    known: dict[str, Any] = {}
    if isinstance(columns, Columns):
        known = msgspec.structs.asdict(columns)
    elif isinstance(columns, Mapping):
        known = dict(columns)
    elif columns is not None:
        known = read_columns(columns)
    known |= {role: name for role, name in given.items() if name is not None}
    for role in ("arm", "reward"):
        if role not in known:
            raise InvalidParameter(f"the column of the {role} is missing; give --{role} COLUMN.")
    if known["arm"] == known["reward"]:
        raise InvalidParameter(
            f"the arm and the reward must be different columns; both are {known['arm']!r}."
        )
    try:
        return msgspec.convert(known, Columns)
    except msgspec.ValidationError as error:
        raise InvalidParameter(f"columns must be names of columns: {error}.") from None


PREFIX = "sample:"
"""A log of this beginning is a sample, not a file."""

SAMPLES = {"open-bandit": "open-bandit.csv.gz"}
"""The files of the samples by name; ``data/ATTRIBUTION.md`` says where they come from."""


def sample_path(name: str) -> Path:
    """Return the file of a sample.

    >>> sample_path("open-bandit").name
    'open-bandit.csv.gz'
    """
    if name not in SAMPLES:
        raise UnknownName.among("sample of a log", name, SAMPLES)
    return Path(str(files("armrace.offline").joinpath("data", SAMPLES[name])))


_BLOCK = 1 << 23
_ROWS = 1 << 20
_GZIP, _PARQUET, _UTF8, _WIDE = b"\x1f\x8b", b"PAR1", b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_SEPARATORS = ",;\t|"
_BEYOND = "beyond"
_NUMERIC = ("reward", "propensity")
_JSON_ENDINGS = (".ndjson", ".jsonl", ".json")
STRUCTURED = "the {} is a list or an object"
_BROKEN = (pl.exceptions.PolarsError, OSError, EOFError, zlib.error, MemoryError)


class Piece(NamedTuple):
    """Consecutive rows of a log, with a column for each role."""

    frame: pl.DataFrame
    first: int
    """The number of the first row; rows count from 1."""
    unreadable: Mapping[int, str] = {}
    """Rows of the frame, counted from 0, that are not of the format, and what is wrong."""
    remark: str = ""
    """What a reader should know of the file, such as where it breaks off."""


def pieces_of(log: Any, columns: NamedColumns) -> Iterator[Piece]:
    """Read a log piece by piece."""
    if type(log).__module__.partition(".")[0] == "pandas":
        log = _from_pandas(log, columns)
    elif not isinstance(log, pl.DataFrame) and hasattr(log, "__arrow_c_stream__"):
        log = pl.DataFrame(log)
    if isinstance(log, pl.DataFrame):
        log = log.lazy()
    if isinstance(log, pl.LazyFrame):
        return _frame_pieces(log, columns, "the data frame")
    if not isinstance(log, (str, Path)):
        raise InvalidParameter(f"log must be a file or a data frame; got {type(log).__name__}.")
    if str(log).startswith(PREFIX):
        return _file_pieces(sample_path(str(log).removeprefix(PREFIX)), columns)
    return _file_pieces(Path(log), columns)


def _file_pieces(path: Path, columns: NamedColumns) -> Iterator[Piece]:
    """Choose how to read a file by its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except IsADirectoryError:
        raise InvalidParameter(f"cannot read {path}: it is a folder, not a file.") from None
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except ValueError:
        raise InvalidParameter(f"cannot read {str(path)!r}: its name is not valid.") from None
    if not start:
        raise InvalidParameter(f"{path} is empty.")
    if start == _PARQUET:
        return _frame_pieces(pl.scan_parquet(path), columns, str(path))
    opened: Any = gzip.open if start[:2] == _GZIP else open
    return _text_pieces(path, lambda: opened(path, "rb"), columns)


# --- frames -------------------------------------------------------------------------------


def _from_pandas(frame: Any, columns: NamedColumns) -> pl.DataFrame:
    """Take the columns that are read; Polars itself would need pyarrow for those of text."""
    columns = columns.check(list(map(str, getattr(frame, "columns", []))))
    taken = {}
    for name in columns.named().values():
        values = frame[name].to_numpy()
        if values.dtype.kind in "biufM":
            taken[name] = pl.Series(values)
        else:
            missing = pl.Series(frame[name].isna().to_numpy())
            taken[name] = pl.Series(values.astype(str)).set(missing, None)
    return pl.DataFrame(taken)


def _frame_pieces(frame: pl.LazyFrame, columns: NamedColumns, name: str) -> Iterator[Piece]:
    """Read a data frame, or a file of Parquet, batch by batch."""
    try:
        present = frame.collect_schema().names()
    except _BROKEN as error:
        raise InvalidParameter(f"{name} cannot be read: {_first_line(error)}.") from None
    columns = columns.check(present)
    wanted = frame.select(pl.col(name).alias(role) for role, name in columns.named().items())
    first = 1
    try:
        for part in wanted.collect_batches(chunk_size=_ROWS, maintain_order=True):
            yield Piece(part, first)
            first += part.height
    except _BROKEN as error:
        if first == 1:
            raise InvalidParameter(f"{name} cannot be read: {_first_line(error)}.") from None
        yield _breaks_off(columns, first, error)


def _breaks_off(columns: NamedColumns, first: int, error: BaseException) -> Piece:
    """Return a piece without rows that says where the file breaks off."""
    empty = pl.DataFrame(schema=dict.fromkeys(columns.named(), pl.String))
    words = (
        f"The file cannot be read any further after row {count(first - 1)}: {_first_line(error)}."
    )
    return Piece(empty, first, remark=words)


def _first_line(error: BaseException) -> str:
    """Return what an error says, in one short line."""
    return (str(error) or type(error).__name__).splitlines()[0][:200].rstrip(".")


# --- text ---------------------------------------------------------------------------------


def listed_pieces(path: Path, columns: NamedColumns) -> Iterator[Piece]:
    """Read plain text piece by piece, whose lines are values of the first column."""

    def open_file() -> IO[bytes]:
        name, file = next(iter(columns.named().values())), path.open("rb")
        return io.BufferedReader(_After(f'"{name}"\n'.encode(), file))

    return _text_pieces(path, open_file, columns)


class _After(io.RawIOBase):
    """A file with some bytes before it."""

    def __init__(self, before: bytes, file: IO[bytes]) -> None:
        self._before, self._file = before, file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._before[: len(buffer)] or self._file.read(len(buffer))
        self._before = self._before[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        self._file.close()
        super().close()


def _text_pieces(path: Path, open_file: Any, columns: NamedColumns) -> Iterator[Piece]:
    """Read a file of CSV or NDJSON block by block."""
    first = 1
    parser: _CsvParser | _JsonParser | None = None
    try:
        with open_file() as file:
            for block in _blocks(file):
                rest = block
                if parser is None:
                    parser, rest = _parser_for(path, block, columns)
                frame, unreadable = parser.parse(rest)
                yield Piece(frame, first, unreadable)
                first += frame.height
    except _BROKEN as error:
        if parser is None:
            raise InvalidParameter(f"{path} cannot be read: {_first_line(error)}.") from None
        yield _breaks_off(columns, first, error)


def _blocks(file: IO[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines; a line break within quotes does not end a line."""
    kept = b""
    while chunk := file.read(_BLOCK):
        kept += chunk
        cut = _last_line_end(kept)
        if cut:
            yield kept[:cut]
            kept = kept[cut:]
        elif len(kept) > 8 * _BLOCK:
            raise InvalidParameter(
                f"lines of a log must be shorter than {count(8 * _BLOCK)} bytes."
            )
    if kept:
        yield kept


def _last_line_end(block: bytes) -> int:
    """Where the last whole line ends, 0 if there is none."""
    end = block.rfind(b"\n") + 1
    for _ in range(64):  # a field that spans many lines; beyond that, a quote that is never closed
        if end == 0 or block.count(b'"', 0, end) % 2 == 0:
            return end
        end = block.rfind(b"\n", 0, end - 1) + 1
    return block.rfind(b"\n") + 1


def _parser_for(
    path: Path, block: bytes, columns: NamedColumns
) -> tuple[_CsvParser | _JsonParser, bytes]:
    """Return the parser for a file, and the block after what the parser has read."""
    if block[:2] in _WIDE:
        raise InvalidParameter(f"{path} is UTF-16; convert it to UTF-8.")
    text = block.removeprefix(_UTF8)
    if b"\0" in text[:4096]:
        raise InvalidParameter(f"{path} is not a CSV, NDJSON or Parquet file.")
    if not text.strip():
        raise InvalidParameter(f"{path} is empty.")
    endings = [ending.lower() for ending in path.suffixes]
    if any(ending in _JSON_ENDINGS for ending in endings) or text.lstrip()[:1] == b"{":
        return _JsonParser(path, text, columns), text
    header, _, rest = text.partition(b"\n")
    return _CsvParser(header, columns), rest


class _CsvParser:
    """Parses blocks of CSV without their header."""

    def __init__(self, header: bytes, columns: NamedColumns) -> None:
        line = header.decode("utf-8", errors="replace").strip("\r")
        self._separator = max(_SEPARATORS, key=lambda each: (line.count(each), each == ","))
        try:
            names = next(csv.reader(io.StringIO(line), delimiter=self._separator), [])
        except csv.Error:  # a stray line break, or a name of more than 128 KB
            names = line.split(self._separator)
        names = [name.strip() for name in names]
        columns = columns.check(names)
        # Columns are read by place: a header may name two of them alike, or none.
        self._where = {role: f"c{names.index(name)}" for role, name in columns.named().items()}
        self._numbers: dict[str, type[pl.DataType]] = {
            self._where[role]: pl.Float64 for role in _NUMERIC if role in self._where
        }
        # One more column: what is in it is beyond the header, as behind a comma within a name.
        places = [*(f"c{at}" for at in range(len(names))), _BEYOND]
        self._header = self._separator.join(places).encode() + b"\n"

    def parse(self, block: bytes) -> tuple[pl.DataFrame, dict[int, str]]:
        """Return the rows of a block; missing values are null."""
        frame = self._attempt(block, '"', self._numbers)
        if frame is None:  # something is not a number: it stays text, to be reported row by row
            frame = self._attempt(block, '"', {})
        if frame is None:  # a quote that is not closed: take quotes literally
            frame = self._read(block, None, {})
        beyond = frame[_BEYOND].is_not_null().arg_true().to_list()
        named = frame.select(pl.col(at).alias(role) for role, at in self._where.items())
        return named, dict.fromkeys(beyond, "more fields than the header has")

    def _attempt(
        self, block: bytes, quote: str, numbers: dict[str, type[pl.DataType]]
    ) -> pl.DataFrame | None:
        # Polars warns where quotes open and close in ways that it cannot make lines of.
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always")
            try:
                frame = self._read(block, quote, numbers)
            except pl.exceptions.PolarsError:
                return None
        return None if doubts else frame

    def _read(
        self, block: bytes, quote: str | None, numbers: dict[str, type[pl.DataType]]
    ) -> pl.DataFrame:
        return pl.read_csv(
            self._header + block,
            columns=sorted({*self._where.values(), _BEYOND}),
            separator=self._separator,
            quote_char=quote,
            infer_schema=False,
            schema_overrides=numbers,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
            ignore_errors=not numbers,
        )


class _JsonParser:
    """Parses blocks of NDJSON; a line that is not an object becomes a row of nulls."""

    def __init__(self, path: Path, block: bytes, columns: NamedColumns) -> None:
        seen: dict[str, None] = {}
        for line in block.splitlines()[:100]:
            seen |= dict.fromkeys(_keys(line))
        if not seen:
            raise InvalidParameter(f"{path} has no JSON object in its first 100 lines.")
        self._columns = columns.check(seen).named()
        self._schema = dict.fromkeys(self._columns.values(), pl.String)

    def parse(self, block: bytes) -> tuple[pl.DataFrame, dict[int, str]]:
        """Return the rows of a block, and what is wrong with those that cannot be used."""
        unreadable: dict[int, str] = {}
        try:
            frame = pl.read_ndjson(block, schema=self._schema)
        except pl.exceptions.PolarsError:
            frame = None
        # Polars writes objects and lists as text.
        if frame is None or any(each.str.contains(r"^[\[{]").any() for each in frame):
            frame, unreadable = self._line_by_line(block)
        return (
            frame.select(pl.col(name).alias(role) for role, name in self._columns.items()),
            unreadable,
        )

    def _line_by_line(self, block: bytes) -> tuple[pl.DataFrame, dict[int, str]]:
        rows: list[dict[str, str | None]] = []
        unreadable = {}
        for line in block.splitlines():
            if not line.strip():
                continue
            found = _object(line)
            if found is None:
                unreadable[len(rows)] = "not a JSON object"
            values = found or {}
            for role, name in self._columns.items():
                if isinstance(values.get(name), (list, dict)):
                    unreadable[len(rows)] = STRUCTURED.format(role)
            rows.append({name: _text(values.get(name)) for name in self._schema})
        return pl.DataFrame(rows, schema=self._schema), unreadable


def _keys(line: bytes) -> list[str]:
    """Return the names in the JSON object of a line."""
    return list(_object(line) or {})


def _object(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or ``None`` if it holds no object."""
    try:
        found = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(value: Any) -> str | None:
    """Return a value of JSON as text, as CSV would have it."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
