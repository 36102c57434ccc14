"""The embedded store: damage and losses are noticed, and one process uses it at a time."""

import os
import random
import shutil
import stat
import threading

import apsw
import pytest

from armrace.errors import (
    ArmraceError,
    DamagedFile,
    InvalidParameter,
    StoreFailed,
    StoreInUse,
    UnwritableOutput,
)
from armrace.service.log import sqlite as sqlite_module
from armrace.service.log.chain import BEGINNING, Chain
from armrace.service.log.marks import Marks
from armrace.service.log.sqlite import SqliteStore, _SqliteTransaction
from log_filling import append, create, payloads
from processes import python

LOGS = (1, 2, 3)


def fill(store, count=30):
    """Create three logs of so many records, one record of each log in turn."""
    create(store, "a", "b", "c")
    for number in range(count):
        more(store, number)


def more(store, number=0):
    with store.transaction(dict.fromkeys(LOGS, 0)) as transaction:
        for log in LOGS:
            append(transaction, log, b"%d" % number * 100, subject=number)


def content(store):
    """Return all records of all logs, after their chains were verified."""
    with store.transaction() as transaction:
        found = {entry.log: [*transaction.read(entry.log)] for entry in transaction.logs()}
    for log, records in found.items():
        Chain(b"", log).verify(BEGINNING, records)
    return found


def reopened(path, **options):
    store = SqliteStore(path, **options)
    try:
        return content(store)
    finally:
        store.close()


@pytest.fixture
def path(tmp_path):
    """A store with some records, closed."""
    path = tmp_path / "clicks.db"
    store = SqliteStore(path)
    fill(store)
    store.close()
    return path


def execute(path, *statements):
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_one_process_at_a_time(path):
    store = SqliteStore(path)
    script = f"from armrace.service.log.sqlite import SqliteStore; SqliteStore({str(path)!r})"
    done = python("-c", script)
    assert "StoreInUse" in done.stderr
    assert "is in use by another process" in done.stderr
    for read_only in (False, True):
        with pytest.raises(StoreInUse):
            SqliteStore(path, read_only=read_only)
    store.close()


def test_records_are_found_with_the_index_by_subject(path):
    """Without its name, SQLite reads the whole log."""
    store = SqliteStore(path)

    def plan(read):
        queries = []
        with store.transaction() as transaction:
            store._connection.exec_trace = lambda _, query, values: not queries.append(query)
            read(transaction)
            store._connection.exec_trace = None
        (query,) = queries
        values = [None] * query.count("?")
        return [row[3] for row in store._connection.execute("EXPLAIN QUERY PLAN " + query, values)]

    found = plan(lambda transaction: transaction.find_many(1, [2], 3))
    assert "SEARCH records USING INDEX subjects (log=? AND subject=?)" in found
    for read in (
        lambda transaction: transaction.read(1, 2, 3),
        lambda transaction: transaction.read_many(1, [2, 3]),
        lambda transaction: transaction.head(1),
    ):
        assert any("USING INDEX places" in step for step in plan(read))
        assert not any("TEMP B-TREE" in step for step in plan(read))
    found = plan(lambda transaction: transaction.find_log("tenant", "a"))
    assert found == ["SEARCH logs USING COVERING INDEX names (tenant=? AND name=?)"]
    store.close()


def test_places_are_given_in_the_order_of_arrival_and_never_again(path):
    store = SqliteStore(path)
    query = "SELECT max(place), count(*) FROM records"
    assert store._connection.execute(query).fetchone() == (90, 90)
    for log in LOGS[::-1]:  # the last is that of the last record
        with store.transaction({log: 30}) as transaction:
            transaction.delete_log(log)
    assert store._connection.execute(query).fetchone() == (90, 3)
    (log,) = create(store, "d")
    with store.transaction({log: 0}) as transaction:
        append(transaction, log, b"next")
    assert store._connection.execute(query).fetchone() == (91, 4)
    store.close()


def test_a_store_that_has_lost_its_end_is_refused(path, tmp_path):
    """The file of an hour ago, with the mark of now: SQLite alone would not notice."""
    earlier = tmp_path / "earlier.db"
    shutil.copy(path, earlier)
    store = SqliteStore(path)
    with store.transaction({2: 30}) as transaction:
        append(transaction, 2, b"acknowledged")
    store.close()
    shutil.copy(earlier, path)
    for read_only in (False, True):
        sentence = "has lost acknowledged events: it ends with record 90, and 91 were acknowledged"
        with pytest.raises(DamagedFile, match=sentence):
            SqliteStore(path, read_only=read_only)


def test_a_truncated_wal_is_noticed(tmp_path):
    path, copy = tmp_path / "clicks.db", tmp_path / "copy"
    store = SqliteStore(path)
    fill(store)
    copy.mkdir()
    for file in tmp_path.glob("clicks.db*"):
        shutil.copy(file, copy)
    store.close()
    size = (copy / "clicks.db-wal").stat().st_size
    assert size > 10_000
    rng = random.Random(1)
    for number in range(10):
        place = tmp_path / f"cut{number}"
        shutil.copytree(copy, place)
        os.truncate(place / "clicks.db-wal", rng.randrange(32, size - 4096))
        with pytest.raises(DamagedFile):
            SqliteStore(place / "clicks.db")


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_flipped_bits_are_noticed_or_harmless(tmp_path, ending):
    """A flipped bit either is noticed when logs are read, or is where nothing is kept."""
    path, copy = tmp_path / "clicks.db", tmp_path / "copy"
    store = SqliteStore(path)
    fill(store, 15)
    store.close()
    store = SqliteStore(path)
    more(store)
    expected = content(store)
    copy.mkdir()
    for file in tmp_path.glob("clicks.db*"):
        shutil.copy(file, copy)
    store.close()
    before = (copy / f"clicks.db{ending}").read_bytes()
    rng, noticed = random.Random(2), 0
    for number in range(60):
        place = tmp_path / f"flipped{number}"
        shutil.copytree(copy, place)
        damaged = bytearray(before)
        damaged[rng.randrange(len(before))] ^= 1 << rng.randrange(8)
        (place / f"clicks.db{ending}").write_bytes(damaged)
        try:
            store = SqliteStore(place / "clicks.db")
            try:
                store.check()
                found = content(store)
                # Digests do not cover subjects: what reads the events compares them.
                assert [[each[:3] for each in records] for records in found.values()] == [
                    [each[:3] for each in records] for records in expected.values()
                ]
            finally:
                store.close()
        except ArmraceError:
            noticed += 1
    assert noticed > 5


def test_an_index_that_does_not_fit_the_records_is_noticed(path):
    execute(
        path,
        "DROP INDEX subjects",
        "CREATE INDEX subjects ON records (log, subject) WHERE subject > 5",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, '> 5', 'IS NOT NULL')",
    )
    store = SqliteStore(path)
    with pytest.raises(DamagedFile, match=r"clicks.db is damaged: .* from index subjects"):
        store.check()
    store.close()


def test_a_missing_index_is_an_error_and_not_a_slow_search(path):
    execute(path, "DROP INDEX subjects")
    store = SqliteStore(path)
    with (
        pytest.raises(StoreFailed, match="no such index: subjects"),
        store.transaction() as transaction,
    ):
        transaction.find_many(1, [1])
    store.close()


def test_a_snapshot_that_is_listed_and_cannot_be_read_is_damage(path):
    """As after a power loss on a disk that ignored a synchronisation."""
    store = SqliteStore(path)
    with (
        store.transaction() as transaction,
        pytest.raises(DamagedFile, match="after record 7 cannot be read"),
    ):
        transaction.load_snapshot(1, 7)
    store.close()


def test_a_mark_of_another_store_is_refused(path, tmp_path):
    store = SqliteStore(tmp_path / "other.db")
    create(store, "x")
    with store.transaction({1: 0}) as transaction:
        append(transaction, 1, b"other")
    store.close()
    shutil.copy(tmp_path / "other.db-mark", tmp_path / "clicks.db-mark")
    with pytest.raises(DamagedFile, match="is not the store of the high-water mark"):
        SqliteStore(path)


def test_a_mark_is_signed_if_there_are_keys(tmp_path):
    path = tmp_path / "clicks.db"
    store = SqliteStore(path, secrets=[b"first"])
    fill(store, 1)
    store.close()
    reopened(path, secrets=[b"second", b"first"])
    for secrets in ([b"second"], [b""]):
        with pytest.raises(DamagedFile, match=r"the high-water mark .* is damaged"):
            SqliteStore(path, secrets=secrets)


@pytest.mark.parametrize(
    ("damaged", "sentence"),
    [
        (None, "has no high-water mark"),
        (b"", "has no high-water mark"),
        (bytes(128), "has no high-water mark"),
        (b"armmark2", "is damaged"),
    ],
    ids=["missing", "empty", "zeros", "short"],
)
def test_a_missing_or_damaged_mark_is_refused_again_and_again_unless_restored(
    path, tmp_path, damaged, sentence
):
    """A supervisor that starts the service again must not get past the refusal."""
    mark = tmp_path / "clicks.db-mark"
    mark.unlink()
    if damaged is not None:
        mark.write_bytes(damaged)
    for _ in range(3):
        with pytest.raises(DamagedFile, match=sentence):
            SqliteStore(path)
    before = reopened(path, restored=True)
    assert reopened(path) == before


@pytest.mark.parametrize("left", [None, b""], ids=["missing", "empty"])
def test_a_store_is_opened_whose_making_was_interrupted(tmp_path, left):
    """The power failed after the database was made, and before its mark was."""
    path, mark = tmp_path / "clicks.db", tmp_path / "clicks.db-mark"
    SqliteStore(path).close()
    mark.unlink()
    if left is not None:
        mark.write_bytes(left)
    store = SqliteStore(path)
    fill(store, 3)
    store.close()
    assert len(reopened(path)[3]) == 3


@pytest.mark.parametrize("ends_with_a_record", [True, False])
@pytest.mark.parametrize("interrupted", ["before", "after", None])
def test_a_mark_never_names_a_record_of_a_deleted_log(
    path, monkeypatch, ends_with_a_record, interrupted
):
    """Whatever mark a loss of power leaves, before and after the log is deleted."""
    marks, original, keep = [], Marks.synchronise, _SqliteTransaction.commit
    mark = path.with_name("clicks.db-mark")

    def synchronise(self):
        original(self)
        marks.append(mark.read_bytes())

    def commit(self):
        if interrupted == "before":
            raise KeyboardInterrupt
        keep(self)
        if interrupted == "after":
            raise KeyboardInterrupt

    store = SqliteStore(path)
    monkeypatch.setattr(Marks, "synchronise", synchronise)
    monkeypatch.setattr(_SqliteTransaction, "commit", commit)
    try:
        with store.transaction({3: 30}) as transaction:  # the log of the marked record
            if ends_with_a_record:
                append(transaction, 3, b"deleted")
            transaction.delete_log(3)
    except KeyboardInterrupt:
        pass
    monkeypatch.undo()
    assert marks
    marks[:-1] = marks[-1:]  # earlier ones are no longer on the disk when the transaction is kept
    store.close()
    for each in (*marks, mark.read_bytes()):
        mark.write_bytes(each)
        store = SqliteStore(path)
        assert len(payloads(store, 3)) == (30 if interrupted == "before" else 1)
        store.close()


@pytest.mark.parametrize("damaged", [b"hello", b"SQLite format 3\x00" + bytes(84), bytes(5000)])
def test_what_is_no_store_is_refused(tmp_path, damaged):
    path = tmp_path / "clicks.db"
    path.write_bytes(damaged)
    with pytest.raises(DamagedFile):
        SqliteStore(path)


def test_databases_of_other_programs_and_versions_are_refused(path, tmp_path):
    execute(tmp_path / "other.db", "CREATE TABLE t (x)")
    with pytest.raises(DamagedFile, match="not a store of armrace"):
        SqliteStore(tmp_path / "other.db")
    execute(path, "PRAGMA user_version = 99")
    with pytest.raises(DamagedFile, match="has the schema 99; this version reads 10"):
        SqliteStore(path)


def test_a_store_with_one_log_for_all_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "clicks.db"
    execute(path, "CREATE TABLE records (sequence INTEGER PRIMARY KEY, payload BLOB, digest BLOB)")
    execute(path, "PRAGMA journal_mode = wal")
    execute(path, f"PRAGMA application_id = {0x61726D72}")
    execute(path, "PRAGMA user_version = 3")
    path.chmod(0o600)
    before = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(DamagedFile, match="armrace upgrade OLD NEW"):
            SqliteStore(path, read_only=read_only)
    assert path.read_bytes() == before


@pytest.mark.parametrize("place", ["missing/clicks.db", "."])
def test_a_place_that_cannot_be_opened_is_refused(tmp_path, place):
    with pytest.raises(StoreFailed, match="cannot be used"):
        SqliteStore(tmp_path / place)


def test_an_interruption_right_after_a_commit_leaves_the_store_usable(path, monkeypatch):
    """Ctrl-C at the worst moment: the records are kept, and the store does not know it yet."""
    original = _SqliteTransaction.commit

    def commit(self):
        original(self)
        monkeypatch.undo()
        raise KeyboardInterrupt

    store = SqliteStore(path)
    more(store)  # heads are in memory
    monkeypatch.setattr(_SqliteTransaction, "commit", commit)
    with pytest.raises(KeyboardInterrupt):
        more(store)
    more(store)
    store.close()
    assert {len(records) for records in reopened(path).values()} == {33}


def test_heads_in_memory_are_bounded(path, monkeypatch):
    monkeypatch.setattr(sqlite_module, "_MOST_HEADS", 2)
    store = SqliteStore(path)
    for _ in range(3):
        more(store)
    for log in LOGS:
        with store.transaction({log: 0}):
            assert len(store._heads) <= 3
    store.close()
    assert {len(records) for records in reopened(path).values()} == {33}


def test_a_backup_is_a_store(path, tmp_path):
    copy = tmp_path / "copy.db"
    store = SqliteStore(path)
    store.back_up(copy)
    with pytest.raises(InvalidParameter, match="must be a new file"):
        store.back_up(copy)
    expected = content(store)
    store.close()
    for _ in range(2):
        with pytest.raises(DamagedFile, match="has no high-water mark"):
            SqliteStore(copy)
    assert reopened(copy, restored=True) == expected


def test_a_backup_that_fails_leaves_nothing(path, tmp_path, monkeypatch):
    def fail(store, connection):
        connection.execute("CREATE TABLE half (copied INTEGER)")
        raise apsw.FullError("the disk is full")

    store = SqliteStore(path)
    monkeypatch.setattr(SqliteStore, "_copy_into", fail)
    with pytest.raises(UnwritableOutput, match="the disk is full"):
        store.back_up(tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))
    monkeypatch.undo()
    store.back_up(tmp_path / "copy.db")
    store.close()


def test_a_backup_is_written_while_others_append(path, tmp_path, monkeypatch):
    """Page by page: the copy holds each transaction or not, but not in part."""
    monkeypatch.setattr(sqlite_module, "_BACKUP_PAGES", 1)
    store = SqliteStore(path)
    done = threading.Event()

    def write():
        while not done.is_set():
            more(store)

    other = threading.Thread(target=write)
    other.start()
    try:
        store.back_up(tmp_path / "copy.db")
    finally:
        done.set()
        other.join()
    store.close()
    (length,) = {len(records) for records in reopened(tmp_path / "copy.db", restored=True).values()}
    assert length >= 30


def test_a_store_can_be_read_and_nothing_is_changed(path, tmp_path):
    store = SqliteStore(path)
    more(store)
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in tmp_path.glob("clicks.db*"):
        shutil.copy(file, copy)
    expected = content(store)
    store.close()
    before = {file.name: file.read_bytes() for file in copy.iterdir()}
    assert "clicks.db-wal" in before
    store = SqliteStore(copy / "clicks.db", read_only=True)
    assert content(store) == expected
    with store.transaction({1: 31}, creates=True) as transaction:
        with pytest.raises(InvalidParameter, match="cannot write to log 1"):
            append(transaction, 1, b"never")
        with pytest.raises(InvalidParameter, match="was not opened to create logs"):
            transaction.create_log("tenant", "new")
    store.close()
    assert {file.name: file.read_bytes() for file in copy.iterdir()} == before
    with pytest.raises(StoreFailed):
        SqliteStore(tmp_path / "absent.db", read_only=True)
    assert not list(tmp_path.glob("absent*"))


_NAME = "armrace-read-only-logs"
_WRITABLE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


class _ReadOnly(apsw.VFS):
    """Opens a database as the system does for a user who may only read it; root may do anything."""

    def __init__(self):
        super().__init__(_NAME, "")

    def xOpen(self, name, flags):
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            flags[0] = flags[0] & ~_WRITABLE | apsw.SQLITE_OPEN_READONLY
        return apsw.VFSFile("", name, flags)


@pytest.fixture
def vfs():
    file_system = _ReadOnly()
    yield _NAME
    file_system.unregister()


def test_a_database_that_cannot_be_written_is_refused(path, tmp_path, vfs):
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"clicks.db cannot be used"):
            SqliteStore(path, vfs=vfs)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    with pytest.raises(StoreFailed, match=r"new.db cannot be used"):
        SqliteStore(tmp_path / "new.db", vfs=vfs)


def test_all_files_are_readable_by_their_owner_alone(path, tmp_path):
    path.chmod(0o644)
    before = os.umask(0)
    try:
        store = SqliteStore(path)
        more(store)
        store.back_up(tmp_path / "copy.db")
        found = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        store.close()
    finally:
        os.umask(before)
    names = {"clicks.db", "clicks.db-wal", "clicks.db-mark", "copy.db"}
    assert found == dict.fromkeys(names, 0o600)


@pytest.mark.parametrize("ending", ["", "-mark", "-wal"])
def test_a_file_that_others_can_write_is_refused(path, ending):
    file = path.with_name(path.name + ending)
    file.touch()
    file.chmod(0o666)
    with pytest.raises(StoreFailed, match="other users can write to it"):
        SqliteStore(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("ending", ["", "-mark"])
def test_a_file_of_another_user_is_refused(path, ending):
    os.chown(path.with_name(path.name + ending), 12345, -1)
    with pytest.raises(StoreFailed, match="it belongs to another user"):
        SqliteStore(path)


def test_planted_links_are_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "clicks.db-mark.new").symlink_to(victim)
    SqliteStore(path, restored=True).close()
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "copy.db").symlink_to(victim)
    store = SqliteStore(path)
    for link in ("dangling", "copy.db"):
        with pytest.raises(InvalidParameter, match="must be a new file"):
            store.back_up(tmp_path / link)
    store.close()
    mark = tmp_path / "clicks.db-mark"
    mark.rename(tmp_path / "mark")
    mark.symlink_to(tmp_path / "mark")
    with pytest.raises(ArmraceError, match="cannot open"):
        SqliteStore(path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()
