"""The high-water mark: how far a log has been acknowledged, in a file beside the log.

A database whose last pages are lost can open without complaint as a shorter one. The mark is
written after each turn, before its answers leave, so that such a loss is noticed when the store is
opened. To wait for the disk a second time in every turn would halve the number of turns; so the
mark is synchronised ten times a second. It survives the end of the process in any case. A loss of
power can set it back by a tenth of a second, not the log, which is synchronised in every turn.

The file has two slots, written in turn, so that a write that is torn leaves the other slot intact.
"""

from __future__ import annotations

import hashlib
import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from armrace.errors import DamagedFile, StoreFailed
from armrace.files.private import check_private
from armrace.service.chain import Head

__all__ = ["HighWaterMark"]

_SLOT = struct.Struct("<8sQ16s16s")
_MAGIC = b"armrace1"
_SYNCHRONISE_SECONDS = 0.1


class HighWaterMark:
    """The head up to which a log has been acknowledged.

    Args:
        path: the file, which must hold a mark.
        secrets: what may have signed it; the first signs. By default it is not signed.

    Raises:
        DamagedFile: the file holds no mark.
    """

    def __init__(self, path: Path, secrets: Sequence[bytes] = (b"",)) -> None:
        self._path = path
        self.secrets = secrets
        self._synchronised = time.monotonic()
        self._file = _open(path, os.O_RDWR)
        try:
            content = os.pread(self._file, 2 * _SLOT.size, 0)
        except OSError as error:
            os.close(self._file)
            raise _failure("read", path, error) from error
        slots = [content[place : place + _SLOT.size] for place in (0, _SLOT.size)]
        heads = [_read(slot, secrets) for slot in slots]
        found = [head for head in heads if head is not None]
        if not found:
            os.close(self._file)
            signed = (
                " or signed with other keys; remove it if the keys are new" if any(secrets) else ""
            )
            raise DamagedFile(f"the high-water mark {path} is damaged{signed}.")
        self.head = max(found)
        # The slot to write next is the one that does not hold the latest mark.
        self._slot = 0 if heads[0] is None or heads[0] != self.head else 1

    @classmethod
    def create(cls, path: Path, head: Head, secrets: Sequence[bytes] = (b"",)) -> HighWaterMark:
        """Write a mark into a new file, whole or not at all, in place of an existing one."""
        new = path.with_name(path.name + ".new")
        file = _open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_TRUNC)
        try:
            # Both slots, so that later writes do not change the length.
            os.write(file, 2 * _slot(head, secrets[0]))
            # The content must be durable before the name is, and the name before anything is
            # acknowledged.
            os.fsync(file)
            new.replace(path)
            _synchronise_folder(path.parent)
        except OSError as error:
            raise _failure("write", path, error) from error
        finally:
            os.close(file)
        return cls(path, secrets)

    def move(self, head: Head, *, lasting: bool = True) -> None:
        """Write a new mark.

        Args:
            head: the new mark.
            lasting: whether to synchronise it if the last time was a tenth of a second ago.
        """
        slot = _slot(head, self.secrets[0])
        try:
            written = os.pwrite(self._file, slot, self._slot * _SLOT.size)
        except OSError as error:
            raise _failure("write", self._path, error) from error
        if written != len(slot):
            raise StoreFailed(f"cannot write {self._path}: {written} of {len(slot)} bytes went.")
        self.head, self._slot = head, 1 - self._slot
        if lasting and time.monotonic() - self._synchronised > _SYNCHRONISE_SECONDS:
            self.synchronise()

    def synchronise(self) -> None:
        """Wait until the mark is durable."""
        try:
            os.fdatasync(self._file)
        except OSError as error:
            raise _failure("write", self._path, error) from error
        self._synchronised = time.monotonic()

    def close(self) -> None:
        """Synchronise and close the file."""
        try:
            self.synchronise()
        finally:
            os.close(self._file)


def _open(path: Path, flags: int) -> int:
    try:
        if flags & os.O_CREAT:
            path.unlink(missing_ok=True)  # what a loss of power has left, or another user's link
        else:
            check_private(path)
        return os.open(path, flags | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _failure("open", path, error) from error


def _synchronise_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _failure(action: str, path: Path, error: OSError) -> StoreFailed:
    return StoreFailed(f"cannot {action} {path}: {error.strerror}.")


def _slot(head: Head, secret: bytes) -> bytes:
    content = _MAGIC + struct.pack("<Q", head.sequence) + head.digest
    return content + _digest(content, secret)


def _digest(content: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16, key=secret).digest()


def _read(slot: bytes, secrets: Sequence[bytes]) -> Head | None:
    """Return the head in a slot; ``None`` if the slot is not intact."""
    if len(slot) != _SLOT.size:
        return None
    magic, sequence, digest, check = _SLOT.unpack(slot)
    if magic != _MAGIC or check not in [_digest(slot[:-16], secret) for secret in secrets]:
        return None
    return Head(sequence, digest)
