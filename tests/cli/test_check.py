"""``armrace check``: intact stores, and stores that are damaged in every part."""

import hashlib
import json
import shutil
import subprocess
import sys

import apsw
import pytest

import armrace
from armrace.cli.main import run
from armrace.service import Service
from armrace.service.keyring import Keyring
from armrace.service.log.sqlite import SqliteStore
from armrace.service.model.experiment import ExperimentState
from processes import python
from serving import Clock, live_bytes


def digests(folder):
    """All files of a folder with their contents."""
    return {each.name: hashlib.sha256(each.read_bytes()).digest() for each in folder.iterdir()}


def fill(service, clock):
    """Experiments with snapshots, a quarantine, and rulings about learned rewards and visits."""
    service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=10_000, quarantine=0.5, seed=1)
    for number in range(4):
        made = service.decide_many("ads", 30)
        service.reward_many([(each, 1.0) for each in made[::2]], source=f"source {number}")
        service.reward(made[1], 1.0, source="bot", suspicion=0.9)
        clock.move(4000)
    service.retract("ads", sources="source 2")
    service.void("ads", sources="source 3")
    service.decide_many("ads", 10)
    service.create("mails", ["a", "b"], 0, policy="ucb1", horizon=10_000, seed=1)
    service.decide_many("mails", 5)
    service.create("gone", ["a", "b"], 0, policy="ucb1", horizon=10_000, seed=1)
    service.finish("gone")
    service.delete("gone", without_export=True)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A store that was closed, with several snapshots."""
    folder = tmp_path_factory.mktemp("original")
    service = opened(folder, clock := Clock())
    service.engine.snapshot_step = 40
    fill(service, clock)
    service.close()
    for each in folder.glob("*-marks-*"):
        each.unlink()  # the copies have other names
    return folder


def opened(folder, clock):
    keyring = Keyring(folder / "clicks.db-keys")
    secrets = (keyring.store_secret(),)
    return Service(SqliteStore(folder / "clicks.db", secrets=secrets), keyring, clock=clock)


@pytest.fixture
def store(original, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(original, folder)
    return folder / "clicks.db"


def change(store, statement, *values):
    """Change a file of SQLite behind the back of the service."""
    connection = apsw.Connection(str(store))
    connection.execute(statement, values)
    changed = connection.changes()
    connection.close()
    assert changed


def test_an_intact_store_is_read_and_not_changed(store, capsys):
    before = digests(store.parent)
    assert run(["check", str(store)]) == 0
    found = capsys.readouterr()
    assert digests(store.parent) == before
    with armrace.open(store) as service:
        records = service.verify() + 1  # of what is left of the deleted one
        assert f"Records: {records}; experiments: 2;" in found.out


def test_nothing_of_a_store_is_changed_even_if_it_was_killed(store, tmp_path, capsys):
    """What a killed process leaves has a write-ahead log, which is part of the store."""
    script = (
        "import os, sys, armrace\n"
        "service = armrace.open(sys.argv[1])\n"
        "made = service.decide_many('ads', 20)\n"
        "service.reward_many([(each, 1.0) for each in made])\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(store)], check=True, timeout=300)
    before = digests(store.parent)
    assert before["clicks.db-wal"] != hashlib.sha256(b"").digest()
    assert run(["check", str(store), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert digests(store.parent) == before
    assert found["intact"]
    assert found["problem"] is None
    assert found["snapshots"] >= 2
    with armrace.open(store) as service:
        assert service.verify() + 1 == found["records"]
        decisions = sum(service.describe(name).decisions for name in ("ads", "mails"))
        assert decisions == found["decisions"] == 140
        assert (found["experiments"], found["deleted"]) == (2, 1)


def flip_payload(store):
    longer = "CAST(payload || x'00' AS BLOB)"
    change(store, f"UPDATE records SET payload = {longer} WHERE log = 1 AND sequence = 7")


def remove_record(store):
    change(store, "DELETE FROM records WHERE log = 1 AND sequence = 9")


def cut_end(store):
    change(store, "DELETE FROM records WHERE place > 150")


def move_subject(store):
    change(store, "UPDATE records SET subject = subject + 1 WHERE subject > 0")


def hide_ruling(store):
    change(store, "UPDATE records SET subject = NULL WHERE subject = 0 AND sequence > 1")


def swap_names(store):
    change(store, "UPDATE logs SET name = 'others' WHERE log = 2")


def revive(store):
    change(store, "UPDATE logs SET is_deleted = 0 WHERE log = 3")


def bury(store):
    change(store, "UPDATE logs SET is_deleted = 1 WHERE log = 2")


def take_records_of_another(store):
    """Records of one log, in place of those of another that is as long."""
    change(store, "UPDATE records SET log = 9 WHERE log = 2")
    change(
        store,
        "INSERT INTO records SELECT place + 1000, 2, sequence, payload, digest, subject "
        "FROM records WHERE log = 1 AND sequence <= 6",
    )
    change(store, "DELETE FROM records WHERE log = 9")
    store.with_name("clicks.db-mark").unlink()
    keyring = Keyring(store.with_name("clicks.db-keys"))
    SqliteStore(store, restored=True, secrets=(keyring.store_secret(),)).close()


def empty_mark(store):
    mark = store.with_name("clicks.db-mark")
    mark.write_bytes(bytes(mark.stat().st_size))


def overwrite_mark(store):
    mark = store.with_name("clicks.db-mark")
    mark.write_bytes(bytes(each ^ 1 for each in mark.read_bytes()))


def remove_mark(store):
    store.with_name("clicks.db-mark").unlink()


def flip_snapshot(store):
    change(store, "UPDATE snapshots SET data = CAST(data || x'00' AS BLOB)")


def exchange_snapshot(store):
    """A snapshot that is intact, of another moment."""
    change(
        store,
        "UPDATE snapshots SET data = "
        "(SELECT data FROM snapshots WHERE log = 1 ORDER BY sequence LIMIT 1) "
        "WHERE log = 1 AND sequence = (SELECT max(sequence) FROM snapshots WHERE log = 1)",
    )


def falsify_snapshot(store):
    """A snapshot with a right digest and a wrong count, which nothing else would notice."""
    connection = apsw.Connection(str(store))
    sequence, data = next(
        iter(connection.execute("SELECT sequence, data FROM snapshots ORDER BY sequence LIMIT 1"))
    )
    connection.close()
    state = ExperimentState.load(data)
    state.conflicts += 1
    assert ExperimentState.load(state.save()).conflicts == 1
    change(store, "UPDATE snapshots SET data = ? WHERE sequence = ?", state.save(), sequence)


def resurrect(store, rule):
    """A snapshot that has learned what was ruled out later, as if it had not been removed."""
    folder = store.parent / "other"
    folder.mkdir()
    shutil.copy(store.with_name("clicks.db-keys"), folder)
    service = opened(folder, clock := Clock())
    service.engine.snapshot_step = 10**9
    call, kept = getattr(service, rule), []

    def ruled(*arguments, **named):
        data = live_bytes(service)
        kept.append((1, ExperimentState.load(data).head.sequence, data))
        return call(*arguments, **named)

    setattr(service, rule, ruled)
    fill(service, clock)
    service.close()
    shutil.rmtree(folder)
    change(store, "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", *kept[0])


def resurrect_retracted(store):
    resurrect(store, "retract")


def resurrect_voided(store):
    resurrect(store, "void")


def overwrite_page(store):
    content = bytearray(store.read_bytes())
    content[4096 * 2 : 4096 * 2 + 64] = bytes(64)
    store.write_bytes(content)


def overwrite_head(store):
    content = bytearray(store.read_bytes())
    content[:16] = b"no SQLite format"
    store.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (flip_payload, "record 7 does not match its digest"),
        (remove_record, "record 9 is missing"),
        (cut_end, "has lost acknowledged events"),
        (move_subject, "is kept under a wrong subject"),
        (hide_ruling, "is kept under a wrong subject"),
        (overwrite_mark, "clicks.db-mark is damaged"),
        (empty_mark, "has no high-water mark beside it"),
        (remove_mark, "has no high-water mark beside it"),
        (flip_snapshot, "is not the replay of the log up to it"),
        (exchange_snapshot, "is not the replay of the log up to it"),
        (falsify_snapshot, "is not the replay of the log up to it"),
        (resurrect_retracted, "is not the replay of the log up to it"),
        (resurrect_voided, "is not the replay of the log up to it"),
        (swap_names, "the directory leads to the log of another experiment"),
        (revive, "record 1 is missing"),
        (bury, "is marked as deleted, but has not been"),
        (take_records_of_another, "record 1 does not match its digest"),
        (overwrite_page, "is damaged"),
        (overwrite_head, "is damaged or not a database"),
    ],
)
def test_damage_is_named_in_a_sentence_with_exit_code_1(store, capsys, damage, sentence):
    damage(store)
    assert run(["check", str(store), "--json", "-"]) == 1
    found = capsys.readouterr()
    assert sentence in found.err
    assert found.err.count("\n") == 1
    assert "Traceback" not in found.err
    told = json.loads(found.out)
    assert not told["intact"]
    assert sentence in told["problem"]


def empty_file(store):
    store.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (flip_payload, "record 7 does not match its digest"),
        (falsify_snapshot, "is not the replay of the log up to it"),
        (empty_file, "is a database, but not a store of armrace"),
    ],
)
def test_a_damaged_copy_is_not_restored_nor_changed(store, monkeypatch, capsys, damage, sentence):
    monkeypatch.setattr("armrace.service.loading.PART", 5)  # as if the log were long
    damage(store)
    before = digests(store.parent)
    assert run(["restore", str(store)]) != 0
    assert sentence in capsys.readouterr().err
    assert digests(store.parent) == before


def test_a_backup_is_checked_without_its_mark(store, tmp_path, capsys):
    copy = tmp_path / "backup.db"
    with armrace.open(store) as service:
        service.back_up(copy)
    before, keys = copy.read_bytes(), ["--keys", f"{store}-keys"]
    assert run(["check", str(copy)]) == 2
    assert "there are no keys" in capsys.readouterr().err
    assert run(["check", str(copy), *keys]) == 1
    assert "has no high-water mark" in capsys.readouterr().err
    assert run(["check", "--backup", str(copy), *keys]) == 0
    assert copy.read_bytes() == before
    assert not copy.with_name("backup.db-mark").exists()
    other = tmp_path / "other-keys"
    Keyring(other)
    assert run(["check", "--backup", str(copy), "--keys", str(other)]) == 1
    assert "record 1 does not match its digest" in capsys.readouterr().err


def test_a_backup_is_served_once_it_is_restored(store, tmp_path, capsys):
    copy = tmp_path / "backup.db"
    with armrace.open(store) as service:
        decision = service.decide("mails")
        service.back_up(copy)
        service.decide_many("ads", 5)
    assert run(["restore", str(copy)]) == 2
    assert "there are no keys" in capsys.readouterr().err
    shutil.copy(f"{store}-keys", f"{copy}-keys")
    assert run(["check", str(copy)]) == 1
    assert run(["restore", str(copy)]) == 0
    assert "can be served; it has" in capsys.readouterr().err
    with armrace.open(copy) as service:
        assert service.describe("mails").decisions == 6
        assert service.reward(decision, 1.0) == "accepted"
    # In the place of the store itself, whose marks are later.
    for ending in ("", "-mark"):
        shutil.copy(f"{copy}{ending}", f"{store}{ending}")
    assert run(["check", str(store)]) == 1
    assert "was rewritten or has lost acknowledged events" in capsys.readouterr().err
    assert run(["restore", str(store)]) == 0
    with armrace.open(store) as service:
        assert service.decide("ads").arm in ("a", "b")


def test_a_store_of_the_first_design_is_not_read(store, capsys):
    connection = apsw.Connection(str(store))
    connection.pragma("user_version", 3)
    connection.close()
    assert run(["check", str(store)]) == 1
    assert "armrace upgrade OLD NEW" in capsys.readouterr().err
    connection = apsw.Connection(str(store))
    assert connection.pragma("user_version") == 3
    connection.close()


def test_what_cannot_be_checked_is_refused_with_exit_code_2(store, tmp_path, capsys):
    with armrace.open(store):
        script = "import sys; from armrace.cli.main import run; sys.exit(run(sys.argv[1:]))"
        done = python("-c", script, "check", str(store))
    assert done.returncode == 2
    assert "is in use by another process" in done.stderr
    for arguments, sentence in {
        ("none.db",): "place must be a file that exists",
        (":memory:",): "place must be a file that exists",
        (str(tmp_path),): "place must be a file that exists",
        ("postgresql://127.0.0.1:9/none",): "keys must name a file if the store is a database",
        ("postgresql://127.0.0.1:9/none", "--keys", f"{store}-keys"): "the database cannot be used",
        ("--backup", "postgresql://127.0.0.1:9/none"): "--backup is for a file",
        (str(store), "--json", str(store)): "exists; give another name",
    }.items():
        assert run(["check", *arguments]) == 2
        assert sentence in capsys.readouterr().err
