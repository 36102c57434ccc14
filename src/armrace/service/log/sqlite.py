"""The embedded store: one file of SQLite, used by one process.

SQLite comes with apsw, since versions before 3.51.3 can damage a database in WAL mode. The file is
in WAL mode with ``synchronous=FULL``, so that a transaction is durable when ``COMMIT`` returns, and
locked for this process alone. Records of all logs are kept in the order of their arrival: a table
in the order of logs would write a page for each log of a transaction twice. One commit keeps what a
transaction has appended to all its logs. Beside the file lies a :mod:`high-water mark
<armrace.service.log.marks>` of the whole store.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import apsw

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed, StoreInUse, UnwritableOutput
from armrace.files.private import check_private, create_private
from armrace.service.log.chain import BEGINNING, Head, LogRecord, make_record
from armrace.service.log.marks import Marks
from armrace.service.log.store import (
    NO_LOGS,
    READ,
    SCHEMA,
    SqlTransaction,
    Store,
    Transaction,
    check_schema,
)

# "armr" in ASCII.
APPLICATION = 0x61726D72
_BACKUP_PAGES = 1000
_MOST_HEADS = 100_000
"""How many ends of logs are kept in memory; a head takes some 200 bytes."""
_STORE_MARK = 0
"""The number of the mark of the whole store: the place and the digest of its last record."""
_CREATE = f"""
CREATE TABLE logs (
    log INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    is_deleted INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX names ON logs (tenant, name) WHERE is_deleted = 0;
CREATE TABLE records (
    place INTEGER PRIMARY KEY,
    log INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    payload BLOB NOT NULL,
    digest BLOB NOT NULL,
    subject INTEGER
) STRICT;
CREATE UNIQUE INDEX places ON records (log, sequence);
CREATE INDEX subjects ON records (log, subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (
    log INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (log, sequence)
) STRICT;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {SCHEMA};
"""

_INSERTS = tuple(
    (size, "INSERT INTO records VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?)"] * size))
    for size in (64, 8, 1)
)
"""Statements that insert 64, 8 and 1 records. Each one gives up the interpreter lock, and a busy
event loop does not give it back soon, so few statements are used."""


class SqliteStore(Store):
    """Logs in a file, which is created if there is none.

    If it is restored from a backup, the high-water mark beside it, or its absence, says nothing.
    Any of ``secrets`` may have signed the mark; the first signs. With ``read_only``, no file is
    made, or written to when the store is closed. ``vfs``, the name of SQLite's interface to the
    system, and ``synchronous`` are for tests: anything but FULL loses acknowledged events.
    """

    def __init__(
        self,
        path: Path | str,
        restored: bool = False,
        vfs: str | None = None,
        synchronous: str = "FULL",
        *,
        secrets: Sequence[bytes] = (b"",),
        read_only: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self.name, self.restored = str(self.path), restored
        self._read_only = read_only
        self._lock = threading.RLock()
        self._interrupted = False
        """Whether the last transaction has not ended, so that its records may be kept or not."""
        self._heads: dict[int, Head] = {}
        """The ends of logs that were opened to be written and are not deleted."""
        self._secure()
        with sqlite_errors(self.path):
            flags = apsw.SQLITE_OPEN_READWRITE | (0 if read_only else apsw.SQLITE_OPEN_CREATE)
            self._connection = apsw.Connection(str(self.path), flags, vfs)
        self.marks: Marks | None = None
        try:
            with sqlite_errors(self.path):
                self._prepare(synchronous)
                self._last = _last(self._connection)
                if not (read_only and restored):
                    self._open_marks(secrets)
        except BaseException:
            self.close()
            raise

    def _secure(self) -> None:
        """Refuse files that another user could have written; let no other user read them."""
        try:
            for ending in ("", "-wal", "-journal"):
                file = self.path.with_name(self.path.name + ending)
                if file.is_file() or file.is_symlink():
                    check_private(file)
                    if not self._read_only:
                        file.chmod(0o600)
                elif not ending and not self._read_only and not file.exists():
                    os.close(create_private(file))
        except OSError as error:
            raise StoreFailed(f"{file} cannot be used: {error.strerror}.") from error

    def _prepare(self, synchronous: str) -> None:
        pragma, execute = self._connection.pragma, self._connection.execute
        # For readers too: logs that another process appends to cannot be read as a whole. Before
        # the journal mode: WAL then keeps its index in memory of this process, not in a file.
        pragma("locking_mode", "exclusive")
        if self._read_only:
            pragma("query_only", True)
            # A write-ahead log stays as it is, which SQLite would copy into the database and remove
            # in the end. If there is none, SQLite makes an empty one, and removes that.
            kept = self.path.with_name(self.path.name + "-wal").exists()
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(kept))
        else:
            pragma("journal_mode", "wal")
            pragma("synchronous", synchronous)
            # What is deleted is overwritten: a log that is gone must not be found in free pages.
            pragma("secure_delete", True)
            execute("BEGIN IMMEDIATE")  # takes the lock, which is kept
            tables = execute("SELECT count(*) FROM sqlite_schema").get
            if (pragma("user_version"), pragma("application_id"), tables) == (0, 0, 0):
                execute(_CREATE)
            execute("COMMIT")
        if pragma("application_id") != APPLICATION:
            raise DamagedFile(f"{self.path} is a database, but not a store of armrace.")
        check_schema(self.name, pragma("user_version"), of_first_design=3)

    def _open_marks(self, secrets: Sequence[bytes]) -> None:
        """Open the mark beside the file, and refuse a store that does not reach it."""
        place = self.path.with_name(self.path.name + "-mark")
        # Without records there is nothing to lose: the store is new, or the power failed as it was
        # made. Otherwise no mark is made, so that the next try is refused too.
        if self.restored or (self._last == BEGINNING and not place.exists()):
            self.marks = Marks.create(place, secrets, {_STORE_MARK: self._last})
            return
        self.marks = Marks(place, secrets) if place.exists() else None
        marked = self.marks.get(_STORE_MARK) if self.marks else None
        if marked is None:
            if self._last != BEGINNING:
                raise DamagedFile(
                    f"{self.path} has no high-water mark beside it, so that a loss would not be "
                    "seen; open it as restored if it comes from a backup."
                )
            return
        if marked.sequence > self._last.sequence:
            raise DamagedFile(
                f"{self.path} has lost acknowledged events: it ends with record "
                f"{self._last.sequence}, and {marked.sequence} were acknowledged."
            )
        if _last(self._connection, marked.sequence) != marked:
            raise DamagedFile(f"{self.path} is not the store of the high-water mark beside it.")

    @contextmanager
    def transaction(
        self, logs: Mapping[int, int] = NO_LOGS, *, creates: bool = False
    ) -> Iterator[Transaction]:
        with self._lock, sqlite_errors(self.path):
            transaction = self._begin(logs, creates)
            self._interrupted = True
            try:
                yield transaction
                if transaction.deletes:
                    assert self.marks is not None
                    # Before it is kept, back to a record that it does not remove: if the power
                    # fails, the mark may name any record since it was last synchronised.
                    transaction.flush()
                    last = _last(self._connection, self._last.sequence)
                    self.marks.set_back(_STORE_MARK, last)
                transaction.commit()
            except BaseException:
                with suppress(apsw.Error):
                    transaction.roll_back()
                raise
            self._heads |= transaction.heads
            for log in transaction.deletes:
                self._heads.pop(log, None)
                # Nor in old pages of the write-ahead log.
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            if transaction.last != self._last:
                assert self.marks is not None
                self._last = transaction.last
                # After the commit: the mark may be behind the store, and must never be ahead of it.
                self.marks.move(_STORE_MARK, self._last)
            self._interrupted = False

    def _begin(self, logs: Collection[int], creates: bool) -> _SqliteTransaction:
        if self._interrupted:
            self._heads, self._last = {}, _last(self._connection)
        if len(self._heads) > _MOST_HEADS:
            self._heads = {}
        if self._read_only:
            logs, creates = (), False
        transaction = _SqliteTransaction(self._connection, self._last, creates)
        query = "SELECT 1 FROM logs WHERE log = ? AND is_deleted = 0"
        for log in logs:
            if log in self._heads:
                transaction.heads[log] = self._heads[log]
            elif self._connection.execute(query, (log,)).get is not None:
                transaction.heads[log] = transaction.head(log)
        return transaction

    def check(self) -> None:
        with self._lock, sqlite_errors(self.path):
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
            try:
                with closing(apsw.Connection(str(place))) as copy:
                    self._copy_into(copy)
            except BaseException:
                place.unlink(missing_ok=True)  # half a copy looks like a whole one
                raise
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
            if self.marks is not None:
                self.marks.close()
                self.marks = None


class _SqliteTransaction(SqlTransaction):
    NOT_DELETED = "is_deleted = 0"
    # One parameter for all numbers, since SQLite limits how many a statement may have.
    AMONG = "IN (SELECT value FROM json_each(?))"
    BY_SUBJECT = " INDEXED BY subjects"  # without the name, SQLite reads the whole log

    def __init__(self, connection: apsw.Connection, last: Head, creates: bool) -> None:
        super().__init__({}, creates)
        self._connection = connection
        self.last = last
        """The place and the digest of the store's last record."""
        self.deletes: list[int] = []
        self._writes = False
        self._waiting: list[tuple[int, int, int, bytes, bytes, int | None]] = []
        """Records of all logs, with their places, that go to SQLite with the next statement."""

    def _execute(self, query: str, values: Sequence[Any] = ()) -> apsw.Cursor:
        self.flush()
        return self._connection.execute(query, values)

    def _change(self, query: str, values: Sequence[Any]) -> apsw.Cursor:
        if not self._writes:
            self._connection.execute("BEGIN IMMEDIATE")
            self._writes = True
        return self._execute(query, values)

    def flush(self) -> None:
        """Insert what was appended."""
        rows, self._waiting = self._waiting, []
        begin = 0
        for size, statement in _INSERTS:
            while begin + size <= len(rows):
                values = [*chain.from_iterable(rows[begin : begin + size])]
                self._change(statement, values)
                begin += size

    def commit(self) -> None:
        self.flush()
        if self._writes:
            self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        if self._writes:
            self._connection.execute("ROLLBACK")

    @staticmethod
    def _array(members: Iterable[object]) -> str:
        return json.dumps([*members])

    def _delete(self, log: int, head: Head) -> None:
        # The last record has the log's highest place, so that no place is given twice.
        super()._delete(log, head)
        self.deletes.append(log)

    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[LogRecord]:
        limit = -1 if most is None else most  # to SQLite, a negative one is none
        return map(make_record, self._execute(READ, (log, after, limit)))

    def _append(self, log: int, records: Sequence[LogRecord]) -> None:
        place = self.last.sequence
        self._waiting += [(each, log, *record) for each, record in enumerate(records, place + 1)]
        self.last = Head(place + len(records), records[-1].digest)


def _last(connection: apsw.Connection, at_most: int = 2**63 - 1) -> Head:
    """Return the place and the digest of the last record up to a place."""
    query = "SELECT place, digest FROM records WHERE place <= ? ORDER BY place DESC LIMIT 1"
    return next((Head(*row) for row in connection.execute(query, (at_most,))), BEGINNING)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into one sentence each."""
    try:
        yield
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreInUse(f"{path} is in use by another process.") from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise DamagedFile(f"{path} is damaged or not a database: {error}.") from error
    except apsw.Error as error:
        raise StoreFailed(f"{path} cannot be used: {error}.") from error
