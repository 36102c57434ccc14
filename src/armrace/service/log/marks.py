"""High-water marks: how far logs have been acknowledged, in one file apart from their store.

A database whose last pages are lost can open without complaint as a shorter one, and whoever can
write a database can shorten its logs. A mark is written after each transaction, before its answers
leave, so that such a loss is noticed when the log is next opened. To wait for the disk a second
time in every transaction would halve their number; so marks are synchronised ten times a second.
They survive the end of the process in any case. A loss of power can set them back by a tenth of a
second, not the logs, which are synchronised in every transaction.

Each number has a pair of slots, written in turn, so that a write that is torn leaves the other slot
intact. A slot is signed with the keys of the service, together with its number.
"""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from armrace.errors import DamagedFile, StoreFailed
from armrace.files.private import create_private, open_private
from armrace.service.log.chain import BEGINNING, Head
from armrace.service.log.store import Transaction

# Eight slots fill a sector of 512 bytes, so that no pair lies in two: the first write of a pair is
# whole or absent.
_SLOT = struct.Struct("<8sQQ16s16s8x")
_MAGIC = b"armmark2"
_CHECK_SIZE = 16
_SYNCHRONISE_SECONDS = 0.1


class Marks:
    """The heads up to which logs have been acknowledged, by number.

    Any of the secrets may have signed the marks; the first signs. By default they are not signed.
    """

    def __init__(self, path: Path, secrets: Sequence[bytes] = (b"",)) -> None:
        self._path = path
        self.secrets = secrets
        self._synchronised = time.monotonic()
        self._known: dict[int, tuple[Head, int]] = {}
        """The mark of each number that was used, and the slot of its pair to write next."""
        with _errors_of("open", path):
            self._file = open_private(path, os.O_RDWR)

    @classmethod
    def create(
        cls, path: Path, secrets: Sequence[bytes] = (b"",), heads: Mapping[int, Head] | None = None
    ) -> Marks:
        """Write marks into a new file, whole or not at all, in place of an existing one."""
        new = path.with_name(path.name + ".new")
        with _errors_of("write", path):
            new.unlink(missing_ok=True)  # what a loss of power has left, or another user's link
            file = create_private(new)
            try:
                for number, head in (heads or {}).items():
                    pair = 2 * _pack(number, head, secrets[0])
                    _write(file, pair, number * len(pair))
                # The content must be durable before the name is, and the name before anything is
                # acknowledged.
                os.fsync(file)
                new.replace(path)
                _synchronise_folder(path.parent)
            finally:
                os.close(file)
        return cls(path, secrets)

    def get(self, number: int) -> Head | None:
        """Return a mark; ``None`` if none was written."""
        if number in self._known:
            return self._known[number][0]
        size = _SLOT.size
        with _errors_of("read", self._path):
            pair = os.pread(self._file, 2 * size, 2 * size * number)
        if not any(pair):
            return None
        heads = [_unpack(number, slot, self.secrets) for slot in (pair[:size], pair[size:])]
        found = [head for head in heads if head is not None]
        if not found:
            signed = " or signed with other keys; remove it if the keys are new"
            raise DamagedFile(
                f"the high-water mark {self._path} is damaged{signed if any(self.secrets) else ''}."
            )
        latest = max(found)
        self._known[number] = latest, 0 if heads[0] != latest else 1
        return latest

    def move(self, number: int, head: Head, *, lasting: bool = True) -> None:
        """Write a new mark; if ``lasting``, synchronise all unless that was done just now."""
        is_first = self.get(number) is None
        slot = 0 if is_first else self._known[number][1]
        content = _pack(number, head, self.secrets[0])
        with _errors_of("write", self._path):
            # Both slots at first, so that a slot of zeros is never half of a pair.
            content *= 2 if is_first else 1
            _write(self._file, content, (2 * number + slot) * _SLOT.size)
        self._known[number] = head, 1 - slot
        if lasting and time.monotonic() - self._synchronised > _SYNCHRONISE_SECONDS:
            self.synchronise()

    def set_back(self, number: int, head: Head) -> None:
        """Write an earlier mark, and wait until no later one is left."""
        for _ in range(2):  # one slot after the other, so that one is always intact
            self.move(number, head, lasting=False)
            self.synchronise()

    def synchronise(self) -> None:
        """Wait until all marks are durable."""
        with _errors_of("write", self._path):
            os.fdatasync(self._file)
        self._synchronised = time.monotonic()

    def close(self) -> None:
        """Synchronise and close the file."""
        try:
            self.synchronise()
        finally:
            os.close(self._file)


def marks_path(keys: Path, store: str, what: str = "marks") -> Path:
    """Return where the marks of the database named ``store`` are kept: beside the keys.

    So is ``what`` else a server keeps for itself.
    """
    name = hashlib.blake2b(store.encode(), digest_size=4).hexdigest()
    return keys.with_name(f"{keys.name}-{what}-{name}")


def check_mark(transaction: Transaction, log: int, head: Head) -> None:
    """Refuse a log that does not hold the record that its mark names."""
    if head == BEGINNING:
        return
    found = [record.digest for record in transaction.read_many(log, [head.sequence])]
    if found == [head.digest]:
        return
    is_deleted = any(entry.is_deleted for entry in transaction.logs() if entry.log == log)
    # Of a log that another server has deleted since, the last record is left.
    if found or not is_deleted or transaction.head(log).sequence <= head.sequence:
        raise DamagedFile(
            f"log {log} was rewritten or has lost acknowledged events: it does not hold record "
            f"{head.sequence} as its high-water mark knows it; remove the file of marks if the "
            "store is from a backup."
        )


def _pack(number: int, head: Head, secret: bytes) -> bytes:
    content = struct.pack("<8sQQ16s", _MAGIC, number, *head)
    check = hashlib.blake2b(content, digest_size=_CHECK_SIZE, key=secret).digest()
    return _SLOT.pack(_MAGIC, number, *head, check)


def _unpack(number: int, slot: bytes, secrets: Sequence[bytes]) -> Head | None:
    """Return the head in a slot; ``None`` if the slot is not intact."""
    if len(slot) != _SLOT.size:
        return None
    _, _, sequence, digest, _ = _SLOT.unpack(slot)
    head = Head(sequence, digest)
    return head if any(slot == _pack(number, head, secret) for secret in secrets) else None


def _write(file: int, content: bytes, place: int) -> None:
    written = os.pwrite(file, content, place)
    if written != len(content):
        raise OSError(errno.EIO, f"{written} of {len(content)} bytes went")


def _synchronise_folder(folder: Path) -> None:
    """Make the names of a folder's files durable."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _errors_of(action: str, path: Path) -> Iterator[None]:
    """Turn errors of the system into one sentence each."""
    try:
        yield
    except OSError as error:
        raise StoreFailed(f"cannot {action} {path}: {error.strerror}.") from error
