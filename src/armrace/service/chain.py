"""The hash chain of the log: each record's digest covers all records before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from armrace.errors import DamagedFile

__all__ = ["BEGINNING", "Head", "Record", "link", "verify"]

_SIZE = 16
_hash = hashlib.blake2b


class Head(NamedTuple):
    """The end of a log: the sequence number and the digest of its last record."""

    sequence: int
    digest: bytes


BEGINNING = Head(0, bytes(_SIZE))
"""The end of an empty log; the first record has the sequence number 1."""


class Record(NamedTuple):
    """An event in a store."""

    sequence: int
    payload: bytes
    digest: bytes
    subject: int | None = None
    """What the record can be found by, if anything."""


def link(head: Head, payload: bytes, subject: int | None = None) -> Record:
    """Return the record that adds ``payload`` to a log that ends in ``head``.

    Args:
        head: the end of the log.
        payload: the event as bytes.
        subject: what the record can be found by; not covered by the digest.
    """
    sequence, digest = head
    digest = _hash(digest + payload, digest_size=_SIZE).digest()
    return Record(sequence + 1, payload, digest, subject)


def verify(head: Head, records: Iterable[Record]) -> None:
    """Refuse records that do not continue a log.

    Args:
        head: the end of the log that the records continue.
        records: the records.

    Raises:
        DamagedFile: a record is missing, was changed or is out of place.
    """
    # Local names, because this loop runs once for every record of a long log.
    (last, digest), new = head, _hash
    for sequence, payload, given, _ in records:
        last += 1
        if sequence != last:
            raise DamagedFile(
                f"the log is damaged: record {last} is missing, and {sequence} follows."
            )
        try:
            digest = new(digest + payload, digest_size=_SIZE).digest()
        except TypeError:  # damage in a database can turn bytes into a number or text
            raise DamagedFile(f"the log is damaged: record {last} holds no bytes.") from None
        if given != digest:
            raise DamagedFile(f"the log is damaged: record {last} does not match its digest.")
