"""The shared store: one database of PostgreSQL, used by many processes.

A transaction holds an advisory lock for each log that it may append to, so that transactions on the
same log are serial among all processes, and those on different logs do not wait for each other. It
reads what others have appended to its logs before it appends. All processes take the time from the
database.

A transaction makes two round trips: one for the locks, the heads and what others have appended; one
that appends and commits. Locks are taken in increasing order, so that transactions on several logs
cannot wait for each other in a circle. The commit does not wait for the disk, so that others get
the locks at once. A transaction that does wait follows before the block ends, and writes nothing
but a message into the database's own log: when that is on disk, so is everything that was written
or seen before, of any log.

Each thread that is in a transaction has a connection of its own. If the database goes away,
transactions raise :class:`~armrace.errors.StoreFailed`; the next one connects again. A database
that falls silent has gone away too: nothing waits for it without a limit.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service.log.chain import BEGINNING, Head, Record
from armrace.service.log.checked import OF_FIRST_DESIGN, CheckedTransaction
from armrace.service.log.store import NO_LOGS, LogEntry, Store, Transaction

__all__ = ["PostgresStore"]

_SCHEMA = 10
_FIRST_DESIGN = range(1, 5)
"""The schemas with one log for all experiments."""
_CREATING = 0
"""What is locked to create a log; logs are numbered from 1."""
_TAKE_LOCK = b"SELECT pg_advisory_xact_lock(%s, %s)"
_DO_NOT_WAIT = b"SET LOCAL synchronous_commit = off"
"""Until the end of the transaction, commits do not wait for the disk."""
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PAGE = 5000
_DELETED_AT_ONCE = 100_000
_CONNECT: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "armrace",
}
"""How to connect, unless the place says otherwise: a machine that is gone is noticed in 25 s."""
_SILENCE_SECONDS = 60.0
"""How long the database may say nothing while it is asked; longer than all limits of its own."""
_LIMITS = """
SET lock_timeout = '30s';
SET statement_timeout = '45s';
SET idle_in_transaction_session_timeout = '5s';
"""
"""A server that was stopped in the middle of a transaction must not keep locks from others: the
database ends its transaction, which it finds when it goes on. No transaction with a lock rests as
long as that between two statements, but one that reads a snapshot or a long log."""
_REST_LONGER = b"SET LOCAL idle_in_transaction_session_timeout = '120s'"
_REST = b"SET LOCAL idle_in_transaction_session_timeout = 0"
"""A reader that holds no lock may pause between two statements, since no other process waits."""
_CREATE = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE {schema}.version (version integer NOT NULL);
CREATE TABLE {schema}.logs (
    log integer PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX names ON {schema}.logs (tenant, name) WHERE NOT is_deleted;
CREATE TABLE {schema}.records (
    log integer NOT NULL,
    sequence bigint NOT NULL,
    payload bytea NOT NULL,
    digest bytea NOT NULL,
    subject bigint,
    PRIMARY KEY (log, sequence)
);
CREATE INDEX subjects ON {schema}.records (log, subject) WHERE subject IS NOT NULL;
CREATE TABLE {schema}.snapshots (
    log integer NOT NULL,
    sequence bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log, sequence)
);
INSERT INTO {schema}.version VALUES ({version});
"""


class PostgresStore(Store):
    """Logs in a database.

    Args:
        place: how to connect, as in ``postgresql://user@host/database``.
        schema: the schema of the tables, by which several stores share a database.
        read_only: whether to change nothing and take no lock: a transaction sees the logs as they
            were when it began, while others go on.

    Raises:
        StoreFailed: the database cannot be reached.
        DamagedFile: the tables are of another version.
    """

    is_shared = True
    recovers = True
    most_logs = 64

    def __init__(self, place: str, schema: str = "armrace", *, read_only: bool = False) -> None:
        if not schema.isidentifier():
            raise InvalidParameter(f"schema must be a plain name; got {schema!r:.100}.")
        self._parameters = _parameters(place)
        known = (self._parameters.get(each, "") for each in ("host", "port", "dbname"))
        self.name = "/".join((*map(str, known), schema))
        self._read_only = read_only
        self._schema = sql.Identifier(schema)
        self._queries = _Queries(self._schema)
        # Locks belong to a database, not to a schema. Its name makes those of two schemas differ.
        key = hashlib.blake2b(schema.encode(), digest_size=4, person=b"armrace locks").digest()
        self._lock_class = int.from_bytes(key, signed=True)
        self._mutex = threading.Lock()
        self._idle: list[_Connection] = []
        """Connections that no transaction uses."""
        self._failures, self._settled = 1, 0
        """How many transactions have failed, and how many had when one last waited for the disk.
        Whether what a failed one has seen is durable is not known, so that the next one waits."""
        try:
            with self._errors(), self._connected() as connection:
                self._look(connection)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        """Lend a connection, which is closed if what becomes of it is not known."""
        with self._mutex:
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                wanted = {**_CONNECT, **self._parameters}
                connection = _Connection.connect(make_conninfo(**wanted), autocommit=True)
                # Whatever the server's default: an answer may leave only when its events are on
                # disk.
                connection.execute("SET synchronous_commit = on;" + _LIMITS)
            yield connection
        except BaseException as error:
            if isinstance(error, psycopg.Error) or not isinstance(error, Exception):
                self._forget_connections(connection)
            else:
                self._return(connection)
            raise
        self._return(connection)

    def _return(self, connection: _Connection | None) -> None:
        if connection is not None and not connection.closed:
            with self._mutex:
                self._idle.append(connection)

    def _forget_connections(self, *more: _Connection | None) -> None:
        """Close a connection that failed and the idle ones, which may lead nowhere too."""
        with self._mutex:
            self._failures += 1
            idle, self._idle = self._idle, []
        for connection in (*idle, *more):
            if connection is not None:
                with suppress(psycopg.Error):
                    connection.close()

    def _look(self, connection: psycopg.Connection) -> None:
        """Refuse tables that are not those of this version; create them if there are none."""
        with connection.transaction():
            if not self._read_only:
                connection.execute(_TAKE_LOCK, (self._lock_class, _CREATING))
            try:
                with connection.transaction():
                    query = sql.SQL("SELECT max(version) FROM {}.version").format(self._schema)
                    found = connection.execute(query).fetchone()
            except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
                if self._read_only:
                    raise InvalidParameter("the database holds no store of armrace.") from None
                # Statements of a script are sent without parameters, since it has several.
                connection.execute(
                    sql.SQL(_CREATE).format(schema=self._schema, version=sql.Literal(_SCHEMA))
                )
            else:
                self._check_version(found[0] if found else None)

    def _check_version(self, version: int | None) -> None:
        if version in _FIRST_DESIGN:
            raise DamagedFile(f"the database {OF_FIRST_DESIGN}")
        if version != _SCHEMA:
            raise DamagedFile(
                f"the database has the schema {version}; this version reads {_SCHEMA}."
            )

    @contextmanager
    def transaction(
        self, logs: Mapping[int, int] = NO_LOGS, *, creates: bool = False
    ) -> Iterator[Transaction]:
        if len(logs) > self.most_logs:
            raise InvalidParameter(
                f"a transaction may have at most {self.most_logs} logs; got {len(logs)}."
            )
        failures = self._failures
        with self._errors(), self._connected() as connection:
            transaction = _PostgresTransaction(connection, self._queries)
            if self._read_only or not (logs or creates):
                transaction.begin_reading()
            else:
                transaction.begin(self._lock_class, logs, creates, self._settled < failures)
            try:
                yield transaction
            except psycopg.Error:
                raise
            except BaseException:
                transaction.roll_back()
                raise
            if transaction.commit():
                self._settled = max(self._settled, failures)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the database into one sentence each, without the password."""
        try:
            yield
        except psycopg.Error as error:
            reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
            if password := self._parameters.get("password"):
                reason = reason.replace(password, "...")
            raise StoreFailed(f"the database cannot be used: {reason}.") from error

    def close(self) -> None:
        self._forget_connections()


class _Connection(psycopg.Connection[Any]):
    """A connection that gives up on a database which says nothing."""

    def wait(self, gen: Any, *more: Any, **named: Any) -> Any:
        return super().wait(self._unless_silent(gen), *more, **named)

    def _unless_silent(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Pass on what psycopg waits for and what arrives; time out if nothing has for too long."""
        heard = monotonic()
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif monotonic() - heard > _SILENCE_SECONDS:
                    self.pgconn.finish()
                    raise psycopg.OperationalError(
                        f"it has said nothing for {_SILENCE_SECONDS:g} seconds"
                    )
                wanted = waiting.send(ready)
        except StopIteration as end:
            return end.value


class _Queries:
    """Statements with the name of the schema put in."""

    def __init__(self, schema: sql.Identifier) -> None:
        def made(query: str) -> bytes:
            # As bytes, since a composed query is put together again each time it is sent.
            return sql.SQL(query).format(schema).as_bytes(None)

        head = (
            "SELECT sequence, digest FROM {0}.records WHERE log = %s ORDER BY sequence DESC LIMIT 1"
        )
        records = "SELECT sequence, payload, digest, subject FROM {0}.records WHERE log = %s AND "
        self.head = made(head)
        # A row with the time, even if there are no logs.
        self.heads = made(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, logs.log, "
            "head.sequence, head.digest FROM (VALUES (1)) AS always "
            "LEFT JOIN {0}.logs ON log = ANY(%s) AND NOT is_deleted "
            f"LEFT JOIN LATERAL ({head.replace('%s', 'logs.log')}) AS head ON true"
        )
        # All that is new or nothing: who has missed more than a page begins with a snapshot.
        self.news = made(
            "SELECT known.log, news.* "
            "FROM unnest(%s::integer[], %s::bigint[]) AS known (log, last) CROSS JOIN "
            "LATERAL (SELECT sequence, payload, digest, subject FROM {0}.records "
            "WHERE log = known.log AND sequence > known.last AND (SELECT max(sequence) "
            f"FROM {{0}}.records WHERE log = known.log) <= known.last + {_PAGE} "
            "ORDER BY sequence) AS news"
        )
        self.read = made(records + "sequence > %s ORDER BY sequence LIMIT %s")
        self.read_many = made(records + "sequence = ANY(%s) ORDER BY sequence")
        self.find = made(records + "subject = ANY(%s) AND sequence > %s ORDER BY sequence")
        self.append = made(
            "INSERT INTO {0}.records SELECT * FROM "
            "unnest(%s::integer[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[])"
        )
        self.logs = made("SELECT * FROM {0}.logs WHERE tenant = %s ORDER BY log")
        self.all_logs = made("SELECT * FROM {0}.logs ORDER BY log")
        self.find_log = made(
            "SELECT log FROM {0}.logs WHERE tenant = %s AND name = %s AND NOT is_deleted"
        )
        # Rows of deleted logs stay, so that no number is given twice.
        self.create = made(
            "INSERT INTO {0}.logs SELECT coalesce(max(log), 0) + 1, %s, %s FROM {0}.logs "
            "RETURNING log"
        )
        self.delete = made("UPDATE {0}.logs SET is_deleted = true WHERE log = %s")
        self.remove = made(
            "DELETE FROM {0}.records WHERE log = %s AND sequence > %s AND sequence <= %s"
        )
        self.snapshots = made(
            "SELECT sequence, octet_length(data) FROM {0}.snapshots WHERE log = %s "
            "ORDER BY sequence"
        )
        self.load = made("SELECT data FROM {0}.snapshots WHERE log = %s AND sequence = %s")
        self.save = made(
            "INSERT INTO {0}.snapshots VALUES (%s, %s, %s) "
            "ON CONFLICT (log, sequence) DO UPDATE SET data = excluded.data"
        )
        self.forget = made("DELETE FROM {0}.snapshots WHERE log = %s AND sequence = ANY(%s)")
        self.forget_all = made("DELETE FROM {0}.snapshots WHERE log = %s")


class _PostgresTransaction(CheckedTransaction):
    def __init__(self, connection: psycopg.Connection, queries: _Queries) -> None:
        super().__init__({}, False)
        self._connection = connection
        self._queries = queries
        self._known: Mapping[int, int] = NO_LOGS
        self._news: dict[int, list[Record]] = {}
        self._waiting: list[tuple[int, int, bytes, bytes, int | None]] = []
        """Records of all logs that go to the database with the next statement."""
        self._changed = False
        """Whether the end of the transaction waits for the disk."""
        self._cursors = 0

    def begin_reading(self) -> None:
        """Begin to read all logs as they are now."""
        with self._connection.pipeline():
            self._connection.execute(_BEGIN_READING)
            self._connection.execute(_REST)
            self._take_heads(self._connection.execute(self._queries.heads, ("{}",), binary=True))

    def begin(
        self, lock_class: int, logs: Mapping[int, int], creates: bool, in_doubt: bool
    ) -> None:
        """Wait for the locks, and read the heads of the logs and what is new in them."""
        self._creates = creates
        self._known = logs
        execute = self._connection.execute
        numbers = sorted(logs)
        with self._connection.pipeline():
            execute("BEGIN")
            execute(_DO_NOT_WAIT)
            # In the same order in all processes, and no further one later.
            for number in [_CREATING] * creates + numbers:
                execute(_TAKE_LOCK, (lock_class, number))
            # Statements of their own: the locks must be held before they look at the data.
            heads = execute(self._queries.heads, (_array(map(str, numbers)),), binary=True)
            last = (_array(map(str, numbers)), _array(str(logs[number]) for number in numbers))
            news = execute(self._queries.news, last, binary=True)
        self._take_heads(heads)
        for row in news.fetchall():
            self._news.setdefault(row[0], []).append(_record(row[1:]))
        # Answers rest on what others have appended, too, which may not be on disk yet.
        self._changed = in_doubt or any(
            head.sequence != logs[log] for log, head in self.heads.items()
        )

    def _take_heads(self, found: psycopg.Cursor[Any]) -> None:
        for now, log, sequence, digest in found.fetchall():
            self._time = int(now)
            if log is not None:
                self.heads[log] = BEGINNING if sequence is None else Head(sequence, bytes(digest))

    def _execute(self, query: bytes, values: Sequence[object] = ()) -> psycopg.Cursor:
        if self._waiting:
            self._insert()
        return self._connection.execute(query, values, binary=True)

    def _change(self, query: bytes, values: Sequence[object] = ()) -> psycopg.Cursor:
        self._changed = True
        return self._execute(query, values)

    def _insert(self) -> None:
        logs, sequences, payloads, digests, subjects = zip(*self._waiting, strict=True)
        self._waiting = []
        self._connection.execute(
            self._queries.append,
            (
                _array(map(str, logs)),
                _array(map(str, sequences)),
                _array(map(_hexadecimal, payloads)),
                _array(map(_hexadecimal, digests)),
                _array("NULL" if each is None else str(each) for each in subjects),
            ),
        )

    def commit(self) -> bool:
        """Keep everything, give up the locks, and wait for the disk; return whether it waited."""
        with self._connection.pipeline():
            if self._waiting:
                self._insert()
            self._connection.execute("COMMIT")
            if self._changed:
                # It must write something: a commit that has written nothing does not wait for the
                # disk (docs/decisions/022).
                self._connection.execute("SELECT pg_logical_emit_message(true, 'armrace', '')")
        return self._changed

    def roll_back(self) -> None:
        """Keep nothing."""
        self._connection.execute("ROLLBACK")

    def time(self) -> int | None:
        return self._time

    def logs(self, tenant: str | None = None) -> list[LogEntry]:
        if tenant is None:
            rows = self._execute(self._queries.all_logs)
        else:
            rows = self._execute(self._queries.logs, (tenant,))
        return [LogEntry(*row) for row in rows.fetchall()]

    def find_log(self, tenant: str, name: str) -> int | None:
        row = self._execute(self._queries.find_log, (tenant, name)).fetchone()
        return row[0] if row else None

    def _create(self, tenant: str, name: str) -> int:
        row = self._change(self._queries.create, (tenant, name)).fetchone()
        assert row is not None
        return int(row[0])

    def _delete(self, log: int, head: Head) -> None:
        self._change(self._queries.delete, (log,))
        self._change(self._queries.forget_all, (log,))
        # In parts, since each statement has a limit of time.
        for last in range(0, head.sequence - 1, _DELETED_AT_ONCE):
            until = min(last + _DELETED_AT_ONCE, head.sequence - 1)
            self._change(self._queries.remove, (log, last, until))

    def _read_head(self, log: int) -> Head:
        row = self._execute(self._queries.head, (log,)).fetchone()
        return Head(row[0], bytes(row[1])) if row else BEGINNING

    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[Record]:
        left = self.head(log).sequence - after
        if after == self._known.get(log) and len(self._news.get(log, ())) == left:
            return islice(self._news.get(log, ()), most)
        if left <= _PAGE or (most is not None and most <= _PAGE):
            return map(_record, self._execute(self._queries.read, (log, after, most)).fetchall())
        return self._read_in_pages(log, after, most)

    def _read_in_pages(self, log: int, after: int, most: int | None) -> Iterator[Record]:
        """Read a long log without holding it in memory."""
        self._rest_longer()
        self._cursors += 1  # a name of its own, since several logs may be read at once
        with self._connection.cursor(name=f"records{self._cursors}", binary=True) as cursor:
            cursor.itersize = _PAGE
            cursor.execute(self._queries.read, (log, after, most))
            yield from map(_record, cursor)

    def _rest_longer(self) -> None:
        if self._known or self._creates:
            self._execute(_REST_LONGER)

    def read_many(self, log: int, sequences: Collection[int]) -> Iterator[Record]:
        values = (log, _array(map(str, sequences)))
        return map(_record, self._execute(self._queries.read_many, values).fetchall())

    def find_many(self, log: int, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        values = (log, _array(map(str, subjects)), after)
        return map(_record, self._execute(self._queries.find, values).fetchall())

    def _append(self, log: int, records: Sequence[Record]) -> None:
        self._waiting += [(log, *record) for record in records]
        self._changed = True

    def snapshots(self, log: int) -> dict[int, int]:
        return dict(self._execute(self._queries.snapshots, (log,)).fetchall())

    def load_snapshot(self, log: int, sequence: int) -> bytes:
        self._rest_longer()
        row = self._execute(self._queries.load, (log, sequence)).fetchone()
        if row is None:
            raise DamagedFile(f"the snapshot after record {sequence} cannot be read.")
        return bytes(row[0])

    def _save(self, log: int, sequence: int, data: bytes) -> None:
        self._change(self._queries.save, (log, sequence, data))

    def _forget(self, log: int, sequences: Collection[int]) -> None:
        self._change(self._queries.forget, (log, list(sequences)))


def _array(members: Iterable[str]) -> str:
    """Return an array as PostgreSQL writes it; psycopg's own takes five times as long."""
    return "{" + ",".join(members) + "}"


def _hexadecimal(content: bytes) -> str:
    # In the text form of an array, a backslash must itself be escaped.
    return '"\\\\x' + content.hex() + '"'


def _record(row: Any) -> Record:
    return Record(row[0], bytes(row[1]), bytes(row[2]), row[3])


def _parameters(place: str) -> dict[str, Any]:
    """Return how to connect; psycopg's own sentences about an address repeat its password."""
    try:
        return {**conninfo_to_dict(place)}
    except psycopg.Error:
        raise InvalidParameter(
            "store must be an address such as postgresql://user:password@host/database, in which "
            "special characters of user and password are percent-encoded."
        ) from None
