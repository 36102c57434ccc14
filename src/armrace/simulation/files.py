"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from armrace.errors import UnwritableOutput

__all__ = ["atomic_path", "check_writable", "make_folder", "write_text"]


@contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A path beside ``target`` to write to; moved onto it if all goes well, else removed.

    Where ``target`` is a link, the file behind it is replaced and the link stays.
    """
    temporary: Path | None = None
    with _refusals(target):
        place = _resolved(target)
        try:
            descriptor, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
            os.close(descriptor)
            temporary = Path(name)
            yield temporary
            _synchronise(temporary)
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(place)
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def check_writable(target: Path) -> None:
    """Refuse a file that cannot be written, by trying its folder: permissions alone do not tell."""
    with _refusals(target), tempfile.TemporaryFile(dir=_resolved(target).parent):
        pass


def _resolved(target: Path) -> Path:
    try:
        return target.resolve()
    except RuntimeError as error:  # up to Python 3.12; later versions leave it to the system
        raise UnwritableOutput(f"cannot write {target}: it is a link to itself.") from error


@contextmanager
def _refusals(target: Path) -> Iterator[None]:
    """Turn what the system says into one sentence, and refuse what is no plain file."""
    try:
        if target.exists() and not target.is_file():
            kind = "folder" if target.is_dir() else "device"
            raise UnwritableOutput(f"cannot write {target}: it is a {kind}, not a file.")
        if target.exists() and not os.access(target, os.W_OK):
            raise UnwritableOutput(f"cannot write {target}: it is read-only.")
        yield
    except UnwritableOutput:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnwritableOutput(f"cannot write {target}: {reason}.") from error


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, or refuse in one sentence."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UnwritableOutput(f"cannot write into {folder}: it is a file.") from error
    except OSError as error:
        raise UnwritableOutput(f"cannot write into {folder}: {error.strerror}.") from error


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
