"""Files that are written whole or not at all, and locks that divide work among processes.

A lock is an empty file beside the work. The system releases it when its process ends, however
it ends, so a process that was killed leaves nothing locked.
"""

from __future__ import annotations

import os
import tempfile
import tomllib
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from armrace.errors import DamagedFile, InvalidParameter, UnwritableOutput
from armrace.files.private import create_private

_UNPACKED_BYTES, _UNPACKED_TIMES = 2**28, 200
"""What a file may unpack to: so much, or so many times its size, whichever is more.

Results of many arms without an attack, whose columns are mostly zeros, unpack to 40 times theirs.
"""


@contextmanager
def atomic_path(target: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a path beside ``target`` to write to; move it there if all goes well, else remove it.

    Where ``target`` is a link, the file behind it is replaced and the link stays; if ``private``,
    the link is replaced, and only this user can read the file.
    """
    temporary: Path | None = None
    with _refusals(target):
        place = target if private else _place(target)
        try:
            temporary = place.with_name(f".{place.name[:100]}.{uuid.uuid4().hex[:12]}")
            if private:
                os.close(create_private(temporary))
            else:  # opened as any new file is, so that the process's umask applies
                temporary.open("xb").close()
            yield temporary
            # Without this, a power failure could leave an empty file under the new name.
            _synchronise(temporary)
            temporary.replace(place)
        finally:
            if temporary is not None:
                temporary.unlink(missing_ok=True)


def as_path(path: Path | str) -> Path:
    """Return the path of a file to write, or refuse what is no path."""
    if not isinstance(path, (str, Path)):
        raise InvalidParameter(f"path must be the path of a file; got {path!r}.")
    return Path(path)


def check_writable(target: Path) -> None:
    """Refuse a file that cannot be written.

    A file is created in its folder to find out, since permissions alone do not tell.
    """
    with _refusals(target), tempfile.TemporaryFile(dir=_place(target).parent):
        pass


def check_new(target: Path, *, overwrite: bool) -> None:
    """Refuse a file that exists, unless it may be overwritten."""
    exists = False
    with suppress(OSError):  # what cannot be looked at is refused when it is written
        exists = target.is_file()
    if exists and not overwrite:
        raise UnwritableOutput(f"{target} exists; give another path, or overwrite=True.")


def check_unpacked(path: Path, unpacked: int) -> None:
    """Refuse a file that would unpack to far more than anything that armrace writes."""
    most = max(_UNPACKED_BYTES, _UNPACKED_TIMES * path.stat().st_size)
    if unpacked > most:
        raise DamagedFile(
            f"{path} would unpack to {unpacked / 2**20:,.0f} MiB; a file of its size may unpack to "
            f"{most / 2**20:,.0f} MiB."
        )


@contextmanager
def _refusals(target: Path) -> Iterator[None]:
    """Turn errors of the system into one sentence, and refuse what is not a plain file."""
    if "\0" in str(target):
        raise UnwritableOutput(f"cannot write {str(target)!r}: its name has a null character.")
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


def _place(target: Path) -> Path:
    """The file behind a path, which may be a link."""
    circle = UnwritableOutput(f"cannot write {target}: its links form a circle.")
    try:
        place = target.resolve()
    except RuntimeError as error:  # before Python 3.13
        raise circle from error
    if place.is_symlink():
        raise circle
    return place


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, or refuse in one sentence."""
    if "\0" in str(folder):
        raise UnwritableOutput(f"cannot write into {str(folder)!r}: its name has a null character.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UnwritableOutput(f"cannot write into {folder}: it is a file.") from error
    except OSError as error:
        raise UnwritableOutput(f"cannot write into {folder}: {error.strerror}.") from error


def _synchronise(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def write_text(target: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    with atomic_path(target) as path:
        path.write_text(text, encoding="utf-8")


@contextmanager
def locked(files: Sequence[Path]) -> Iterator[list[bool]]:
    """Lock each file that no other process has locked; yield which locks were acquired."""
    held: list[FileLock | None] = []
    try:
        for file in files:
            held.append(_lock(file))  # noqa: PERF401  # those before must be released
        yield [lock is not None for lock in held]
    finally:
        for lock in held:
            if lock is not None:
                _release(lock)


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the lock of a folder, and hold it."""
    lock = FileLock(folder / ".armrace.lock")
    try:
        lock.acquire()
    except OSError as error:
        raise UnwritableOutput(f"cannot write into {folder}: {error.strerror}.") from error
    try:
        yield
    finally:
        _release(lock)


def _lock(file: Path) -> FileLock | None:
    lock = FileLock(file, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise UnwritableOutput(f"cannot lock {file}: {error.strerror}.") from error
    return lock


def _release(lock: FileLock) -> None:
    # Removed before it is released: else another process could lock the file, and a third one a
    # new file of the same name, after it was removed. One that waits for the removed file sees
    # that it has no name any more, and tries again.
    with suppress(OSError):
        Path(lock.lock_file).unlink(missing_ok=True)
    lock.release()


def read_toml(path: Path | str) -> dict[str, Any]:
    """Return what a TOML file has."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidParameter(f"cannot read {path}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{path} is not a TOML file: {error}.") from None
