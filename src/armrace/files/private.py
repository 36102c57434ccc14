"""Files and folders that no other user of the machine can write.

Machine code is executed, and a store's log decides what a service does: neither is read from where
another user could have put it. Functions raise OSError as the system does, so that the caller's
sentence about a file that cannot be used holds for these reasons too.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_CLOSED_AND_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)


def create_private(path: Path, flags: int = os.O_WRONLY) -> int:
    """Create a file that only this user can read and write, and return its descriptor."""
    return os.open(path, flags | os.O_CREAT | os.O_EXCL | _CLOSED_AND_NO_LINK, 0o600)


def open_private(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a plain file that no other user can have written, and return its descriptor."""
    # Without O_NONBLOCK, opening a pipe waits for its other end.
    file = os.open(path, flags | _CLOSED_AND_NO_LINK | getattr(os, "O_NONBLOCK", 0))
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        _check(found, path)
    except BaseException:
        os.close(file)
        raise
    return file


def check_private(path: Path) -> None:
    """Refuse a file or folder that another user could have written.

    A link may lead to it, unless another user made the link.
    """
    link = path.lstat()
    _check(link, path)
    if stat.S_ISLNK(link.st_mode):
        _check(path.stat(), path)


def make_private_folder(folder: Path) -> None:
    """Make a folder and its missing parents, which only this user can enter."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
    check_private(folder)


def _check(found: os.stat_result, path: Path) -> None:
    if not hasattr(os, "getuid"):
        return
    if found.st_uid not in {os.getuid(), 0}:  # the system's administrator can write anyway
        raise PermissionError(errno.EACCES, "it belongs to another user", str(path))
    # A link's own permissions mean nothing.
    if not stat.S_ISLNK(found.st_mode) and found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(errno.EACCES, "other users can write to it", str(path))
