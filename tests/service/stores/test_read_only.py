"""A database that can be read and not written: refused in a sentence, and left as it is."""

from __future__ import annotations

import apsw
import pytest

import armrace
from armrace.errors import StoreFailed
from armrace.service.stores.sqlite import SqliteStore

_NAME = "armrace-read-only"
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


def test_a_database_that_cannot_be_written_is_refused(tmp_path, vfs):
    with armrace.open(tmp_path / "clicks.db") as service:
        service.create("ads", ["a", "b"], 0, policy="ucb1", horizon=1000, seed=1)
        decision = service.decide("ads")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"clicks.db cannot be used"):
            SqliteStore(tmp_path / "clicks.db", vfs=vfs)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with armrace.open(tmp_path / "clicks.db") as service:
        assert service.reward(decision, 1.0) == "accepted"


def test_a_new_database_that_cannot_be_written_is_refused(tmp_path, vfs):
    with pytest.raises(StoreFailed, match=r"clicks.db cannot be used"):
        SqliteStore(tmp_path / "clicks.db", vfs=vfs)
