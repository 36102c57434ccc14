"""The shared store: one database of PostgreSQL, used by many processes.

A turn is a transaction that holds an advisory lock, so that turns of all processes are serial. A
process reads what others have appended before it appends. All processes take the time from the
database.

If the database goes away, turns raise :class:`~armrace.errors.StoreFailed`; the next turn connects
again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.service.chain import BEGINNING, Head, Record
from armrace.service.stores.base import Store, Turn, check_continues

__all__ = ["PostgresStore"]

_SCHEMA = 1
_LOCK = 0x61726D72
_PAGE = 5000
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

    Raises:
        StoreFailed: the database cannot be reached.
        DamagedFile: the tables are of a later version.
    """

    is_shared = True
    recovers = True

    def __init__(self, place: str, schema: str = "armrace") -> None:
        if not schema.isidentifier():
            raise InvalidParameter(f"schema must be a plain name; got {schema!r:.100}.")
        self._place = place
        self._schema = sql.Identifier(schema)
        self._lock = threading.RLock()
        self._connection: psycopg.Connection | None = None
        try:
            with _errors():
                self._create(self._connected())
        except BaseException:
            self.close()
            raise

    def _connected(self) -> psycopg.Connection:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._place, connect_timeout=5, application_name="armrace"
            )
            # Whatever the server's default: an answer may leave only when its events are on disk.
            self._connection.execute("SET synchronous_commit = on")
            self._connection.commit()
        return self._connection

    def _create(self, connection: psycopg.Connection) -> None:
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            # Statements of a script are sent without parameters, since it has several.
            connection.execute(
                sql.SQL(_CREATE).format(schema=self._schema, version=sql.Literal(_SCHEMA))
            )
            found = connection.execute(
                sql.SQL("SELECT max(version) FROM {}.version").format(self._schema)
            ).fetchone()
        version = found[0] if found else None
        if version != _SCHEMA:
            raise DamagedFile(
                f"the database has the schema {version}; this version reads {_SCHEMA}."
            )

    @contextmanager
    def turn(self) -> Iterator[Turn]:
        with self._lock:
            try:
                with _errors():
                    connection = self._connected()
                    with connection.transaction():
                        turn = _PostgresTurn(connection, self._schema)
                        yield turn
            except StoreFailed:
                self._forget_connection()
                raise

    def _forget_connection(self) -> None:
        """Connect again in the next turn; what became of this one is not known."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def close(self) -> None:
        with self._lock:
            self._forget_connection()


class _PostgresTurn(Turn):
    def __init__(self, connection: psycopg.Connection, schema: sql.Identifier) -> None:
        self._connection = connection
        self._schema = schema
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
        # A statement of its own: the lock must be held before this one takes its view of the data.
        row = self._execute(
            "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint, "
            "(SELECT sequence FROM {0}.records ORDER BY sequence DESC LIMIT 1), "
            "(SELECT digest FROM {0}.records ORDER BY sequence DESC LIMIT 1)"
        ).fetchone()
        assert row is not None
        self._time = int(row[0])
        self._head = BEGINNING if row[1] is None else Head(row[1], bytes(row[2]))

    def _execute(self, query: str, values: Sequence[object] = ()) -> psycopg.Cursor:
        return self._connection.execute(sql.SQL(query).format(self._schema), values, binary=True)

    @property
    def head(self) -> Head:
        return self._head

    def time(self) -> int | None:
        return self._time

    def read(self, after: int = 0) -> Iterator[Record]:
        query = (
            "SELECT sequence, payload, digest, subject FROM {0}.records "
            "WHERE sequence > %s ORDER BY sequence"
        )
        if self._head.sequence - after <= _PAGE:
            return map(_record, self._execute(query, (after,)).fetchall())
        return self._read_in_pages(sql.SQL(query).format(self._schema), after)

    def _read_in_pages(self, query: sql.Composed, after: int) -> Iterator[Record]:
        """Read a long log without holding it in memory."""
        with self._connection.cursor(name="records", binary=True) as cursor:
            cursor.itersize = _PAGE
            cursor.execute(query, (after,))
            yield from map(_record, cursor)

    def find(self, subject: int, after: int = 0) -> Iterator[Record]:
        rows = self._execute(
            "SELECT sequence, payload, digest, subject FROM {0}.records "
            "WHERE subject = %s AND sequence > %s ORDER BY sequence",
            (subject, after),
        ).fetchall()
        return map(_record, rows)

    def append(self, records: Sequence[Record]) -> None:
        check_continues(self._head, records)
        if not records:
            return
        self._execute(
            "INSERT INTO {0}.records "
            "SELECT * FROM unnest(%s::bigint[], %s::bytea[], %s::bytea[], %s::bigint[])",
            [list(column) for column in zip(*records, strict=True)],
        )
        self._head = Head(records[-1].sequence, records[-1].digest)

    def snapshots(self) -> list[int]:
        rows = self._execute("SELECT sequence FROM {0}.snapshots ORDER BY sequence").fetchall()
        return [row[0] for row in rows]

    def load_snapshot(self, sequence: int) -> bytes:
        row = self._execute(
            "SELECT data FROM {0}.snapshots WHERE sequence = %s", (sequence,)
        ).fetchone()
        assert row is not None
        return bytes(row[0])

    def save_snapshot(self, sequence: int, data: bytes) -> None:
        self._execute(
            "INSERT INTO {0}.snapshots VALUES (%s, %s) "
            "ON CONFLICT (sequence) DO UPDATE SET data = excluded.data",
            (sequence, data),
        )

    def forget_snapshots(self, sequences: Sequence[int]) -> None:
        if sequences:
            self._execute("DELETE FROM {0}.snapshots WHERE sequence = ANY(%s)", (list(sequences),))


def _record(row: Any) -> Record:
    return Record(row[0], bytes(row[1]), bytes(row[2]), row[3])


@contextmanager
def _errors() -> Iterator[None]:
    """Turn errors of the database into one sentence each."""
    try:
        yield
    except psycopg.Error as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StoreFailed(f"the database cannot be used: {reason}.") from error
