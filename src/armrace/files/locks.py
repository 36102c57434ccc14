"""Locks that divide work among processes: what one of them has locked, no other one starts.

A lock is an empty file beside the work. The system releases it when its process ends, however
it ends, so a process that was killed leaves nothing locked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from armrace.errors import UnwritableOutput


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
