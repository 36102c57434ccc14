"""High-water marks: torn writes, keys, files of other users, and logs that have lost records."""

import os
import stat

import pytest

from armrace.errors import DamagedFile, StoreFailed
from armrace.service.log.chain import BEGINNING, Head
from armrace.service.log.marks import _SLOT, Marks, check_mark
from armrace.service.log.memory import MemoryStore
from log_filling import append, create

SECRET = b"secret"


def head(number):
    return Head(number, bytes([number % 256]) * 16)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "marks"


def test_marks_are_kept_by_number(path):
    marks = Marks.create(path, [SECRET], {3: head(1)})
    assert [marks.get(number) for number in (0, 3, 4, 10**6)] == [None, head(1), None, None]
    for count in range(1, 6):
        marks.move(0, head(count))
        marks.move(10**6, head(count + 7), lasting=False)
    marks.close()
    marks = Marks(path, [SECRET])
    found = [marks.get(number) for number in (0, 3, 10**6, 10**6 + 1)]
    assert found == [head(5), head(1), head(12), None]
    assert path.stat().st_blocks * 512 < 100_000  # the file has holes
    marks.move(3, head(2))
    marks.close()
    marks = Marks(path, [SECRET])
    assert marks.get(3) == head(2)
    marks.close()


@pytest.mark.parametrize("number", [0, 5])
@pytest.mark.parametrize("moves", [1, 2, 3])
def test_a_torn_write_leaves_the_mark_before(path, number, moves):
    """Wherever the last write ends, the mark is that one or the one before."""
    marks = Marks.create(path, [SECRET])
    for count in range(1, moves + 1):
        marks.move(number, head(count))
    before = path.read_bytes()
    marks.move(number, head(moves + 1))
    after = path.read_bytes()
    marks.close()
    changed = [place for place in range(len(after)) if before[place] != after[place]]
    assert changed[-1] - changed[0] < _SLOT.size
    for place in changed:
        path.write_bytes(after[:place] + before[place:])
        marks = Marks(path, [SECRET])
        assert marks.get(number) == head(moves)
        marks.move(number, head(moves + 1))
        marks.close()
        assert Marks(path, [SECRET]).get(number) == head(moves + 1)


def test_a_pair_lies_in_one_sector():
    assert 512 % (2 * _SLOT.size) == 0


def test_a_mark_is_set_back(path):
    marks = Marks.create(path, [SECRET], {0: head(1)})
    for count in (2, 3):
        marks.move(0, head(count))
    marks.set_back(0, head(1))
    marks.close()
    marks = Marks(path, [SECRET])
    assert marks.get(0) == head(1)
    marks.close()


@pytest.mark.parametrize(
    "content", [b"x", bytes(64) + b"x" * 64, b"\xff" * 128], ids=["short", "half", "whole"]
)
def test_a_damaged_pair_is_refused(path, content):
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(DamagedFile, match=r"marks is damaged\.$"):
        Marks(path).get(0)


def test_every_flipped_bit_is_noticed(path):
    marks = Marks.create(path, [SECRET])
    marks.move(0, head(1))
    marks.close()
    content = path.read_bytes()
    for place in range(_SLOT.size):
        for bit in range(8):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            flipped[place + _SLOT.size] ^= 1 << bit
            path.write_bytes(flipped)
            with pytest.raises(DamagedFile):
                Marks(path, [SECRET]).get(0)


def test_marks_are_signed_with_the_first_key_and_read_with_all(path):
    Marks.create(path, [b"old"], {1: head(1), 2: head(1)}).close()
    marks = Marks(path, [b"new", b"old"])
    marks.move(1, head(2))
    marks.move(1, head(3))
    marks.close()
    marks = Marks(path, [b"new"])
    assert marks.get(1) == head(3)
    with pytest.raises(DamagedFile, match="signed with other keys; remove it if the keys are new"):
        marks.get(2)
    marks.close()


def test_a_mark_of_another_number_is_refused(path):
    marks = Marks.create(path, [SECRET])
    marks.move(0, head(9))
    pair = path.read_bytes()
    marks.close()
    renumbered = bytearray(pair)
    renumbered[8] = renumbered[8 + _SLOT.size] = 1
    for other in (pair, renumbered):
        path.write_bytes(pair + other)
        marks = Marks(path, [SECRET])
        assert marks.get(0) == head(9)
        with pytest.raises(DamagedFile):
            marks.get(1)
        marks.close()


def test_marks_are_synchronised_ten_times_a_second(path, monkeypatch):
    marks = Marks.create(path)
    now, synchronised = [1000.0], []
    monkeypatch.setattr("armrace.service.log.marks.time.monotonic", lambda: now[0])
    monkeypatch.setattr("os.fdatasync", synchronised.append)
    marks.synchronise()
    for _ in range(100):
        now[0] += 0.01
        marks.move(0, head(1))
    assert 9 <= len(synchronised) <= 11
    now[0] += 1
    marks.move(0, head(1), lasting=False)
    assert len(synchronised) <= 11
    marks.close()


def test_files_are_private_and_links_are_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.with_name("marks.new").symlink_to(victim)
    before = os.umask(0)
    try:
        Marks.create(path).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o620)
    with pytest.raises(StoreFailed, match="other users can write to it"):
        Marks(path)
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(StoreFailed, match="cannot open"):
        Marks(path)
    assert victim.read_text() == "precious"
    with pytest.raises(StoreFailed, match="cannot write"):
        Marks.create(tmp_path / "missing" / "marks")


def test_an_error_of_the_disk_is_raised(path, monkeypatch):
    marks = Marks.create(path)
    monkeypatch.setattr("os.pwrite", lambda *arguments: 7)
    with pytest.raises(StoreFailed, match="7 of 128 bytes went"):
        marks.move(0, head(1))
    monkeypatch.undo()
    assert marks.get(0) is None
    marks.close()


def test_a_log_must_hold_its_marked_record():
    store = MemoryStore()
    log, deleted = create(store, "log", "deleted")
    with store.transaction({log: 0, deleted: 0}) as transaction:
        for each in (log, deleted):
            append(transaction, each, b"a", b"b")
        first, last = [record.digest for record in transaction.read(log)]
        old = Head(1, next(transaction.read(deleted)).digest)
        append(transaction, deleted, b"the end")
        transaction.delete_log(deleted)
    with store.transaction() as transaction:
        for good in (BEGINNING, Head(1, first), Head(2, last)):
            check_mark(transaction, log, good)
        for bad in (Head(1, last), Head(2, first), Head(3, last)):
            with pytest.raises(DamagedFile, match=rf"does not hold record {bad.sequence} as its"):
                check_mark(transaction, log, bad)
        check_mark(transaction, deleted, old)
        check_mark(transaction, deleted, transaction.head(deleted))
        for bad in (Head(3, first), Head(4, first)):
            with pytest.raises(DamagedFile, match="rewritten or has lost acknowledged events"):
                check_mark(transaction, deleted, bad)
