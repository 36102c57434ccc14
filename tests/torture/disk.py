"""A disk that loses what was not synchronised when the power fails.

Everything that the embedded store writes goes through it: the database and its write-ahead log by
a virtual file system of SQLite, the high-water mark by a stand-in for the module ``os``. Files are
written to a folder as usual; beside that, the disk keeps for each file what is durable for certain
and what was written since. :meth:`Disk.after_the_loss` returns files as they may be found: any of
the writes that were not synchronised, in any order, some of them torn. Deleted files may come back,
and files that are new may be gone.
"""

import errno
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import apsw

from armrace.files import private
from armrace.service.log import marks

VFS = "armrace-power"
_SECTOR = 512
_HEADER = 32
"""How many bytes the header of a write-ahead log has; one is written whenever it is reset."""


class _PowerGone(OSError, apsw.IOError):
    """What whoever writes is told, in the language of ``os`` and of SQLite."""


class _Truncation(NamedTuple):
    size: int


class _Write(NamedTuple):
    place: int
    data: bytes


class Disk:
    """What is on the disk for certain, and what was written since the last synchronisation."""

    def __init__(
        self,
        rng: random.Random,
        steps: float,
        files: dict[str, bytes] | None = None,
        deaf_to: str | None = None,
    ) -> None:
        self.kept = {name: bytearray(content) for name, content in (files or {}).items()}
        self.pending: dict[str, list[_Write | _Truncation]] = {}
        self.deleted: dict[str, bytes] = {}
        self.is_off = False
        self.seconds = 0.0
        self.seen: Counter[str] = Counter()
        """How often something happened that a campaign must have tried."""
        self._renamed: tuple[str, str, bytearray | None] | None = None
        self._rng = rng
        self._steps = steps
        self._deaf_to = deaf_to

    def _step(self) -> bool:
        """Count an operation, with which the power may fail; return whether there is power."""
        if self.is_off:
            return False
        self.seconds += self._rng.expovariate(100)
        self._steps -= 1
        if self._steps < 0:
            self.is_off = True
            raise _PowerGone(errno.EIO, "the power is gone")
        return True

    def write(self, name: str, place: int, data: bytes) -> None:
        """Write a part of a file."""
        if self._step():
            self.pending.setdefault(name, []).append(_Write(place, data))
            if name.endswith("-wal"):
                self.seen["resets"] += place == 0 and len(data) == _HEADER

    def truncate(self, name: str, size: int) -> None:
        """Change the length of a file."""
        if self._step():
            self.pending.setdefault(name, []).append(_Truncation(size))

    def synchronise(self, name: str) -> None:
        """Make a file durable, and its name."""
        if not self._step() or (self._deaf_to is not None and name.endswith(self._deaf_to)):
            return
        if name not in self.kept:  # SQLite synchronises the folder with a new log or journal
            self.synchronise_folder()
        content = self.kept.setdefault(name, bytearray())
        changes = self.pending.pop(name, [])
        self.seen["checkpoints"] += name.endswith(".db") and bool(changes)
        for change in changes:
            _apply(content, change)

    def rename(self, name: str, new: str) -> None:
        """Let a file take the place of another; before the folder is synchronised, or not."""
        if self._step():
            self._renamed = (name, new, self.kept.get(new))
            self.kept[new] = self.kept.pop(name, bytearray())
            self.pending.pop(new, None)
            if name in self.pending:
                self.pending[new] = self.pending.pop(name)

    def _take_back_renaming(self, found: dict[str, bytearray]) -> None:
        assert self._renamed is not None
        name, new, before = self._renamed
        found[name] = found.pop(new)
        if before is not None:
            found[new] = before

    def synchronise_folder(self) -> None:
        """Make durable which files there are."""
        if not self.is_off:
            self.deleted.clear()
            self._renamed = None
            for name in self.pending:
                self.kept.setdefault(name, bytearray())

    def delete(self, name: str, durably: bool) -> None:
        """Delete a file."""
        if self._step():
            content = self.kept.pop(name, None)
            self.pending.pop(name, None)
            if content is not None:
                self.deleted[name] = bytes(content)
            if durably:
                self.synchronise_folder()

    def after_the_loss(self) -> dict[str, bytes]:
        """Return files as they may be found."""
        rng = self._rng
        found = {name: bytearray(content) for name, content in self.kept.items()}
        for name, content in self.deleted.items():
            if name not in self.pending and rng.random() < 0.5:
                found[name] = bytearray(content)
        for name, changes in self.pending.items():
            if name in found or rng.random() < 0.8:  # else the name of a new file is lost
                self._apply_some(found.setdefault(name, bytearray()), changes)
        if self._renamed is not None and rng.random() < 0.5:
            self._take_back_renaming(found)
        return {name: bytes(content) for name, content in found.items()}

    def _apply_some(self, content: bytearray, changes: list[_Write | _Truncation]) -> None:
        """Apply any of the changes, in any order between changes of length."""
        rng = self._rng
        share = rng.choice([0.0, 0.5, 0.9, 1.0])
        torn: set[int] = set()
        writes: list[_Write] = []
        for change in [*changes, None]:
            if isinstance(change, _Write):
                if rng.random() < share:
                    writes.append(change)
                continue
            for write in rng.sample(writes, len(writes)):
                for part in self._surviving(write, torn):
                    _apply(content, part)
            writes = []
            if change is not None and rng.random() < share:
                _apply(content, change)

    def _surviving(self, write: _Write, torn: set[int]) -> Iterator[_Write]:
        """Yield the sectors of a write that arrived; power fails once, so none is torn twice."""
        rng, (place, data) = self._rng, write
        whole = rng.random() < 0.5
        start = 0
        while start < len(data):
            sector = (place + start) // _SECTOR
            end = (sector + 1) * _SECTOR - place
            part = data[start:end]
            if whole or rng.random() < 0.8:
                if not whole and sector not in torn and rng.random() < 0.1:
                    torn.add(sector)
                    part = part[: rng.randrange(len(part))]
                yield _Write(place + start, part)
            start = end


def _apply(content: bytearray, change: _Write | _Truncation) -> None:
    if isinstance(change, _Truncation):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    place, data = change
    if len(content) < place + len(data):
        content.extend(bytes(place + len(data) - len(content)))
    content[place : place + len(data)] = data


_disks = [Disk(random.Random(0), 0)]
"""The last one is attached."""


@contextmanager
def attached(disk: Disk) -> Iterator[Disk]:
    """Let everything that the embedded store writes go to a disk."""
    _disks.append(disk)
    try:
        with (
            patch.object(marks, "os", _system),
            patch.object(marks, "time", _clock),
            patch.object(marks, "create_private", _system.create_private),
            patch.object(marks, "open_private", _system.open_private),
            patch.object(Path, "replace", _replace),
            patch.object(Path, "unlink", _unlink),
        ):
            yield disk
    finally:
        _disks.remove(disk)
        _system.close_all()


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        self._name = Path(name.filename() if hasattr(name, "filename") else name or "").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        _disks[-1].write(self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        _disks[-1].synchronise(self._name)

    def xTruncate(self, size: int) -> None:
        _disks[-1].truncate(self._name, size)
        super().xTruncate(size)


class _FileSystem(apsw.VFS):
    def __init__(self) -> None:
        super().__init__(VFS, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(name, flags)

    def xDelete(self, name: str, syncdir: bool) -> None:
        _disks[-1].delete(Path(name).name, syncdir)
        super().xDelete(name, False)


_file_system = _FileSystem()


class _System:
    """The module ``os``, and what makes private files, as the high-water mark uses them."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def create_private(self, path: Path) -> int:
        _disks[-1].truncate(path.name, 0)
        return self._named(private.create_private(path), path)

    def open_private(self, path: Path, flags: int) -> int:
        return self._named(private.open_private(path, flags), path)

    def open(self, path: Path, flags: int) -> int:
        return self._named(os.open(path, flags), path)

    def _named(self, file: int, path: Path) -> int:
        self._names[file] = "" if path.is_dir() else path.name
        return file

    def pwrite(self, file: int, data: bytes, place: int) -> int:
        _disks[-1].write(self._names[file], place, bytes(data))
        return os.pwrite(file, data, place)

    def fdatasync(self, file: int) -> None:
        if name := self._names[file]:
            _disks[-1].synchronise(name)
        else:
            _disks[-1].synchronise_folder()

    fsync = fdatasync

    def close(self, file: int) -> None:
        del self._names[file]
        os.close(file)

    def close_all(self) -> None:
        """Close what whoever lost power has left open, as the end of its process does."""
        for file in list(self._names):
            self.close(file)


def _replace(path: Path, target: Path) -> Path:
    """Do as ``Path.replace`` does."""
    _disks[-1].rename(path.name, target.name)
    os.replace(path, target)  # noqa: PTH105  # that is what this stands in for
    return target


def _unlink(path: Path, missing_ok: bool = False) -> None:
    """Do as ``Path.unlink`` does."""
    if path.exists():
        _disks[-1].delete(path.name, durably=False)
        os.unlink(path)  # noqa: PTH108  # that is what this stands in for
    elif not missing_ok:
        raise FileNotFoundError(path)


class _Clock:
    """The module ``time`` as the high-water mark uses it: operations take time."""

    @staticmethod
    def monotonic() -> float:
        return _disks[-1].seconds


_system, _clock = _System(), _Clock()
