"""Locks that divide work among processes: what one of them has locked, no other one starts.

A lock is an empty file beside the work. The system releases it when its process ends, however
it ends, so a process that was killed leaves nothing locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from armrace.errors import UnwritableOutput

__all__ = ["folder_locked", "locked"]


@contextmanager
def locked(files: Sequence[Path]) -> Iterator[list[bool]]:
    """Lock each file that no other process has locked; yield which locks were acquired."""
    held: list[FileLock | None] = []
    try:
        for file in files:
            held.append(_lock(file))  # noqa: PERF401  # those before must be released
        yield [lock is not None for lock in held]
    finally:
        for file, lock in zip(files, held, strict=False):
            if lock is not None:
                # Removed before it is released: else another process could lock the file, and a
                # third one a new file of the same name, after it was removed.
                with suppress(OSError):
                    file.unlink(missing_ok=True)
                lock.release()


@contextmanager
def folder_locked(folder: Path) -> Iterator[None]:
    """Wait until no other process or thread holds the lock of a folder, and hold it."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise UnwritableOutput(f"cannot write into {folder}: {error.strerror}.") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _lock(file: Path) -> FileLock | None:
    lock = FileLock(file, blocking=False)
    try:
        lock.acquire()
    except Timeout:
        return None
    except OSError as error:
        raise UnwritableOutput(f"cannot lock {file}: {error.strerror}.") from error
    return lock
