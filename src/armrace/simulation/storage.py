"""Results on disk: Parquet files, archives of them, and folders in which experiments go on.

A result is one Parquet file with its specification inside. It is written under a temporary name
and renamed when it is complete, so that an interrupted save leaves the old file. A digest of the
contents detects damage before they are parsed: a Parquet reader that trusts damaged lengths can
crash the process.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl

from armrace.audit import Audit
from armrace.contexts import MOST_LEAVES
from armrace.errors import DamagedFile, InvalidParameter, UnknownName, UnwritableOutput
from armrace.files import atomic_path, check_new, check_unpacked
from armrace.policies import ArmView
from armrace.simulation.code_digest import experiment_code
from armrace.simulation.experiment import MAXIMAL_REPLICATIONS, Experiment, checkpoints_for
from armrace.simulation.replication import Outcome
from armrace.simulation.results import FIGURES_OF_A_RUN, Comparison, Result
from armrace.specification import MAXIMAL_HORIZON

_KEY = "armrace"
_FORMAT = 2
_MAGIC = b"PAR1"
_BLANK = b"sha256:" + b"0" * 64
_SEAL = re.compile(rb"sha256:[0-9a-f]{64}")


class _Named(msgspec.Struct):
    """A policy or an attack; its class need not be known here."""

    name: str


class _Asked(msgspec.Struct):
    """What every specification has."""

    policy: _Named
    adversary: _Named
    budget: Annotated[float, msgspec.Meta(ge=0)]
    horizon: Annotated[int, msgspec.Meta(ge=1, le=MAXIMAL_HORIZON)]
    replications: Annotated[int, msgspec.Meta(ge=1, le=MAXIMAL_REPLICATIONS)]


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

    Args:
        path: the file.

    Returns:
        The result.

    Raises:
        DamagedFile: the file is missing, damaged or not a result.
        UnknownName: the file has no means, and the class of its environment is not known here.
    """
    path = _existing(path, "result")
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
        return _read(path, data)
    except (DamagedFile, UnknownName):
        raise
    except Exception as error:
        raise DamagedFile(f"{path} is not a readable result of armrace.") from error
    # A panic of Polars derives from BaseException, so that the clause above does not catch it.
    except pl.exceptions.PanicException as error:
        raise DamagedFile(f"{path} is not a readable result of armrace.") from error


def _existing(path: str | Path, kind: str) -> Path:
    """Return the path of a file that exists."""
    if not isinstance(path, (str, Path)):
        raise InvalidParameter(f"path must be the path of a {kind} file; got {path!r}.")
    if not Path(path).is_file():
        raise DamagedFile(f"there is no {kind} file {path}.")
    return Path(path)


def _sealed(data: bytes) -> bytes:
    """Return the contents with the digest filled in; it is computed with its field left blank."""
    # The header is at the end of a Parquet file; what looks like a seal before it is data.
    found = list(_SEAL.finditer(data))[-1]
    first, last = found.span()
    blank = data[:first] + _BLANK + data[last:]
    return data[:first] + b"sha256:" + hashlib.sha256(blank).hexdigest().encode() + data[last:]


def _read(path: Path, data: bytes) -> Result:
    """Read a file's contents without trusting them: anyone can compute a valid digest.

    Columns and the number of rows are checked before any is read, since readers allocate memory
    for as much as a file announces, and an absurd amount would end the process.
    """
    packed = pl.read_parquet_metadata(io.BytesIO(data))[_KEY]
    header = msgspec.json.decode(packed, type=_Header)
    if header.format != _FORMAT:
        raise DamagedFile(
            f"{path} has format {header.format}; this version reads {_FORMAT}, and its "
            "specification runs it again."
        )
    asked = msgspec.convert(header.spec, _Asked)
    announced = pl.scan_parquet(io.BytesIO(data))
    schema = announced.collect_schema()
    rows = announced.select(pl.len()).collect().item()
    widths = [kind.shape[0] if isinstance(kind, pl.Array) else 1 for kind in schema.values()]
    check_unpacked(path, rows * 8 * sum(widths))
    _require(0 < rows <= asked.replications * checkpoints_for(asked.horizon).size)
    result = Result(
        header.spec,
        pl.read_parquet(io.BytesIO(data)),
        header.view,
        header.seconds,
        header.interrupted,
        header.audits,
        header.means,
    )
    _check_contents(result, asked)
    return result


def _check_contents(result: Result, asked: _Asked) -> None:
    """Raise a ValueError unless tables, plots and reports can be made of the contents."""
    rows, arms, layers = result.rows, result.means.size, _width(result.rows, "layer_corruption")
    _require(arms >= 2 and bool(np.isfinite(result.means).all()))
    _require(dict(rows.schema) == _schema(result.measures, arms, layers))
    for column in rows.drop("leapt"):
        flat = column.explode() if isinstance(column.dtype, pl.Array) else column
        _require(column.null_count() + flat.null_count() == 0 and bool(flat.is_finite().all()))
    # Every replication has the same rounds, each once, up to the horizon.
    numbers = rows["replication"].unique()
    rounds = rows["round"].unique().sort().to_list()
    _require(numbers.is_between(0, asked.replications - 1).all())
    _require(set(rounds) <= set(checkpoints_for(asked.horizon).tolist()))
    _require(rounds[-1] == asked.horizon and rows.height == len(rounds) * len(numbers))
    _require(rows.select("replication", "round").is_unique().all())
    pulls = rows["pulls"].to_numpy()
    _require(bool((pulls >= 0).all() and (pulls.sum(axis=1) == rows["round"].to_numpy()).all()))
    _require(rows.select(pl.min_horizontal("refused", "leapt").ge(0).all()).item())
    _require(result.race.filter(~pl.col("arm").is_between(0, arms - 1)).is_empty())
    # A policy that has a state for each leaf shows leaves as layers.
    most = max(layers, MOST_LEAVES if result.measures != FIGURES_OF_A_RUN else 1)
    _require(result.race.filter(~pl.col("layer").is_between(0, most - 1)).is_empty())
    _require(len(result.audits) in {0, len(numbers)})


def _width(rows: pl.DataFrame, name: str) -> int:
    kind = rows.schema[name]
    return kind.shape[0] if isinstance(kind, pl.Array) else 0


def _schema(measures: Iterable[str], arms: int, layers: int) -> dict[str, Any]:
    """Return the columns of a result and their types."""
    return {
        **dict.fromkeys(("replication", "round"), pl.Int64),
        **dict.fromkeys(measures, pl.Float64),
        "refused": pl.Int64,
        "pulls": pl.Array(pl.Int64, arms),
        "arm_corruption": pl.Array(pl.Float64, arms),
        "layer_corruption": pl.Array(pl.Float64, layers),
        "leapt": pl.Int64,
    }


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("these cannot be the contents of a result")


_INDEX = "comparison.json"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member of an archive, so that the same results give the same archive."""


class _Index(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a saved comparison."""

    measure: str
    results: Annotated[list[str], msgspec.Meta(min_length=1)]


def save_comparison(comparison: Comparison, target: Path, *, overwrite: bool = False) -> None:
    """Write a comparison to ``target``; see :meth:`Comparison.save`."""
    if target.suffix != ".zip":
        raise InvalidParameter(
            f"path must end in .zip, since a comparison is saved as an archive of Parquet files; "
            f"got {target}."
        )
    check_new(target, overwrite=overwrite)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        names = [f"{position:03}.parquet" for position in range(len(comparison.results))]
        for name, result in zip(names, comparison.results.values(), strict=True):
            save(result, folder / name)
        index = folder / _INDEX
        index.write_bytes(msgspec.json.encode(_Index(comparison.measure, names)))
        _pack([index, *(folder / name for name in names)], target)


def load_comparison(path: str | Path) -> Comparison:
    """Read a comparison that :meth:`Comparison.save` wrote."""
    archive = _existing(path, "comparison")
    with _unpacked(archive) as folder:
        try:
            index = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_Index)
        except (OSError, msgspec.MsgspecError) as error:
            raise DamagedFile(f"{archive} is not a comparison of armrace.") from error
        found = [load(folder / Path(name).name) for name in index.results]
        return Comparison(found, index.measure)


def _pack(files: Iterable[Path], archive: Path) -> None:
    """Replace ``archive``, as a whole, by one that holds these files under their names."""
    with atomic_path(archive) as temporary, zipfile.ZipFile(temporary, "w") as members:
        for file in files:
            members.writestr(zipfile.ZipInfo(file.name, _EARLIEST), file.read_bytes())


@contextmanager
def _unpacked(archive: Path) -> Iterator[Path]:
    """Yield a temporary folder with the members of ``archive``."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        try:
            with zipfile.ZipFile(archive) as members:
                check_unpacked(archive, sum(member.file_size for member in members.infolist()))
                for name in members.namelist():
                    # A crafted name must not lead elsewhere.
                    with (
                        members.open(name) as packed,
                        (Path(place) / Path(name).name).open("wb") as f,
                    ):
                        shutil.copyfileobj(packed, f)
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
        ) as error:
            raise DamagedFile(f"{archive} is not a readable archive; remove it.") from error
        except OSError as error:
            raise UnwritableOutput(
                f"cannot unpack {archive}: {error.strerror or error}."
            ) from error
        yield Path(place)


class StoredResult:
    """The files of an experiment in a folder, named by a hash of all that its figures depend on.

    A finished experiment is one file. An experiment under way is several, each with some of the
    replications, so that an interruption costs little. The number of replications is not part of
    the name: if more are asked for later, those that are stored are not played again. Without
    ``curves``, the files hold the ledger at the horizon only.
    """

    def __init__(self, experiment: Experiment, folder: Path, *, curves: bool = True) -> None:
        self.experiment = experiment
        self._curves = curves
        spec = experiment.to_builtins()
        del spec["replications"]
        given = msgspec.json.encode([experiment_code(experiment), curves, spec], order="sorted")
        name = hashlib.sha256(given).hexdigest()[:20]
        self.lock = folder / f"{name}.lock"
        """The file to lock before anything is added."""
        self.whole = folder / f"{name}.parquet"
        """The file of the finished experiment."""

    def result(self) -> Result | None:
        """Return the result if all replications that the experiment asks for are stored."""
        if not self.whole.exists():
            return None
        whole = _load_stored(self.whole)
        asked = self.experiment.replications
        rows = whole.rows.filter(pl.col("replication") < asked)
        # By number: an interruption may have left out some below the highest.
        if rows["replication"].n_unique() < asked:
            return None
        seconds = whole.seconds * asked / whole.replications
        audits = [found for number, found in _audits(whole).items() if number < asked]
        spec = self.experiment.to_builtins()
        return Result(spec, rows, whole.view, seconds, audits=audits, means=whole.means)

    def missing(self) -> list[int]:
        """Return the replications that are asked for and not stored."""
        there = {number for piece in self._pieces() for number in piece.final["replication"]}
        return [n for n in range(self.experiment.replications) if n not in there]

    def add(self, outcomes: dict[int, Outcome]) -> None:
        """Store more replications."""
        numbers = sorted(outcomes)
        found = [outcomes[number] for number in numbers]
        seconds = sum(outcome.seconds for outcome in found)
        part = Result.from_outcomes(self.experiment, numbers, found, seconds, interrupted=True)
        if not self._curves:
            part.rows = part.final
        save(part, self.whole.with_stem(f"{self.whole.stem}-{numbers[0]}"))

    def finish(self) -> None:
        """Join the stored pieces into one file, in which replications may still be missing."""
        parts = self._parts()
        if not parts:
            return
        pieces = self._pieces()
        rows = pl.concat([piece.rows for piece in pieces]).unique(["replication", "round"])
        view = next((piece.view for piece in pieces if piece.view), [])
        seconds = sum(piece.seconds for piece in pieces)
        numbers = rows["replication"].unique()
        reached = int(numbers.max()) + 1  # type: ignore[arg-type]  # a number, as there are rows
        spec = {**self.experiment.to_builtins(), "replications": reached}
        audits: dict[int, Audit] = {}
        for piece in pieces:
            audits.update(_audits(piece))
        found = [audits[number] for number in sorted(audits)]
        rows, interrupted = rows.sort("replication", "round"), len(numbers) < reached
        # Pieces are removed only after the whole is on disk. If the process is killed in between,
        # replications are stored twice, which ``unique`` above resolves the next time.
        save(Result(spec, rows, view, seconds, interrupted, found, pieces[0].means), self.whole)
        for part in parts:
            part.unlink(missing_ok=True)

    def _parts(self) -> list[Path]:
        return sorted(self.whole.parent.glob(f"{self.whole.stem}-*.parquet"))

    def _pieces(self) -> list[Result]:
        files = [self.whole] if self.whole.exists() else []
        return [_load_stored(file) for file in (*files, *self._parts())]


def _load_stored(file: Path) -> Result:
    try:
        return load(file)
    except DamagedFile as error:
        raise DamagedFile(f"{file} is damaged; remove it, and its part is played again.") from error


def _audits(piece: Result) -> dict[int, Audit]:
    """Audits by replication; empty if none were asked for."""
    numbers = piece.final["replication"].to_list()
    return dict(zip(numbers, piece.audits, strict=True)) if piece.audits else {}
