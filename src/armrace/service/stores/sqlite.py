"""The embedded store: one file of SQLite, used by one process.

SQLite comes with apsw, since versions before 3.51.3 can damage a database in WAL mode. The file is
in WAL mode with ``synchronous=FULL``, so that a transaction is durable when ``COMMIT`` returns, and
locked for this process alone. Beside it lies the :mod:`high-water mark
<armrace.service.stores.high_water>`.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from armrace.errors import (
    DamagedFile,
    InvalidParameter,
    StoreFailed,
    StoreInUse,
    UnwritableOutput,
)
from armrace.files.private import check_private, create_private
from armrace.service.chain import BEGINNING, Head, Record
from armrace.service.stores.base import Store, Turn, check_continues
from armrace.service.stores.high_water import HighWaterMark

__all__ = ["SqliteStore"]

_record: Callable[[Any], Record] = partial(tuple.__new__, Record)
"""As ``Record._make``, which takes three times as long."""

# "armr" in ASCII.
_APPLICATION = 0x61726D72
_BACKUP_PAGES = 1000
_NO_LIMIT = -1
_SCHEMA = 3
_MIGRATIONS = dict.fromkeys((1, 2), "DELETE FROM snapshots")
"""For each earlier schema, what leads to the next one. All have the same tables; the log of a later
one may hold events that earlier versions cannot read, and its snapshots say more."""
_CREATE = f"""
CREATE TABLE records (
    sequence INTEGER PRIMARY KEY,
    payload BLOB NOT NULL,
    digest BLOB NOT NULL,
    subject INTEGER
) STRICT;
CREATE INDEX subjects ON records (subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (sequence INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_SCHEMA};
"""

_INSERTS = tuple(
    (size, "INSERT INTO records VALUES " + ", ".join(["(?, ?, ?, ?)"] * size))
    for size in (64, 8, 1)
)
"""Statements that insert 64, 8 and 1 records. Each one gives up the interpreter lock, and a busy
event loop does not give it back soon, so few statements are used."""


class SqliteStore(Store):
    """A log in a file.

    Args:
        path: the file, which is created if there is none; its folder must exist.
        restored: whether the file comes from a backup, so that the high-water mark beside it, or
            its absence, says nothing.
        read_only: whether to change nothing: no file is made, brought to a newer schema, or
            written to when the store is closed.
        vfs: the name of SQLite's interface to the system, for tests.
        synchronous: SQLite's setting; anything but FULL loses acknowledged events.

    Raises:
        StoreInUse: another process has opened the file.
        DamagedFile: the file is not a store, is damaged, or has lost acknowledged events.
        StoreFailed: the file cannot be opened.
    """

    def __init__(
        self,
        path: Path | str,
        restored: bool = False,
        vfs: str | None = None,
        synchronous: str = "FULL",
        *,
        read_only: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self.name, self.restored = str(self.path), restored
        self._lock = threading.RLock()
        self._interrupted = False
        """Whether the last turn has not ended, so that its records may be kept or not."""
        self._secure(read_only)
        with _errors_of(self.path):
            flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
            self._connection = apsw.Connection(str(self.path), flags, vfs)
        self.mark: HighWaterMark | None = None
        try:
            with _errors_of(self.path):
                if read_only:
                    self._prepare_reading()
                else:
                    self._prepare(synchronous)
                self._head = self._read_head()
            if not (read_only and restored):
                self.mark = self._open_mark(restored)
        except BaseException:
            self.close()
            raise

    def _secure(self, read_only: bool) -> None:
        """Refuse files that another user could have written; let no other user read them."""
        try:
            for ending in ("", "-wal", "-journal"):
                file = self.path.with_name(self.path.name + ending)
                if file.is_file() or file.is_symlink():
                    check_private(file)
                    if not read_only:
                        file.chmod(0o600)
                elif not ending and not read_only and not file.exists():
                    os.close(create_private(file))
        except OSError as error:
            raise StoreFailed(f"{file} cannot be used: {error.strerror}.") from error

    def _prepare(self, synchronous: str) -> None:
        pragma = self._connection.pragma
        # Before the journal mode: WAL then keeps its index in memory of this process, not in a
        # file.
        pragma("locking_mode", "exclusive")
        pragma("journal_mode", "wal")
        pragma("synchronous", synchronous)
        self._connection.execute("BEGIN IMMEDIATE")  # takes the lock, which is kept
        version, application = pragma("user_version"), pragma("application_id")
        tables = self._connection.execute("SELECT count(*) FROM sqlite_schema").get
        if version == 0 and application == 0 and tables == 0:
            self._connection.execute(_CREATE)
        else:
            self._check_schema(version, application)
        for earlier in range(version or _SCHEMA, _SCHEMA):
            self._connection.execute(_MIGRATIONS[earlier])
            pragma("user_version", earlier + 1)
        self._connection.execute("COMMIT")

    def _check_schema(self, version: int, application: int) -> None:
        if application != _APPLICATION:
            raise DamagedFile(f"{self.path} is a database, but not a store of armrace.")
        if not 1 <= version <= _SCHEMA:
            raise DamagedFile(
                f"{self.path} has the schema {version}; this version reads 1 to {_SCHEMA}."
            )

    def _prepare_reading(self) -> None:
        pragma = self._connection.pragma
        # Locked all the same: a log that another process appends to cannot be read as a whole.
        pragma("locking_mode", "exclusive")
        pragma("query_only", True)
        # A write-ahead log stays as it is, which SQLite would copy into the database and remove in
        # the end. If there is none, SQLite makes an empty one, and removes that.
        kept = self.path.with_name(self.path.name + "-wal").exists()
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(kept))
        version = pragma("user_version")
        self._check_schema(version, pragma("application_id"))
        self.is_current = version == _SCHEMA

    def _read_head(self) -> Head:
        query = "SELECT sequence, digest FROM records ORDER BY sequence DESC LIMIT 1"
        for sequence, digest in self._connection.execute(query):
            return Head(sequence, digest)
        return BEGINNING

    def _open_mark(self, restored: bool) -> HighWaterMark:
        """Return the mark beside the file, after the log was found to reach it."""
        place = self.path.with_name(self.path.name + "-mark")
        if restored:
            return HighWaterMark.create(place, self._head)
        # An empty file is what an earlier version left if the power failed as it made the store.
        if not place.exists() or place.stat().st_size == 0:
            # Without records there is nothing to lose: the store is new, or the power failed as it
            # was made. Otherwise no mark is made, so that the next try is refused too.
            if self._head == BEGINNING:
                return HighWaterMark.create(place, BEGINNING)
            raise DamagedFile(
                f"{self.path} has no high-water mark beside it, so that a loss would not be seen; "
                "open it as restored if it comes from a backup."
            )
        mark = HighWaterMark(place)
        try:
            self._check_marked(mark.head)
        except BaseException:
            mark.close()
            raise
        return mark

    def _check_marked(self, marked: Head) -> None:
        if marked.sequence > self._head.sequence:
            raise DamagedFile(
                f"{self.path} has lost acknowledged events: it ends with record "
                f"{self._head.sequence}, and {marked.sequence} were acknowledged."
            )
        query = "SELECT digest FROM records WHERE sequence = ?"
        with _errors_of(self.path):
            digest = self._connection.execute(query, (marked.sequence,)).get
        if marked != BEGINNING and digest != marked.digest:
            raise DamagedFile(f"{self.path} is not the log of the high-water mark beside it.")

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        with self._lock:
            if self._interrupted:
                with _errors_of(self.path):
                    self._head = self._read_head()
            turn = _SqliteTurn(self._connection, self._head)
            self._interrupted = True
            try:
                with _errors_of(self.path):
                    yield turn
                    turn.commit()
            except BaseException:
                with suppress(apsw.Error):
                    turn.roll_back()
                raise
            if turn.head != self._head:
                assert self.mark is not None
                self._head = turn.head
                # After the commit: the mark may be behind the log, and must never be ahead of it.
                self.mark.move(turn.head)
            self._interrupted = False

    def check(self) -> None:
        with self._lock, _errors_of(self.path):
            found: str = self._connection.execute("PRAGMA integrity_check(1)").get
        if found != "ok":
            raise DamagedFile(f"{self.path} is damaged: {' '.join(found.split())}.")

    def back_up(self, target: Path | str) -> None:
        place = Path(target)
        try:
            os.close(create_private(place))
        except FileExistsError:
            raise InvalidParameter(f"a backup must be a new file; {place} exists.") from None
        except OSError as error:
            raise UnwritableOutput(f"cannot write {place}: {error.strerror}.") from error
        try:
            copy = apsw.Connection(str(place))
            try:
                self._copy_into(copy)
            except BaseException:
                copy.close()
                place.unlink(missing_ok=True)  # half a copy looks like a whole one
                raise
            copy.close()
        except apsw.Error as error:
            raise UnwritableOutput(f"cannot write {place}: {error}.") from error

    def _copy_into(self, copy: apsw.Connection) -> None:
        """Copy part by part, so that others need not wait; SQLite adds what they write."""
        with self._lock:
            backup = copy.backup("main", self._connection, "main")
        try:
            while not backup.done:
                with self._lock:
                    backup.step(_BACKUP_PAGES)
        finally:
            with self._lock:
                backup.finish()

    def close(self) -> None:
        with self._lock:
            with suppress(apsw.Error):
                self._connection.close()
            if self.mark is not None:
                self.mark.close()
                self.mark = None


class _SqliteTurn(Turn):
    def __init__(self, connection: apsw.Connection, head: Head) -> None:
        self._connection = connection
        self._head = head
        self._writes = False

    @property
    def head(self) -> Head:
        return self._head

    def read(self, after: int = 0, most: int | None = None) -> Iterator[Record]:
        query = (
            "SELECT sequence, payload, digest, subject FROM records WHERE sequence > ? "
            "ORDER BY sequence LIMIT ?"
        )
        limit = _NO_LIMIT if most is None else most
        return map(_record, self._connection.execute(query, (after, limit)))

    def read_many(self, sequences: Collection[int]) -> Iterator[Record]:
        query = (
            "SELECT sequence, payload, digest, subject FROM records "
            # One parameter for all numbers, since SQLite limits how many a statement may have.
            "WHERE sequence IN (SELECT value FROM json_each(?)) ORDER BY sequence"
        )
        return map(_record, self._connection.execute(query, (json.dumps([*sequences]),)))

    def find_many(self, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        query = (
            "SELECT sequence, payload, digest, subject FROM records WHERE sequence > ? "
            "AND subject IN (SELECT value FROM json_each(?)) ORDER BY sequence"
        )
        return map(_record, self._connection.execute(query, (after, json.dumps([*subjects]))))

    def append(self, records: Sequence[Record]) -> None:
        check_continues(self._head, records)
        self._begin()
        place = 0
        for size, statement in _INSERTS:
            while place + size <= len(records):
                values = [*chain.from_iterable(records[place : place + size])]
                self._connection.execute(statement, values)
                place += size
        if records:
            self._head = Head(records[-1].sequence, records[-1].digest)

    def snapshots(self) -> list[int]:
        query = "SELECT sequence FROM snapshots ORDER BY sequence"
        return [sequence for (sequence,) in self._connection.execute(query)]

    def load_snapshot(self, sequence: int) -> bytes:
        query = "SELECT data FROM snapshots WHERE sequence = ?"
        data: bytes | None = self._connection.execute(query, (sequence,)).get
        if data is None:  # listed by an index whose table is damaged
            raise DamagedFile(f"the snapshot after record {sequence} cannot be read.")
        return data

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        self._begin()
        self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?)", (sequence, data))

    def forget_snapshots(self, sequences: Sequence[int]) -> None:
        if sequences:
            self._begin()
            rows = [(sequence,) for sequence in sequences]
            self._connection.executemany("DELETE FROM snapshots WHERE sequence = ?", rows)

    def _begin(self) -> None:
        if not self._writes:
            self._connection.execute("BEGIN IMMEDIATE")
            self._writes = True

    def commit(self) -> None:
        if self._writes:
            self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        if self._writes:
            self._connection.execute("ROLLBACK")


_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError)


@contextmanager
def _errors_of(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one sentence each."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreInUse(f"{path} is in use by another process.") from error
    except _DAMAGE as error:
        raise DamagedFile(f"{path} is damaged or not a database: {error}.") from error
    except apsw.Error as error:
        raise StoreFailed(f"{path} cannot be used: {error}.") from error
