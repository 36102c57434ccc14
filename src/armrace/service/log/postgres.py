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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from itertools import islice
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from armrace.errors import InvalidParameter, StoreFailed
from armrace.service.log.chain import BEGINNING, Head, LogRecord, make_record
from armrace.service.log.store import (
    HEAD,
    NO_LOGS,
    READ,
    SCHEMA,
    SqlTransaction,
    Store,
    Transaction,
    check_schema,
)

_CREATING = 0
"""What is locked to create a log; logs are numbered from 1."""
_TAKE_LOCK = b"SELECT pg_advisory_xact_lock(%s, %s)"
_DO_NOT_WAIT = b"SET LOCAL synchronous_commit = off"
"""Until the end of the transaction, commits do not wait for the disk."""
_BEGIN_READING = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_PAGE = 5000
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
_REST_LONGER = "SET LOCAL idle_in_transaction_session_timeout = '120s'"
_REST = b"SET LOCAL idle_in_transaction_session_timeout = 0"
"""A reader that holds no lock may pause between two statements, since no other process waits."""
_CREATE = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE version (version integer NOT NULL);
CREATE TABLE logs (
    log integer PRIMARY KEY,
    tenant text NOT NULL,
    name text NOT NULL,
    is_deleted boolean NOT NULL DEFAULT false
);
CREATE UNIQUE INDEX names ON logs (tenant, name) WHERE NOT is_deleted;
CREATE TABLE records (
    log integer NOT NULL,
    sequence bigint NOT NULL,
    payload bytea NOT NULL,
    digest bytea NOT NULL,
    subject bigint,
    PRIMARY KEY (log, sequence)
);
CREATE INDEX subjects ON records (log, subject) WHERE subject IS NOT NULL;
CREATE TABLE snapshots (
    log integer NOT NULL,
    sequence bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (log, sequence)
);
INSERT INTO version VALUES ({version});
"""
# A row with the time, even if there are no logs.
_HEADS = f"""
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, logs.log, head.sequence, head.digest
FROM (VALUES (1)) AS always LEFT JOIN logs ON log = ANY(%s) AND NOT is_deleted
LEFT JOIN LATERAL ({HEAD.replace("?", "logs.log")}) AS head ON true
""".encode()
# All that is new or nothing: who has missed more than a page begins with a snapshot.
_NEWS = f"""
SELECT known.log, news.* FROM unnest(%s::integer[], %s::bigint[]) AS known (log, last) CROSS JOIN
LATERAL (SELECT sequence, payload, digest, subject FROM records
    WHERE log = known.log AND sequence > known.last
    AND (SELECT max(sequence) FROM records WHERE log = known.log) <= known.last + {_PAGE}
    ORDER BY sequence) AS news
""".encode()
_APPEND = b"""
INSERT INTO records SELECT * FROM
unnest(%s::integer[], %s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[])
"""


class PostgresStore(Store):
    """Logs in a database, which several stores share by the schemas of their tables.

    With ``read_only``, it changes nothing and takes no lock: a transaction sees the logs as they
    were when it began, while others go on.
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
                begin = "SET search_path = {}; SET synchronous_commit = on;" + _LIMITS
                connection.execute(sql.SQL(begin).format(self._schema))
            yield connection
        except BaseException as error:
            if isinstance(error, psycopg.Error) or not isinstance(error, Exception):
                self._forget_connections(connection)
            raise
        finally:
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
                    sql.SQL(_CREATE).format(schema=self._schema, version=sql.Literal(SCHEMA))
                )
            else:
                version = found[0] if found else None
                check_schema("the database", version, of_first_design=4)

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
            transaction = _PostgresTransaction(connection)
            if self._read_only:
                logs, creates = NO_LOGS, False
            transaction.begin(self._lock_class, logs, creates, self._settled < failures)
            try:
                yield transaction
            except psycopg.Error:
                raise
            except BaseException:
                connection.execute("ROLLBACK")
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


class _PostgresTransaction(SqlTransaction):
    NOT_DELETED = "NOT is_deleted"
    AMONG = "= ANY(?)"

    def __init__(self, connection: psycopg.Connection) -> None:
        super().__init__({}, False)
        self._connection = connection
        self._known: Mapping[int, int] = NO_LOGS
        self._news: dict[int, list[LogRecord]] = {}
        self._waiting: list[tuple[int, int, bytes, bytes, int | None]] = []
        """Records of all logs that go to the database with the next statement."""
        self._changed = False
        """Whether the end of the transaction waits for the disk."""
        self._time: int | None = None
        self._cursors = 0

    def begin(
        self, lock_class: int, logs: Mapping[int, int], creates: bool, in_doubt: bool
    ) -> None:
        """Wait for the locks, and read the heads of the logs and what is new in them.

        A transaction that writes nothing reads all logs as they are now.
        """
        self._creates, self._known = creates, logs
        writes = bool(logs) or creates
        execute = self._connection.execute
        with self._connection.pipeline():
            execute("BEGIN" if writes else _BEGIN_READING)
            execute(_DO_NOT_WAIT if writes else _REST)
            # In the same order in all processes, and no further one later.
            for number in [_CREATING] * creates + sorted(logs):
                execute(_TAKE_LOCK, (lock_class, number))
            # Statements of their own: the locks must be held before they look at the data.
            known = (self._array(logs), self._array(logs.values()))
            heads = execute(_HEADS, known[:1], binary=True)
            news = execute(_NEWS, known, binary=True) if logs else None
        for now, log, *head in heads.fetchall():
            self._time = now
            if log is not None:
                self.heads[log] = BEGINNING if head[0] is None else Head(*head)
        for log, *record in news.fetchall() if news else ():
            self._news.setdefault(log, []).append(make_record(record))
        # Answers rest on what others have appended, too, which may not be on disk yet.
        is_behind = any(head.sequence != logs[log] for log, head in self.heads.items())
        self._changed = is_behind or (writes and in_doubt)

    def _execute(self, query: str, values: Sequence[Any] = ()) -> Iterable[Any]:
        if self._waiting:
            self._insert()
        cursor = self._connection.execute(_translated(query), values, binary=True)
        return cursor.fetchall() if cursor.description else []

    def _change(self, query: str, values: Sequence[Any]) -> Iterable[Any]:
        self._changed = True
        return self._execute(query, values)

    @staticmethod
    def _array(members: Iterable[object]) -> str:
        # As PostgreSQL writes it; psycopg's own takes five times as long.
        return "{" + ",".join(map(str, members)) + "}"

    def _insert(self) -> None:
        logs, sequences, payloads, digests, subjects = zip(*self._waiting, strict=True)
        self._waiting = []
        columns = (
            *(logs, sequences, map(_hexadecimal, payloads), map(_hexadecimal, digests)),
            ("NULL" if subject is None else subject for subject in subjects),
        )
        self._connection.execute(_APPEND, [*map(self._array, columns)])

    def commit(self) -> bool:
        """Keep everything, give up the locks, and wait for the disk; return whether it waited."""
        with self._connection.pipeline():
            if self._waiting:
                self._insert()
            self._connection.execute("COMMIT")
            if self._changed:
                # It must write something: a commit that has written nothing does not wait for the
                # disk (docs/decisions/021).
                self._connection.execute("SELECT pg_logical_emit_message(true, 'armrace', '')")
        return self._changed

    def time(self) -> int | None:
        return self._time

    def read(self, log: int, after: int = 0, most: int | None = None) -> Iterator[LogRecord]:
        left = self.head(log).sequence - after
        if after == self._known.get(log) and len(self._news.get(log, ())) == left:
            return islice(self._news.get(log, ()), most)
        if left <= _PAGE or (most is not None and most <= _PAGE):
            return map(make_record, self._execute(READ, (log, after, most)))
        return self._read_in_pages(log, after, most)

    def _read_in_pages(self, log: int, after: int, most: int | None) -> Iterator[LogRecord]:
        """Read a long log without holding it in memory."""
        self._rest_longer()
        self._cursors += 1  # a name of its own, since several logs may be read at once
        with self._connection.cursor(name=f"records{self._cursors}", binary=True) as cursor:
            cursor.itersize = _PAGE
            cursor.execute(_translated(READ), (log, after, most))
            yield from map(make_record, cursor)

    def _rest_longer(self) -> None:
        if self._known or self._creates:
            self._execute(_REST_LONGER)

    def _append(self, log: int, records: Sequence[LogRecord]) -> None:
        self._waiting += [(log, *record) for record in records]
        self._changed = True

    def load_snapshot(self, log: int, sequence: int) -> bytes:
        self._rest_longer()
        return super().load_snapshot(log, sequence)


@cache
def _translated(query: str) -> bytes:
    """Return a query as psycopg writes it."""
    return query.replace("?", "%s").encode()


def _hexadecimal(content: bytes) -> str:
    # In the text form of an array, a backslash must itself be escaped.
    return '"\\\\x' + content.hex() + '"'


def _parameters(place: str) -> dict[str, Any]:
    """Return how to connect; psycopg's own sentences about an address repeat its password."""
    try:
        return {**conninfo_to_dict(place)}
    except psycopg.Error:
        raise InvalidParameter(
            "store must be an address such as postgresql://user:password@host/database, in which "
            "special characters of user and password are percent-encoded."
        ) from None
