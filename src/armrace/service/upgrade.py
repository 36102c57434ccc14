"""Reading stores of the first design, which had one log for all experiments, into new ones.

Records are read in order, verified by the chain of then, and sorted by experiment. A visit is known
by the number of its record, so that numbers in rewards and rulings are replaced. Each event of the
new log is applied to the experiment as it is written, because one thing was not in the log: that a
generation begins when a guessed horizon is reached.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed
from armrace.files import atomic_path
from armrace.files.private import check_private
from armrace.kernels.generics import Ticket
from armrace.service.keyring import Keyring
from armrace.service.loading import in_parts
from armrace.service.log.chain import BEGINNING, Chain, Head, LogRecord, head_of
from armrace.service.log.store import Store, Transaction
from armrace.service.model import events
from armrace.service.model.experiment import ExperimentState
from armrace.service.operations.deciding import start_afresh_if_over
from armrace.service.operations.experiments import first_record
from armrace.service.service import is_database
from armrace.service.work import Shard, Work
from armrace_client.answers import ArmStatus, Verdict

_PART = 5000
_SQLITE_SCHEMA, _POSTGRES_SCHEMA = 3, 4
"""Those of version 0.2.0."""
_MARK = struct.Struct("<8sQ16s")
_MAGIC = b"armrace1"
_READ = "SELECT sequence, payload, digest FROM {}records ORDER BY sequence"

Read = Callable[[], Iterator[LogRecord]]
"""Reads all records of a store of the first design, from the beginning."""

# --- the events of the first design that have another form now ----------------------------------


class _Event(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    time: int


class _Decided(_Event, frozen=True, tag=1, gc=False):
    arm: int
    ticket: Ticket | None
    taken: int
    probability: float | None
    shares: bytes = b""
    unit: str | None = None
    request: str | None = None


class _DecidedAhead(_Decided, frozen=True, tag=11, gc=False):
    """Three more members, about a stream of random numbers, are not needed."""


class _Retracted(_Event, frozen=True, tag=3, gc=False):
    decisions: list[int]
    reason: str = ""


class _Released(_Retracted, frozen=True, tag=4, gc=False):
    pass


class _ArmChanged(_Event, frozen=True, tag=6, gc=False):
    arm: int
    status: ArmStatus
    told: bool = False


class _StreamOpened(_Event, frozen=True, tag=10, gc=False):
    pass


_Earlier = (
    events.Created
    | _Decided
    | events.Rewarded
    | _Retracted
    | _Released
    | events.ArmCreated
    | _ArmChanged
    | events.PhaseChanged
    | events.Ticked
    | events.Contradicted
    | _StreamOpened
    | _DecidedAhead
)


def _decode(payload: bytes) -> tuple[int, Any]:
    """Return the number of the experiment, which followed the time, and the event without it."""
    try:
        kind, time, experiment, *rest = msgspec.msgpack.decode(payload, type=list[Any])
        event = msgspec.convert([kind, time, *rest], _Earlier)
        return msgspec.convert(experiment, int), event
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None


# --- reading ------------------------------------------------------------------------------------


@contextmanager
def _sqlite(path: Path, restored: bool) -> Iterator[Read]:
    import apsw

    from armrace.service.log.sqlite import APPLICATION, sqlite_errors

    if not path.is_file():
        raise InvalidParameter(f"there is no store {path}.")
    check_private(path)
    flags = apsw.SQLITE_OPEN_READWRITE
    with sqlite_errors(path), closing(apsw.Connection(str(path), flags)) as connection:
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("query_only", True)
        kept = path.with_name(path.name + "-wal").exists()
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(kept))
        if connection.pragma("application_id") != APPLICATION:
            raise DamagedFile(f"{path} is a database, but not a store of armrace.")
        if (version := connection.pragma("user_version")) != _SQLITE_SCHEMA:
            raise InvalidParameter(
                f"{path} has the schema {version}; only that of version 0.2.0, 3, is upgraded."
            )
        if not restored:
            _check_mark(connection, path.with_name(path.name + "-mark"))
        yield lambda: (LogRecord(*row) for row in connection.execute(_READ.format("")))


def _check_mark(connection: Any, path: Path) -> None:
    """Refuse a log that does not reach the high-water mark beside it, of two slots with digests."""
    if not path.exists():
        raise DamagedFile(
            f"there is no high-water mark {path}, so that a loss would not be seen; give --backup "
            "if the store comes from a backup."
        )
    content, heads = path.read_bytes(), []
    for begin in (0, _MARK.size + 16):
        slot, check = content[begin:][: _MARK.size], content[begin + _MARK.size :][:16]
        if slot.startswith(_MAGIC) and check == hashlib.blake2b(slot, digest_size=16).digest():
            heads.append(Head(*_MARK.unpack(slot)[1:]))
    if not heads:
        raise DamagedFile(f"the high-water mark {path} is damaged.")
    last = max(heads)
    query = "SELECT digest FROM records WHERE sequence = ?"
    if last.sequence and connection.execute(query, (last.sequence,)).get != last.digest:
        raise DamagedFile(
            f"the log has lost acknowledged events: it does not hold record {last.sequence} as its "
            "high-water mark knows it."
        )


@contextmanager
def _postgres(place: str) -> Iterator[Read]:
    import psycopg

    try:
        with psycopg.connect(place) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = connection.execute("SELECT max(version) FROM armrace.version").fetchone()
            version = found[0] if found else None
            if version != _POSTGRES_SCHEMA:
                raise InvalidParameter(
                    f"the database has the schema {version}; only that of version 0.2.0, 4, is "
                    "upgraded."
                )

            def read() -> Iterator[LogRecord]:
                with connection.cursor(name="records", binary=True) as cursor:
                    cursor.itersize = _PART
                    cursor.execute(_READ.format("armrace."))
                    for sequence, payload, digest in cursor:
                        yield LogRecord(sequence, bytes(payload), bytes(digest))

            yield read
    except psycopg.Error as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StoreFailed(f"the database cannot be used: {reason}.") from error


class _Chain(Chain):
    """The chain of then, whose digests had no key."""

    def __init__(self) -> None:
        self._keyed = hashlib.blake2b(digest_size=16)


def _verified(read: Read) -> Iterator[tuple[int, int, Any]]:
    """Yield the number of each record, of its experiment, and its event, once it is verified."""
    head, chain = BEGINNING, _Chain()
    for part in in_parts(read(), _PART):
        chain.verify(head, part)
        head = head_of(part[-1])
        for record in part:
            yield record.sequence, *_decode(record.payload)


# --- writing ------------------------------------------------------------------------------------


class Upgraded(msgspec.Struct, frozen=True):
    """What an upgrade wrote."""

    experiments: int
    decisions: int
    rewards: int


def upgrade_store(
    place: str,
    store: Store,
    keyring: Keyring,
    restored: bool = False,
    note: Callable[[float], None] = lambda share: None,
) -> Upgraded:
    """Write all experiments of a store of the first design into a new store, which must be empty.

    The first one, a file or a database, is only read; ``restored`` says that it is a backup without
    a high-water mark. The new one gets all or nothing. ``note`` is told the share of the work that
    is done.
    """
    logs: dict[int, _NewLog] = {}
    rewards = 0
    with (
        _postgres(place) if is_database(place) else _sqlite(Path(place), restored) as read,
        store.transaction(creates=True) as transaction,
    ):
        if transaction.logs():
            raise InvalidParameter("the new store must be empty; it has experiments.")
        total = sum(1 for _ in _verified(read))
        for number, experiment, event in _verified(read):
            if isinstance(event, events.Created):
                logs[experiment] = _NewLog(transaction, keyring, event)
            elif experiment not in logs:
                raise DamagedFile(f"record {number} is of an experiment that was not created.")
            else:
                logs[experiment].take(number, event)
            rewards += isinstance(event, events.Rewarded)
            if number % _PART == 0:
                note(number / total)
        for each in logs.values():
            each.work.flush()
    return Upgraded(len(logs), sum(each.decisions for each in logs.values()), rewards)


class _NewLog:
    """The log of one experiment, as it is written."""

    def __init__(self, transaction: Transaction, keyring: Keyring, created: events.Created) -> None:
        log, secret = transaction.create_log(created.tenant, created.name), keyring.store_secret()
        record = first_record(secret, log, created)
        transaction.append(log, [record])
        experiment = ExperimentState.replay([(record, created)])
        assert experiment is not None
        shard = Shard(log, experiment, secret, 0)
        self.work = Work(shard, transaction, created.time, keyring.signing_keys())
        self._numbers: dict[int, int] = {}
        """The new number of each visit by its old one."""

    @property
    def decisions(self) -> int:
        """How many decisions were made."""
        return self.work.experiment.decisions

    def take(self, sequence: int, event: Any) -> None:
        """Write an event of the first design."""
        self.work.time = event.time
        if isinstance(event, _Decided):
            self._numbers[sequence] = self.work.add(self._decided(event))
            start_afresh_if_over(self.work)
        elif isinstance(event, (events.Rewarded, events.Contradicted)):
            if event.decision not in self._numbers:
                raise DamagedFile(
                    f"the log speaks of decision {event.decision}, which was not made."
                )
            self.work.add(msgspec.structs.replace(event, decision=self._numbers[event.decision]))
        elif isinstance(event, _Retracted):
            numbers = [self._numbers[each] for each in event.decisions if each in self._numbers]
            verdict: Verdict = "release" if isinstance(event, _Released) else "retract"
            words = f"{len(numbers)} decisions"
            self.work.add(events.Ruled(event.time, verdict, numbers, words, event.reason))
        elif isinstance(event, _ArmChanged):
            self.work.add(events.ArmChanged(event.time, event.arm, event.status, told=event.told))
        elif not isinstance(event, _StreamOpened):  # which says nothing now
            self.work.add(event)
        if self.work.experiment.head.sequence % _PART == 0:
            self.work.flush()

    def _decided(self, event: _Decided) -> events.Decided:
        experiment, shard, ticket = self.work.experiment, self.work.shard, event.ticket
        by: events.By = "policy"
        if ticket is None:
            # Decisions of which the policy learned nothing: of a floor, or imported.
            by = "floor" if experiment.settings.floors else "editor"
        what = (event.arm, ticket, event.taken, event.probability, event.shares)
        who = (shard.hashed(event.unit), shard.hashed(event.request))
        return events.Decided(event.time, *what, *who, by=by)


def upgrade_keys(old: Path, new: Path) -> None:
    """Write the keys of the first design into a new file, with a secret for the logs."""
    try:
        check_private(old)
        content = msgspec.json.decode(old.read_bytes(), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, OSError) as error:
        raise DamagedFile(f"the keys in {old} cannot be read: {error}.") from None
    if "store" not in content:
        content["store"] = base64.b64encode(secrets.token_bytes(32)).decode()
    content["format"] = 2
    with atomic_path(new, private=True) as path:
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content)))
