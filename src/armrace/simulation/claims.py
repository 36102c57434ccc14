"""Claims: what one process works on, no other one starts.

A claim is a lock on an empty file beside the work. The system gives it up when the process
ends, however it ends, so that nothing is left claimed by the dead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from armrace.errors import UnwritableOutput

__all__ = ["claimed"]


@contextmanager
def claimed(files: Sequence[Path]) -> Iterator[list[bool]]:
    """Claim files that nobody else has; says of each whether it was to be had."""
    held: list[int | None] = []
    try:
        for file in files:
            held.append(_claim(file))  # noqa: PERF401  # those before must be given up
        yield [descriptor is not None for descriptor in held]
    finally:
        for file, descriptor in zip(files, held, strict=False):
            if descriptor is not None:
                file.unlink(missing_ok=True)
                os.close(descriptor)


def _claim(file: Path) -> int | None:
    import fcntl  # not everywhere, and nowhere else needed

    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UnwritableOutput(f"cannot write {file}: {error.strerror}.") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError as error:
        os.close(descriptor)
        raise UnwritableOutput(f"cannot lock {file}: {error.strerror}.") from error
    if _is_still(file, descriptor):
        return descriptor
    os.close(descriptor)
    return None


def _is_still(file: Path, descriptor: int) -> bool:
    """Whether the lock is on the file of that name: who gives up a claim removes the file."""
    try:
        return file.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False
