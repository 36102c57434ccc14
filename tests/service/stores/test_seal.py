"""A log that was rewritten whole, digests and mark included, is noticed by the seal of the keys."""

from __future__ import annotations

import apsw
import psycopg
import pytest

import armrace
from armrace.cli.main import run
from armrace.errors import DamagedFile
from armrace.service import Keyring, Service
from armrace.service.chain import BEGINNING, Head, link
from armrace.service.stores.high_water import HighWaterMark
from armrace.service.stores.postgres import PostgresStore


@pytest.fixture
def path(tmp_path):
    with armrace.open(tmp_path / "clicks.db") as service:
        service.create("ads", ["a", "b"], 0, seed=1)
        service.decide("ads", unit="somebody")
    return tmp_path / "clicks.db"


def rewrite(path):
    """Change a record, and write all digests and the mark anew, as the unkeyed chain allows."""
    connection = apsw.Connection(str(path))
    head = BEGINNING
    for sequence, payload in connection.execute("SELECT sequence, payload FROM records").fetchall():
        record = link(head, payload.replace(b"somebody", b"nobody12"))
        head = Head(record.sequence, record.digest)
        connection.execute(
            "UPDATE records SET payload = ?, digest = ? WHERE sequence = ?",
            (record.payload, record.digest, sequence),
        )
    connection.execute("DELETE FROM snapshots")
    connection.close()
    HighWaterMark.create(path.with_name(path.name + "-mark"), head).close()


def test_a_chain_that_was_rewritten_whole_is_noticed(path):
    rewrite(path)
    with pytest.raises(DamagedFile, match="the log was rewritten or has lost acknowledged events"):
        armrace.open(path)


def test_a_seal_of_other_keys_is_refused(path):
    keys = path.with_name(path.name + "-keys")
    keys.unlink()
    with pytest.raises(DamagedFile, match="damaged or signed with other keys"):
        armrace.open(path)


def test_a_log_without_a_seal_is_sealed_when_it_is_opened(path, tmp_path):
    (seal,) = tmp_path.glob("*-seal-*")
    seal.unlink()  # as an earlier version left it
    armrace.open(path).close()
    rewrite(path)
    with pytest.raises(DamagedFile, match="rewritten"):
        armrace.open(path)


def test_the_seal_follows_the_keys_that_sign(path):
    with armrace.open(path) as service:
        for _ in range(3):
            service.keyring.rotate(kept=2)
            service.decide("ads")
    armrace.open(path).close()


def test_a_backup_that_is_accepted_is_sealed_anew(path, tmp_path):
    with armrace.open(path) as service:
        service.back_up(tmp_path / "copy.db")
        service.decide("ads")
    (tmp_path / "copy.db").rename(path)
    with pytest.raises(DamagedFile):
        armrace.open(path)
    assert run(["restore", str(path)]) == 0
    armrace.open(path).close()


def test_a_folder_of_keys_that_cannot_be_written_has_no_seal(tmp_path, monkeypatch):
    keyring = Keyring(tmp_path / "keys")
    monkeypatch.setattr("armrace.service.seal.os.access", lambda *given: False)
    with armrace.open(tmp_path / "log.db") as service:
        assert service.ledger.seal is None
    assert keyring.path.exists()
    assert not list(tmp_path.glob("*-seal-*"))


def test_a_database_that_has_lost_its_end_is_noticed(postgres, tmp_path):
    keys = tmp_path / "keys"
    with Service(PostgresStore(postgres.place, "sealed"), Keyring(keys)) as service:
        service.create("ads", ["a", "b"], 0, seed=1)
        service.decide_many("ads", 5)
    Service(PostgresStore(postgres.place, "sealed"), Keyring(keys)).close()
    with psycopg.connect(postgres.place) as connection:
        connection.execute("DELETE FROM sealed.records WHERE sequence > 4")
        connection.execute("DELETE FROM sealed.snapshots")
    store = PostgresStore(postgres.place, "sealed")
    with pytest.raises(DamagedFile, match="remove that file if the log is from a backup"):
        Service(store, Keyring(keys))
    store.close()
    (seal,) = tmp_path.glob("*-seal-*")
    seal.unlink()
    with Service(PostgresStore(postgres.place, "sealed"), Keyring(keys)) as service:
        assert service.describe("ads").decisions == 3
