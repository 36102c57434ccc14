"""Files of a store: for this user alone, and from no other user."""

from __future__ import annotations

import os
import stat

import pytest

import armrace
from armrace.errors import ArmraceError, DamagedFile, InvalidParameter, StoreFailed
from armrace.service.keyring import Keyring
from armrace.service.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path):
    with armrace.open(tmp_path / "clicks.db") as service:
        service.create("ads", ["a", "b"], 0)
    return tmp_path / "clicks.db"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_all_files_are_readable_by_their_owner_alone(path, tmp_path):
    path.chmod(0o644)  # as earlier versions made it
    before = os.umask(0)
    try:
        with armrace.open(path) as service:
            service.decide("ads")
            service.back_up(tmp_path / "copy.db")
            found = {each.name.partition("-seal-")[0]: mode(each) for each in tmp_path.iterdir()}
            assert len(list(tmp_path.glob("clicks.db-keys-seal-*"))) == 1
    finally:
        os.umask(before)
    assert found.keys() == {
        "clicks.db", "clicks.db-wal", "clicks.db-mark", "clicks.db-keys", "copy.db",
    }  # fmt: skip
    assert set(found.values()) == {0o600}


@pytest.mark.parametrize("ending", ["", "-mark", "-wal", "-keys"])
def test_a_file_that_others_can_write_is_refused(path, ending):
    file = path.with_name(path.name + ending)
    file.touch()
    file.chmod(0o666)
    with pytest.raises((StoreFailed, DamagedFile), match="other users can write to it"):
        armrace.open(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("ending", ["", "-mark", "-keys"])
def test_a_file_of_another_user_is_refused(path, ending):
    os.chown(path.with_name(path.name + ending), 12345, -1)
    with pytest.raises((StoreFailed, DamagedFile), match="it belongs to another user"):
        armrace.open(path)


def test_planted_links_are_not_followed(path, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "clicks.db-mark.new").symlink_to(victim)
    SqliteStore(path, restored=True).close()
    (tmp_path / "dangling").symlink_to(tmp_path / "elsewhere")
    with armrace.open(path) as service:
        for link in ("dangling", "copy.db"):
            (tmp_path / "copy.db").unlink(missing_ok=True)
            (tmp_path / "copy.db").symlink_to(victim)
            with pytest.raises(InvalidParameter, match="must be a new file"):
                service.back_up(tmp_path / link)
    mark = tmp_path / "clicks.db-mark"
    mark.rename(tmp_path / "mark")
    mark.symlink_to(tmp_path / "mark")
    with pytest.raises(ArmraceError, match="cannot open"):
        armrace.open(path)
    assert victim.read_text() == "precious"
    assert not (tmp_path / "elsewhere").exists()


def test_keys_that_others_can_write_are_refused_while_the_service_runs(tmp_path):
    keys = Keyring(tmp_path / "keys")
    made = keys.create(["admin"])[0]
    (tmp_path / "keys").chmod(0o666)
    os.utime(tmp_path / "keys", ns=(1, 1))
    keys.refresh()
    assert "other users can write to it" in keys.problem
    assert keys.get(made.id) == made
