"""ZIP archives of result files: a saved comparison, or the results of an arena.

An archive is replaced as a whole, so that an interruption leaves the old one. Every result in
it is a sealed Parquet file, as :mod:`armrace.simulation.storage` writes them.
"""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from armrace.errors import DamagedFile, InvalidParameter, UnwritableOutput
from armrace.files import atomic_path, check_new, check_unpacked, make_folder
from armrace.simulation.comparison import Comparison
from armrace.simulation.storage import load, save

_INDEX = "comparison.json"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every member, so that the same results give the same archive."""


class _Index(msgspec.Struct, forbid_unknown_fields=True):
    """The metadata of a saved comparison."""

    measure: str
    results: list[str]


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
        pack([index, *(folder / name for name in names)], target)


def load_comparison(path: str | Path) -> Comparison:
    """Read a comparison that :meth:`Comparison.save` wrote."""
    if not isinstance(path, (str, Path)):
        raise InvalidParameter(f"path must be the path of a comparison file; got {path!r}.")
    archive = Path(path)
    if not archive.is_file():
        raise DamagedFile(f"there is no comparison file {archive}.")
    with unpacked(archive) as folder:
        try:
            index = msgspec.json.decode((folder / _INDEX).read_bytes(), type=_Index)
        except (OSError, msgspec.MsgspecError) as error:
            raise DamagedFile(f"{archive} is not a comparison of armrace.") from error
        if not index.results:
            raise DamagedFile(f"{archive} is not a comparison of armrace.")
        found = [load(folder / Path(name).name) for name in index.results]
        return Comparison(found, index.measure)


def pack(files: Iterable[Path], archive: Path) -> None:
    """Replace ``archive`` by one that holds these files under their names."""
    with atomic_path(archive) as temporary, zipfile.ZipFile(temporary, "w") as members:
        for file in files:
            members.writestr(zipfile.ZipInfo(file.name, _EARLIEST), file.read_bytes())


def unpack(archive: Path, folder: Path) -> None:
    """Write the members of ``archive`` into ``folder``, except those that are there already.

    Each file appears complete or not at all. An archive that does not exist holds nothing.
    """
    make_folder(folder)
    if not archive.exists():
        return
    try:
        with zipfile.ZipFile(archive) as members:
            check_unpacked(archive, sum(member.file_size for member in members.infolist()))
            for name in members.namelist():
                target = folder / Path(name).name  # a crafted name must not lead elsewhere
                if not target.exists():
                    partial = target.with_name(f".{target.name}.partial")
                    with members.open(name) as packed, partial.open("wb") as whole:
                        shutil.copyfileobj(packed, whole)
                    partial.replace(target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DamagedFile(f"{archive} is not a readable archive; remove it.") from error
    except OSError as error:
        raise UnwritableOutput(f"cannot unpack {archive}: {error.strerror or error}.") from error


@contextmanager
def unpacked(archive: Path) -> Iterator[Path]:
    """Yield a temporary folder with the members of ``archive``."""
    place = Path(tempfile.mkdtemp())
    try:
        unpack(archive, place)
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
