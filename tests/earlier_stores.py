"""Stores of the first design, one log for all experiments, made of payloads that it wrote."""

import hashlib
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

DATA = Path(__file__).parent / "service" / "data"
SCHEMA = """
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    digest BLOB NOT NULL,
    subject INTEGER
) STRICT;
CREATE INDEX subjects ON records (subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (sequence INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
PRAGMA application_id = 1634889074;
"""
"""As the first version made it."""


def payloads_of(name: str) -> list[bytes]:
    """The events of a log that an earlier version wrote."""
    content = zlib.decompress((DATA / f"{name}.msgpack.zlib").read_bytes())
    return msgspec.msgpack.decode(content, type=list[bytes])


def expected_of(name: str) -> Any:
    """What the version that wrote the log had made of it."""
    return json.loads((DATA / f"{name}.json").read_text())


def records_of(payloads: Sequence[bytes]) -> Iterator[tuple[int, bytes, bytes, int | None]]:
    """Records with the digests of then."""
    digest = bytes(16)
    for sequence, payload in enumerate(payloads, 1):
        digest = hashlib.blake2b(digest + payload, digest_size=16).digest()
        kind, *rest = msgspec.msgpack.decode(payload)
        subject = rest[2] if kind == 2 else 0 if kind in (3, 4) else None
        yield sequence, payload, digest, subject


def write_sqlite(path: Path, payloads: Sequence[bytes], schema: int) -> None:
    """Write a file of an earlier schema, with its high-water mark."""
    records = list(records_of(payloads))
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA)
    connection.pragma("user_version", schema)
    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", records)
    connection.execute("INSERT INTO snapshots VALUES (?, ?)", (len(records), b"of then"))
    connection.close()
    path.chmod(0o600)
    sequence, _, digest, _ = records[-1]
    write_mark(path.with_name(path.name + "-mark"), sequence, digest)


def write_mark(path: Path, sequence: int, digest: bytes) -> None:
    """Write the high-water mark of then."""
    content = b"armrace1" + struct.pack("<Q", sequence) + digest
    path.write_bytes(2 * (content + hashlib.blake2b(content, digest_size=16).digest()))
    path.chmod(0o600)
