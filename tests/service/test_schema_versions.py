"""Logs of earlier versions are read, and brought to the schema of this one."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path

import apsw
import msgspec
import numpy as np
import pytest

import armrace
from armrace.errors import DamagedFile, RewardConflict
from armrace.kernels.states import lasting_arrays
from armrace.service import Service
from armrace.service.chain import BEGINNING, Head, link
from armrace.service.events import decode, subject
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
    assert version(old) == 3
    with armrace.open(old) as service:
        assert service.describe("ads").conflicts == 1


@pytest.mark.parametrize("wrong", [4, 99, -1])
def test_a_schema_that_is_not_known_is_refused_and_left_alone(old, wrong):
    connection = apsw.Connection(str(old))
    connection.pragma("user_version", wrong)
    connection.close()
    with pytest.raises(DamagedFile, match=f"has the schema {wrong}; this version reads 1 to 3"):
        SqliteStore(old)
    assert version(old) == wrong


DATA = Path(__file__).parent / "data"


@pytest.fixture
def guarded(tmp_path):
    """A file of schema 2 whose log was written before tickets had an inner arm.

    ``rare`` has few turns of its guard, so that its log is folded in bulk; ``often`` has many, each
    of which ends a run.
    """
    path = tmp_path / "clicks.db"
    connection = apsw.Connection(str(path))
    connection.execute(SCHEMA_1)
    connection.pragma("user_version", 2)
    head = BEGINNING
    payloads = zlib.decompress((DATA / "guarded_schema_2.msgpack.zlib").read_bytes())
    for payload in msgspec.msgpack.decode(payloads, type=list[bytes]):
        record = link(head, payload, subject(decode(payload)))
        connection.execute("INSERT INTO records VALUES (?, ?, ?, ?)", tuple(record))
        head = Head(record.sequence, record.digest)
    connection.execute("INSERT INTO snapshots VALUES (?, ?)", (head.sequence, b"of then"))
    connection.close()
    return path


def test_a_log_of_tickets_without_inner_arms_leads_to_the_same_state(guarded):
    """The expected figures are those of the version that wrote the log, in full precision."""
    expected = json.loads((DATA / "guarded_schema_2.json").read_text())
    store = SqliteStore(guarded, restored=True)
    with Service(store) as service:
        for name, facts in expected.items():
            learner = service.ledger._state.find("main", name).generation.learner
            views = [[v.arm, v.layer, v.pulls, v.mean, v.active] for v in learner.inspect()]
            base = {key: np.asarray(array) for key, array in lasting_arrays(learner._state.base)}
            assert views == facts["pulls"]
            assert learner.weights() == pytest.approx(facts["weights"], rel=1e-9)
            assert base.keys() == facts["base"].keys()
            for key, array in base.items():
                assert array == pytest.approx(np.array(facts["base"][key]), rel=1e-9), key
            for decision in service.decide_many(name, 5):
                service.reward(decision, 1.0)
        assert folded_bytes(store, snapshots=False) == live_bytes(service)
    assert version(guarded) == 3
