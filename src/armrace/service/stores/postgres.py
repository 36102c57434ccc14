"""The shared store: one database of PostgreSQL, used by many processes.

A turn is a transaction that holds an advisory lock, so that turns of all processes are serial. A
process reads what others have appended before it appends. All processes take the time from the
database.

A turn makes two round trips: one for the lock, the head and what others have appended since the
last turn; one that appends and commits. The commit does not wait for the disk, so that others get
the lock at once. A transaction that does wait follows before the turn ends, and writes nothing but
a message into the database's own log: when that is on disk, the turn is too, and so is everything
that the turn has seen.

If the database goes away, turns raise :class:`~armrace.errors.StoreFailed`; the next turn connects
again. A database that falls silent has gone away too: nothing waits for it without a limit.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from time import monotonic
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service.chain import BEGINNING, Head, Record
from armrace.service.stores.base import Store, Turn, check_continues

__all__ = ["PostgresStore"]

_SCHEMA = 4
_MIGRATIONS = dict.fromkeys((1, 2, 3), "DELETE FROM {schema}.snapshots")
"""For each earlier schema, what leads to the next one. All have the same tables; the log of a later
one may hold events that earlier versions cannot read, or would fold to another state."""
# "armr" in ASCII.
_LOCK = 0x61726D72
_TAKE_LOCK = (
    f"SELECT set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock({_LOCK})"
).encode()
"""Until the end of the transaction, commits do not wait for the disk."""
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
"""A server that was stopped in the middle of a turn must not keep the lock from others: the
database ends its transaction, which it finds when it goes on. No turn rests as long as that between
two statements, but one that reads a snapshot or a long log."""
_REST_LONGER = b"SET LOCAL idle_in_transaction_session_timeout = '120s'"
_READING_LIMITS = "SET statement_timeout = '45s';"
"""A reader that holds no lock may pause between two statements, since no other process waits."""
_CREATE = """
CREATE SCHEMA IF NOT EXISTS {schema};
CREATE TABLE IF NOT EXISTS {schema}.version (version integer NOT NULL);
CREATE TABLE IF NOT EXISTS {schema}.records (
    sequence bigint PRIMARY KEY,
    payload bytea NOT NULL,
    digest bytea NOT NULL,
    subject bigint
);
CREATE INDEX IF NOT EXISTS subjects ON {schema}.records (subject) WHERE subject IS NOT NULL;
CREATE TABLE IF NOT EXISTS {schema}.snapshots (sequence bigint PRIMARY KEY, data bytea NOT NULL);
INSERT INTO {schema}.version SELECT {version} WHERE NOT EXISTS (SELECT FROM {schema}.version);
"""


class PostgresStore(Store):
    """A log in a database.

    Args:
        place: how to connect, as in ``postgresql://user@host/database``.
        schema: the schema of the tables, by which several logs share a database.
        read_only: whether to change nothing and take no lock: a turn sees the log as it was when
            the turn began, while others go on.

    Raises:
        StoreFailed: the database cannot be reached.
        DamagedFile: the tables are of a later version.
    """

    is_shared = True
    recovers = True

    def __init__(self, place: str, schema: str = "armrace", *, read_only: bool = False) -> None:
        if not schema.isidentifier():
            raise InvalidParameter(f"schema must be a plain name; got {schema!r:.100}.")
        self._parameters = _parameters(place)
        known = (self._parameters.get(each, "") for each in ("host", "port", "dbname"))
        self.name = "/".join((*map(str, known), schema))
        self._read_only = read_only
        self._limits = _READING_LIMITS if read_only else _LIMITS
        self._schema = sql.Identifier(schema)
        self._queries = _Queries(self._schema)
        self._last = BEGINNING
        """The end of the log when this process last saw it."""
        self._lock = threading.RLock()
        self._connection: _Connection | None = None
        try:
            with self._errors():
                if read_only:
                    self._look(self._connected())
                else:
                    self._create(self._connected())
        except BaseException:
            self.close()
            raise

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            wanted = {**_CONNECT, **self._parameters}
            self._connection = _Connection.connect(make_conninfo(**wanted), autocommit=True)
            # Whatever the server's default: an answer may leave only when its events are on disk.
            self._connection.execute("SET synchronous_commit = on;" + self._limits)
            # Whether what was last seen has become durable is not known: the next turn waits for
            # the disk.
            self._last = BEGINNING
        return self._connection

    def _create(self, connection: psycopg.Connection) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            # Statements of a script are sent without parameters, since it has several.
            connection.execute(
                sql.SQL(_CREATE).format(schema=self._schema, version=sql.Literal(_SCHEMA))
            )
            self._migrate(connection, self._version(connection))

    def _look(self, connection: psycopg.Connection) -> None:
        """Refuse a database without the tables of a store."""
        try:
            self.is_current = self._version(connection) == _SCHEMA
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise InvalidParameter("the database holds no store of armrace.") from None

    def _version(self, connection: psycopg.Connection) -> int:
        found = connection.execute(
            sql.SQL("SELECT max(version) FROM {}.version").format(self._schema)
        ).fetchone()
        version: int = (found[0] if found else None) or 0
        if not 1 <= version <= _SCHEMA:
            raise DamagedFile(
                f"the database has the schema {version}; this version reads 1 to {_SCHEMA}."
            )
        return version

    def _migrate(self, connection: psycopg.Connection, version: int) -> None:
        for earlier in range(version, _SCHEMA):
            connection.execute(sql.SQL(_MIGRATIONS[earlier]).format(schema=self._schema))
            connection.execute(
                sql.SQL("UPDATE {}.version SET version = %s").format(self._schema), (earlier + 1,)
            )

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        with self._lock:
            try:
                with self._errors():
                    connection, last = self._connected(), self._last.sequence
                    turn = _PostgresTurn(connection, self._queries, last, self._read_only)
                    try:
                        yield turn
                    except psycopg.Error:
                        raise
                    except BaseException:
                        turn.roll_back()
                        raise
                    turn.commit()
                    self._last = turn.head
            except BaseException as error:
                # What became of the transaction is not known if it failed or was interrupted.
                if isinstance(error, StoreFailed) or not isinstance(error, Exception):
                    self._forget_connection()
                raise

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

    def _forget_connection(self) -> None:
        """Connect again in the next turn; what became of this one is not known."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        with self._lock:
            self._forget_connection()


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

        records = "SELECT sequence, payload, digest, subject FROM {0}.records WHERE "
        self.head = made(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, "
            "(SELECT sequence FROM {0}.records ORDER BY sequence DESC LIMIT 1), "
            "(SELECT digest FROM {0}.records ORDER BY sequence DESC LIMIT 1)"
        )
        self.read = made(records + "sequence > %s ORDER BY sequence LIMIT %s")
        self.read_many = made(records + "sequence = ANY(%s) ORDER BY sequence")
        self.find = made(records + "subject = ANY(%s) AND sequence > %s ORDER BY sequence")
        self.append = made(
            "INSERT INTO {0}.records "
            "SELECT * FROM unnest(%s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[])"
        )
        self.snapshots = made("SELECT sequence FROM {0}.snapshots ORDER BY sequence")
        self.load = made("SELECT data FROM {0}.snapshots WHERE sequence = %s")
        self.save = made(
            "INSERT INTO {0}.snapshots VALUES (%s, %s) "
            "ON CONFLICT (sequence) DO UPDATE SET data = excluded.data"
        )
        self.forget = made("DELETE FROM {0}.snapshots WHERE sequence = ANY(%s)")


class _PostgresTurn(Turn):
    def __init__(
        self, connection: psycopg.Connection, queries: _Queries, last: int, read_only: bool
    ) -> None:
        self._connection = connection
        self._queries = queries
        self._waiting: list[Record] = []
        """Records that go to the database with the next statement."""
        with connection.pipeline():
            if read_only:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            else:
                connection.execute("BEGIN")
                connection.execute(_TAKE_LOCK)
            # Statements of their own: the lock must be held before they look at the data.
            head = connection.execute(queries.head, binary=True)
            news = connection.execute(queries.read, (last, _PAGE), binary=True)
        row = head.fetchone()
        assert row is not None
        self._time = int(row[0])
        self._head = BEGINNING if row[1] is None else Head(row[1], bytes(row[2]))
        self._news = list(map(_record, news.fetchall()))
        self._news_after = last
        # Answers rest on what others have appended, too, which may not be on disk yet.
        self._changed = not read_only and self._head.sequence != last

    def _execute(self, query: bytes, values: Sequence[object] = ()) -> psycopg.Cursor:
        if self._waiting:
            self._insert()
        return self._connection.execute(query, values, binary=True)

    def _insert(self) -> None:
        sequences, payloads, digests, subjects = zip(*self._waiting, strict=True)
        self._waiting = []
        self._connection.execute(
            self._queries.append,
            (
                _array(map(str, sequences)),
                _array(map(_hexadecimal, payloads)),
                _array(map(_hexadecimal, digests)),
                _array("NULL" if each is None else str(each) for each in subjects),
            ),
        )

    @property
    def head(self) -> Head:
        return self._head

    def time(self) -> int | None:
        return self._time

    def read(self, after: int = 0, most: int | None = None) -> Iterator[Record]:
        left = self._head.sequence - after
        if after == self._news_after and len(self._news) == left:
            return islice(self._news, most)
        if left <= _PAGE or (most is not None and most <= _PAGE):
            return map(_record, self._execute(self._queries.read, (after, most)).fetchall())
        return self._read_in_pages(after, most)

    def _read_in_pages(self, after: int, most: int | None) -> Iterator[Record]:
        """Read a long log without holding it in memory."""
        if self._waiting:
            self._insert()
        self._connection.execute(_REST_LONGER)
        with self._connection.cursor(name="records", binary=True) as cursor:
            cursor.itersize = _PAGE
            cursor.execute(self._queries.read, (after, most))
            yield from map(_record, cursor)

    def read_many(self, sequences: Collection[int]) -> Iterator[Record]:
        values = (_array(map(str, sequences)),)
        return map(_record, self._execute(self._queries.read_many, values).fetchall())

    def find_many(self, subjects: Collection[int], after: int = 0) -> Iterator[Record]:
        values = (_array(map(str, subjects)), after)
        return map(_record, self._execute(self._queries.find, values).fetchall())

    def append(self, records: Sequence[Record]) -> None:
        check_continues(self._head, records)
        if records:
            self._waiting.extend(records)
            self._changed = True
            self._head = Head(records[-1].sequence, records[-1].digest)

    def commit(self) -> None:
        """Keep everything, give up the lock, and wait for the disk."""
        with self._connection.pipeline():
            if self._waiting:
                self._insert()
            self._connection.execute("COMMIT")
            if self._changed:
                # It must write something: a commit that has written nothing does not wait for the
                # disk (docs/decisions/022).
                self._connection.execute("SELECT pg_logical_emit_message(true, 'armrace', '')")

    def roll_back(self) -> None:
        """Keep nothing."""
        self._connection.execute("ROLLBACK")

    def snapshots(self) -> list[int]:
        return [row[0] for row in self._execute(self._queries.snapshots).fetchall()]

    def load_snapshot(self, sequence: int) -> bytes:
        self._connection.execute(_REST_LONGER)
        row = self._execute(self._queries.load, (sequence,)).fetchone()
        assert row is not None
        return bytes(row[0])

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        self._execute(self._queries.save, (sequence, data))
        self._changed = True

    def forget_snapshots(self, sequences: Sequence[int]) -> None:
        if sequences:
            self._execute(self._queries.forget, (list(sequences),))
            self._changed = True


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
