"""The embedded store: damage and losses are noticed, and one process uses it at a time."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading

import apsw
import msgspec
import pytest
from starlette.testclient import TestClient

import armrace
from armrace.errors import (
    ArmraceError,
    DamagedFile,
    InvalidParameter,
    StoreFailed,
    StoreInUse,
    UnwritableOutput,
)
from armrace.service import Service, log_parts
from armrace.service.events import decode, encode
from armrace.service.http.application import create_application
from armrace.service.stores.sqlite import SqliteStore, _SqliteTurn
from serving import LOCAL, folded_bytes, live_bytes


@pytest.fixture
def path(tmp_path):
    """A store with some events, closed."""
    path = tmp_path / "clicks.db"
    with armrace.open(path) as service:
        fill(service)
    return path


def fill(service, count=100):
    service.create("ads", ["a", "b", "c"], 0, seed=1)
    for decision in service.decide_many("ads", count):
        service.reward(decision, 1.0)


def test_everything_is_there_after_a_restart(tmp_path):
    service = armrace.open(tmp_path / "clicks.db")
    fill(service)
    decision = service.decide("ads", request="r")
    before = live_bytes(service)
    service.close()
    with armrace.open(tmp_path / "clicks.db") as again:
        assert live_bytes(again) == before
        assert again.decide("ads", request="r").decision == decision.decision
        assert again.reward(decision, 0.5) == "accepted"
        assert folded_bytes(again.ledger.store, snapshots=False) == live_bytes(again)


def test_another_process_is_refused(path):
    with armrace.open(path):
        script = f"import armrace; armrace.open({str(path)!r})"
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        assert "StoreInUse" in done.stderr
        assert "is in use by another process" in done.stderr
        with pytest.raises(StoreInUse):
            SqliteStore(path)


def test_a_log_that_has_lost_its_end_is_refused(path, tmp_path):
    """The file of an hour ago, with the mark of now: SQLite alone would not notice."""
    earlier = tmp_path / "earlier.db"
    shutil.copy(path, earlier)
    with armrace.open(path) as service:
        service.decide("ads")
    shutil.copy(earlier, path)
    with pytest.raises(DamagedFile, match="has lost acknowledged events: it ends with record 201"):
        armrace.open(path)


def test_a_truncated_wal_is_noticed(tmp_path):
    path, copy = tmp_path / "clicks.db", tmp_path / "copy"
    service = armrace.open(path)
    fill(service, count=20)
    copy.mkdir()
    for file in tmp_path.glob("clicks.db*"):
        shutil.copy(file, copy)
    service.close()
    wal = copy / "clicks.db-wal"
    size = wal.stat().st_size
    assert size > 10_000
    rng = random.Random(1)
    for _ in range(10):
        place = tmp_path / f"cut{rng.random()}"
        shutil.copytree(copy, place)
        os.truncate(place / "clicks.db-wal", rng.randrange(32, size - 4096))
        with pytest.raises(DamagedFile):
            armrace.open(place / "clicks.db")


def test_a_snapshot_that_is_listed_and_cannot_be_read_is_damage(path):
    """As after a power loss on a disk that ignored a synchronisation."""
    store = SqliteStore(path)
    with store.turn() as turn, pytest.raises(DamagedFile, match="after record 7 cannot be read"):
        turn.load_snapshot(7)
    store.close()


def test_flipped_bits_are_noticed_or_harmless(path, tmp_path):
    """A flipped bit either is noticed when the log is folded, or is where nothing is kept."""
    with armrace.open(path) as service:
        expected = folded_bytes(service.ledger.store, snapshots=False)
    content = path.read_bytes()
    rng, noticed = random.Random(2), 0
    for number in range(60):
        place = tmp_path / f"flipped{number}.db"
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        place.write_bytes(damaged)
        try:
            store = SqliteStore(place, restored=True)
            try:
                assert folded_bytes(store, snapshots=False) == expected
            finally:
                store.close()
        except ArmraceError:
            noticed += 1
    assert noticed > 20


def change_a_reward(path):
    """Change an old reward as a flipped bit would, before the snapshot that closing has saved."""
    connection = apsw.Connection(str(path))
    query = "SELECT sequence, payload FROM records WHERE subject > 0 ORDER BY sequence LIMIT 1"
    sequence, payload = connection.execute(query).fetchone()
    event = decode(payload)
    changed = encode(msgspec.structs.replace(event, steps=event.steps ^ 2**19))
    connection.execute("UPDATE records SET payload = ? WHERE sequence = ?", (changed, sequence))
    connection.close()


def test_damage_before_the_snapshot_of_a_short_log_is_noticed_when_it_is_opened(path):
    change_a_reward(path)
    for _ in range(2):
        with pytest.raises(DamagedFile, match="record 102 does not match its digest"):
            armrace.open(path)


@pytest.mark.parametrize(
    "read",
    [
        lambda service, copy: service.verify(),
        lambda service, copy: service.rows("ads"),
        lambda service, copy: service.export("ads", copy.with_suffix(".ndjson")),
        lambda service, copy: service.back_up(copy),
        lambda service, copy: service.retract("ads", source="nowhere"),
    ],
    ids=["verify", "rows", "export", "back_up", "retract"],
)
def test_damage_in_a_long_log_is_noticed_by_what_reads_it(path, tmp_path, monkeypatch, read):
    monkeypatch.setattr("armrace.service.folding._CHECKED_AT_ONCE", 10)
    for module in ("log_parts", "rulings_aside"):
        monkeypatch.setattr(f"armrace.service.{module}.PART", 7)
    with armrace.open(path) as service:
        assert service.verify() == 201
        assert len(service.rows("ads")) == 100
    change_a_reward(path)
    with armrace.open(path) as service:
        with pytest.raises(DamagedFile, match="record 102 does not match its digest"):
            read(service, tmp_path / "copy.db")
        with pytest.raises(StoreFailed, match="record 102"):
            service.decide("ads")
    assert not list(tmp_path.glob("copy*"))


@pytest.mark.parametrize("subject", ["NULL", "0", "7"])
def test_a_record_under_a_wrong_subject_is_noticed(path, subject):
    """Digests do not cover subjects, by which rulings and the rewards of decisions are found."""
    connection = apsw.Connection(str(path))
    connection.execute(f"UPDATE records SET subject = {subject} WHERE sequence = 150")
    connection.close()
    with pytest.raises(DamagedFile, match="record 150 is kept under a wrong subject"):
        armrace.open(path)


def test_an_index_that_does_not_fit_the_records_is_noticed(path):
    """Rulings and the rewards of decisions would not be found by it."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP INDEX subjects")
    connection.execute("CREATE INDEX subjects ON records (subject) WHERE subject > 50")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = replace(sql, '> 50', 'IS NOT NULL')")
    connection.close()
    with pytest.raises(DamagedFile, match=r"clicks.db is damaged: .* from index subjects"):
        armrace.open(path)


def answers(service):
    """What can be learned from a service: the state, the rows and the ratios."""
    return [live_bytes(service), service.rows("ads"), service.check_ratio("ads")]


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_flipped_bits_are_noticed_or_change_no_answer(tmp_path, ending):
    """As the file is opened in earnest, with its snapshot, its mark and what is in the WAL."""
    path, copy = tmp_path / "clicks.db", tmp_path / "copy"
    with armrace.open(path) as service:
        fill(service, count=20)
    service = armrace.open(path)
    service.decide_many("ads", 20)
    expected = answers(service)
    copy.mkdir()
    for file in tmp_path.glob("clicks.db*"):
        shutil.copy(file, copy)
    service.close()
    content = (copy / f"clicks.db{ending}").read_bytes()
    rng, noticed = random.Random(3), 0
    for number in range(40):
        place = tmp_path / f"flipped{number}"
        shutil.copytree(copy, place)
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        (place / f"clicks.db{ending}").write_bytes(damaged)
        try:
            with armrace.open(place / "clicks.db") as again:
                assert answers(again) == expected
        except ArmraceError:
            noticed += 1
    assert noticed > 5


def test_a_mark_of_another_log_is_refused(path, tmp_path):
    other = tmp_path / "other.db"
    with armrace.open(other) as service:
        fill(service, count=3)
    shutil.copy(tmp_path / "other.db-mark", tmp_path / "clicks.db-mark")
    with pytest.raises(DamagedFile, match="is not the log of the high-water mark"):
        armrace.open(path)


@pytest.mark.parametrize(
    "content", [None, b"", bytes(96), b"armrace1"], ids=["missing", "empty", "zeros", "short"]
)
def test_a_missing_or_damaged_mark_is_refused_again_and_again_unless_restored(
    path, tmp_path, content
):
    """A supervisor that starts the service again must not get past the refusal."""
    mark = tmp_path / "clicks.db-mark"
    mark.unlink()
    if content is not None:
        mark.write_bytes(content)
    sentence = "is damaged" if content else "has no high-water mark"
    for _ in range(3):
        with pytest.raises(DamagedFile, match=sentence):
            armrace.open(path)
    with armrace.open(path, restored=True) as service:
        assert service.names() == ["ads"]
    with armrace.open(path) as service:
        assert service.names() == ["ads"]


@pytest.mark.parametrize("content", [None, b""], ids=["missing", "empty"])
def test_a_store_is_opened_whose_making_was_interrupted(tmp_path, content):
    """The power failed after the database was made, and before its mark was."""
    path, mark = tmp_path / "clicks.db", tmp_path / "clicks.db-mark"
    SqliteStore(path).close()
    mark.unlink()
    if content is not None:
        mark.write_bytes(content)
    with armrace.open(path) as service:
        fill(service, count=3)
    with armrace.open(path) as service:
        assert service.describe("ads").decisions == 3


def test_a_torn_mark_leaves_the_other_slot(path, tmp_path):
    mark = tmp_path / "clicks.db-mark"
    content = mark.read_bytes()
    for slot in (0, 48):
        torn = bytearray(content)
        torn[slot + 10] ^= 1
        mark.write_bytes(torn)
        with armrace.open(path) as service:
            assert service.describe("ads").decisions == 100


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\x00" + bytes(84), bytes(5000)])
def test_what_is_no_store_is_refused(tmp_path, content):
    path = tmp_path / "clicks.db"
    path.write_bytes(content)
    with pytest.raises(DamagedFile):
        armrace.open(path)


def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "clicks.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(DamagedFile, match="not a store of armrace"):
        armrace.open(path)


def test_a_later_schema_is_refused(path):
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DamagedFile, match="has the schema 99"):
        armrace.open(path)


@pytest.mark.parametrize("place", ["missing/clicks.db", "."])
def test_a_place_that_cannot_be_opened_is_refused(tmp_path, place):
    with pytest.raises(StoreFailed, match="cannot be used"):
        armrace.open(tmp_path / place)


def test_a_full_disk_stops_the_service_and_loses_nothing(tmp_path):
    service = armrace.open(tmp_path / "clicks.db")
    fill(service, count=10)
    before = live_bytes(service)
    connection = service.ledger.store._connection
    connection.execute(f"PRAGMA max_page_count = {connection.pragma('page_count')}")

    def fill_up():
        nonlocal before
        for _ in range(50):
            before = live_bytes(service)
            service.decide_many("ads", 100)

    with pytest.raises(StoreFailed, match="full"):
        fill_up()
    with pytest.raises(StoreFailed):
        service.decide("ads")
    service.close()
    with armrace.open(tmp_path / "clicks.db") as again:
        assert live_bytes(again) == before


def test_an_interruption_right_after_a_commit_leaves_the_store_usable(path, monkeypatch):
    """Ctrl-C at the worst moment: the records are kept, and the store does not know it yet."""
    original = _SqliteTurn.commit

    def commit(self):
        original(self)
        if self._writes:
            monkeypatch.undo()
            raise KeyboardInterrupt

    with armrace.open(path) as service:
        monkeypatch.setattr(_SqliteTurn, "commit", commit)
        with pytest.raises(KeyboardInterrupt):
            service.decide("ads")
        assert service.describe("ads").decisions == 101
        service.decide("ads")
    with armrace.open(path) as service:
        assert service.verify() == 203


def test_a_backup_is_a_store(path, tmp_path):
    copy = tmp_path / "copy.db"
    with armrace.open(path) as service:
        service.back_up(copy)
        keyring, before = service.keyring, live_bytes(service)
        with pytest.raises(InvalidParameter, match="must be a new file"):
            service.back_up(copy)
    for _ in range(2):
        with pytest.raises(DamagedFile, match="has no high-water mark"):
            SqliteStore(copy)
    store = SqliteStore(copy, restored=True)
    with Service(store, keyring) as restored:
        assert live_bytes(restored) == before
        assert folded_bytes(store, snapshots=False) == before


def test_a_backup_that_fails_leaves_nothing(path, tmp_path, monkeypatch):
    copy = tmp_path / "copy.db"

    def fail(store, connection):
        connection.execute("CREATE TABLE half (copied INTEGER)")
        raise apsw.FullError("the disk is full")

    monkeypatch.setattr(SqliteStore, "_copy_into", fail)
    with armrace.open(path) as service:
        with pytest.raises(UnwritableOutput, match="the disk is full"):
            service.back_up(copy)
        assert not list(tmp_path.glob("copy*"))
        monkeypatch.undo()
        service.back_up(copy)


def test_a_store_that_cannot_be_backed_up_says_so_before_its_log_is_read(monkeypatch):
    with armrace.open(":memory:") as service:
        monkeypatch.setattr(log_parts, "verify_log", lambda ledger: pytest.fail("was read"))
        with pytest.raises(InvalidParameter, match="back it up with the tools of its database"):
            service.back_up("copy.db")


def test_a_backup_is_written_over_http_while_others_decide(path, tmp_path, monkeypatch):
    """Page by page, with decisions in between, which the copy holds or not, but not in part."""
    monkeypatch.setattr("armrace.service.stores.sqlite._BACKUP_PAGES", 1)
    with armrace.open(path) as service:
        done = threading.Event()

        def decide():
            while not done.is_set():
                service.decide_many("ads", 20)

        other = threading.Thread(target=decide)
        other.start()
        try:
            with TestClient(
                create_application(service, declared_open=True),
                base_url="http://127.0.0.1",
                client=LOCAL,
            ) as client:
                answer = client.post("/v1/backup").json()
                done.set()
                other.join()
        finally:
            done.set()
        keyring = service.keyring
    store = SqliteStore(tmp_path / answer["file"], restored=True)
    with Service(store, keyring) as restored:
        assert restored.ledger.sequence >= answer["records"] >= 201
        assert folded_bytes(store, snapshots=False) == live_bytes(restored)
