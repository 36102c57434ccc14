"""The hash chain of a log: each record's digest covers all records before it.

Digests are keyed with a secret that is kept apart from the store, so that whoever can write the
store cannot write a chain. The key of a log depends on its number: records of one log do not
continue another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from armrace.errors import DamagedFile

_SIZE = 16


class Head(NamedTuple):
    """The end of a log: the sequence number and the digest of its last record."""

    sequence: int
    digest: bytes


BEGINNING = Head(0, bytes(_SIZE))
"""The end of an empty log; the first record has the sequence number 1."""


class LogRecord(NamedTuple):
    """An event in a store."""

    sequence: int
    payload: bytes
    digest: bytes
    subject: int | None = None
    """What the record can be found by, if anything; not covered by the digest."""


make_record: Callable[[Any], LogRecord] = partial(tuple.__new__, LogRecord)
"""As ``LogRecord._make``, which takes three times as long."""
_make_head: Callable[[Any], Head] = partial(tuple.__new__, Head)


def head_of(record: LogRecord) -> Head:
    """Return the end of a log whose last record this is."""
    return _make_head((record.sequence, record.digest))


class Chain:
    """Links and verifies the records of one log, with a secret of at most 64 bytes or none."""

    def __init__(self, secret: bytes, log: int) -> None:
        key = hashlib.blake2b(b"log %d" % log, key=secret).digest()
        # Copying an object whose key was parsed takes less time than a plain digest.
        self._keyed = hashlib.blake2b(key=key, digest_size=_SIZE)

    def link(self, head: Head, payload: bytes, subject: int | None = None) -> LogRecord:
        """Return the record that adds ``payload`` to a log that ends in ``head``."""
        digest = self._keyed.copy()
        digest.update(head.digest + payload)
        return make_record((head.sequence + 1, payload, digest.digest(), subject))

    def verify(self, head: Head, records: Iterable[LogRecord]) -> None:
        """Refuse records of which one is missing, was changed or is out of place after ``head``."""
        # Local names, because this loop runs once for every record of a long log.
        (last, digest), copy = head, self._keyed.copy
        for sequence, payload, given, _ in records:
            last += 1
            if sequence != last:
                raise DamagedFile(
                    f"the log is damaged: record {last} is missing, and {sequence} follows."
                )
            keyed = copy()
            try:
                keyed.update(digest + payload)
            except TypeError:  # damage in a database can turn bytes into a number or text
                raise DamagedFile(f"the log is damaged: record {last} holds no bytes.") from None
            digest = keyed.digest()
            if given != digest:
                raise DamagedFile(f"the log is damaged: record {last} does not match its digest.")
