"""Logs of earlier versions are read, and brought to the schema of this one."""

from __future__ import annotations

import hashlib

import apsw
import msgspec
import pytest

import armrace
from armrace.errors import DamagedFile, RewardConflict
from armrace.service.stores.sqlite import SqliteStore
from serving import folded_bytes, live_bytes

SCHEMA_1 = """
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    digest BLOB NOT NULL,
    subject INTEGER
) STRICT;
CREATE INDEX subjects ON records (subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (sequence INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
PRAGMA application_id = 1634889074;
PRAGMA user_version = 1;
"""
"""As the first version made it."""


def version(path) -> int:
    connection = apsw.Connection(str(path))
    try:
        return connection.pragma("user_version")
    finally:
        connection.close()


def _as_before(snapshot: bytes) -> bytes:
    """A snapshot without conflicts, courses, sources and streams."""
    *head, experiments = msgspec.msgpack.decode(snapshot[16:])
    data = msgspec.msgpack.encode([*head, [each[:-4] for each in experiments]])
    return hashlib.blake2b(data, digest_size=16).digest() + data


@pytest.fixture
def old(tmp_path):
    """A file of schema 1 with a log, and with a snapshot that lacks what came later."""
    path, made = tmp_path / "clicks.db", tmp_path / "made.db"
    with armrace.open(made) as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=100, seed=1)
        for decision in service.decide_many("ads", 20):
            service.reward(decision, 1.0)
        with service.ledger.store.turn() as turn:
            records = [tuple(record) for record in turn.read()]
        snapshot = _as_before(live_bytes(service))
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA_1)
    connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", records)
    connection.execute("INSERT INTO snapshots VALUES (?, ?)", (len(records), snapshot))
    connection.close()
    (tmp_path / "made.db-keys").rename(tmp_path / "clicks.db-keys")
    (tmp_path / "made.db-mark").rename(tmp_path / "clicks.db-mark")
    return path


def test_a_file_of_the_first_schema_is_migrated(old):
    assert version(old) == 1
    with armrace.open(old) as service:
        assert service.describe("ads").decisions == 20
        assert folded_bytes(service.ledger.store, snapshots=False) == live_bytes(service)
        decision = service.decide("ads")
        service.reward(decision, 1.0)
        with pytest.raises(RewardConflict):
            service.reward(decision, 0.0)
    assert version(old) == 2
    with armrace.open(old) as service:
        assert service.describe("ads").conflicts == 1


@pytest.mark.parametrize("wrong", [3, 99, -1])
def test_a_schema_that_is_not_known_is_refused_and_left_alone(old, wrong):
    connection = apsw.Connection(str(old))
    connection.pragma("user_version", wrong)
    connection.close()
    with pytest.raises(DamagedFile, match=f"has the schema {wrong}; this version reads 1 to 2"):
        SqliteStore(old)
    assert version(old) == wrong
