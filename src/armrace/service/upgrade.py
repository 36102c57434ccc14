"""Reading stores of the first design, which had one log for all experiments, into new ones.

Records are read in order, verified by the chain of then, and sorted by experiment. A visit is known
by the number of its record, so that numbers in rewards and rulings are replaced. Each event of the
new log is applied to the experiment as it is written, because two things were not in the log: that
a generation begins when a guessed horizon is reached, and which arm the base of a guard drew.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from armrace.errors import DamagedFile, InvalidParameter, StoreFailed, StoreInUse
from armrace.files import atomic_path
from armrace.files.private import check_private
from armrace.kernels.generics import NO_ARM, Ticket
from armrace.policies.guarded import Guarded
from armrace.service.loading import LogReader, in_parts
from armrace.service.log.chain import BEGINNING, Chain, Head, Record
from armrace.service.log.store import Store
from armrace.service.model import events
from armrace.service.model.events import By, Event, encode, subject
from armrace.service.model.experiment import Experiment
from armrace.service.opening import is_database
from armrace.service.work import Shard
from armrace_client.answers import ArmStatus, Phase

__all__ = ["Upgraded", "upgrade_keys", "upgrade_store"]

_PART = 5000
_APPLICATION = 0x61726D72
_SQLITE_SCHEMAS, _POSTGRES_SCHEMAS = range(1, 4), range(1, 5)
_SIZE = 16
_SLOT = struct.Struct("<8sQ16s16s")
_MAGIC = b"armrace1"
_READ = "SELECT sequence, payload, digest FROM {}records ORDER BY sequence"


# --- the events of the first design -----------------------------------------------------------


class _Event(msgspec.Struct, frozen=True, array_like=True, tag_field="kind", gc=False):
    time: int
    experiment: int


class _Created(_Event, frozen=True, tag=0, gc=False):
    tenant: str
    name: str
    settings: dict[str, Any]


class _Decided(_Event, frozen=True, tag=1, gc=False):
    arm: int
    ticket: Ticket | None
    taken: int
    probability: float | None
    shares: bytes = b""
    unit: str | None = None
    request: str | None = None


class _Rewarded(_Event, frozen=True, tag=2, gc=False):
    decision: int
    steps: int
    source: str | None = None
    suspicion: float | None = None


class _Retracted(_Event, frozen=True, tag=3, gc=False):
    decisions: list[int]
    reason: str = ""


class _Released(_Event, frozen=True, tag=4, gc=False):
    decisions: list[int]
    reason: str = ""


class _ArmAdded(_Event, frozen=True, tag=5, gc=False):
    arm: str


class _ArmChanged(_Event, frozen=True, tag=6, gc=False):
    arm: int
    status: ArmStatus
    told: bool = False


class _PhaseChanged(_Event, frozen=True, tag=7, gc=False):
    phase: Phase


class _Ticked(_Event, frozen=True, tag=8, gc=False):
    pass


class _Contradicted(_Event, frozen=True, tag=9, gc=False):
    decision: int


class _StreamOpened(_Event, frozen=True, tag=10, gc=False):
    pass


class _DecidedAhead(_Event, frozen=True, tag=11, gc=False):
    arm: int
    ticket: Ticket | None
    taken: int
    probability: float | None
    shares: bytes = b""
    unit: str | None = None
    request: str | None = None
    stream: int = 0
    stream_taken: int = 0
    known: int = 0


_Earlier = (
    _Created
    | _Decided
    | _Rewarded
    | _Retracted
    | _Released
    | _ArmAdded
    | _ArmChanged
    | _PhaseChanged
    | _Ticked
    | _Contradicted
    | _StreamOpened
    | _DecidedAhead
)
_decode = msgspec.msgpack.Decoder(list[_Earlier]).decode


class _Row(NamedTuple):
    sequence: int
    payload: bytes
    digest: bytes


# --- reading ----------------------------------------------------------------------------------


@contextmanager
def _opened(place: str, restored: bool) -> Iterator[Callable[[], Iterator[_Row]]]:
    """Open a store of the first design; yield what reads its records from the beginning."""
    if is_database(place):
        with _postgres(place) as read:
            yield read
    else:
        with _sqlite(Path(place), restored) as read:
            yield read


@contextmanager
def _sqlite(path: Path, restored: bool) -> Iterator[Callable[[], Iterator[_Row]]]:
    import apsw

    if not path.is_file():
        raise InvalidParameter(f"there is no store {path}.")
    try:
        check_private(path)
        with closing(apsw.Connection(str(path), apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.pragma("locking_mode", "exclusive")
            connection.pragma("query_only", True)
            kept = path.with_name(path.name + "-wal").exists()
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(kept))
            _check_schema(connection, path)
            if not restored:
                _check_mark(connection, path.with_name(path.name + "-mark"))
            yield lambda: (_Row(*row) for row in connection.execute(_READ.format("")))
    except (apsw.BusyError, apsw.LockedError) as error:
        raise StoreInUse(f"{path} is in use by another process.") from error
    except (apsw.CorruptError, apsw.NotADBError, apsw.FormatError) as error:
        raise DamagedFile(f"{path} is damaged or not a database: {error}.") from error
    except (apsw.Error, OSError) as error:
        raise StoreFailed(f"{path} cannot be used: {error}.") from error


def _check_schema(connection: Any, path: Path) -> None:
    if connection.pragma("application_id") != _APPLICATION:
        raise DamagedFile(f"{path} is a database, but not a store of armrace.")
    if (version := connection.pragma("user_version")) not in _SQLITE_SCHEMAS:
        raise InvalidParameter(
            f"{path} has the schema {version}; only earlier ones, 1 to 3, are upgraded."
        )


def _check_mark(connection: Any, path: Path) -> None:
    """Refuse a log that does not reach the high-water mark beside it."""
    if not path.exists():
        raise DamagedFile(
            f"there is no high-water mark {path}, so that a loss would not be seen; give --backup "
            "if the store comes from a backup."
        )
    content = path.read_bytes()
    slots = [content[place : place + _SLOT.size] for place in (0, _SLOT.size)]
    marked = [head for slot in slots if (head := _marked(slot)) is not None]
    if not marked:
        raise DamagedFile(f"the high-water mark {path} is damaged.")
    last = max(marked)
    query = "SELECT digest FROM records WHERE sequence = ?"
    if last.sequence and connection.execute(query, (last.sequence,)).get != last.digest:
        raise DamagedFile(
            f"the log has lost acknowledged events: it does not hold record {last.sequence} as its "
            "high-water mark knows it."
        )


def _marked(slot: bytes) -> Head | None:
    if len(slot) != _SLOT.size:
        return None
    magic, sequence, digest, check = _SLOT.unpack(slot)
    content = slot[: _SLOT.size - _SIZE]
    intact = check == hashlib.blake2b(content, digest_size=_SIZE).digest()
    return Head(sequence, digest) if magic == _MAGIC and intact else None


@contextmanager
def _postgres(place: str, schema: str = "armrace") -> Iterator[Callable[[], Iterator[_Row]]]:
    import psycopg

    try:
        with psycopg.connect(place) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            found = connection.execute(f"SELECT max(version) FROM {schema}.version").fetchone()
            version = found[0] if found else None
            if version not in _POSTGRES_SCHEMAS:
                raise InvalidParameter(
                    f"the database has the schema {version}; only those of earlier versions, 1 to "
                    "4, are upgraded."
                )

            def read() -> Iterator[_Row]:
                with connection.cursor(name="records", binary=True) as cursor:
                    cursor.itersize = _PART
                    cursor.execute(_READ.format(f"{schema}."))
                    for sequence, payload, digest in cursor:
                        yield _Row(sequence, bytes(payload), bytes(digest))

            yield read
    except psycopg.Error as error:
        reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise StoreFailed(f"the database cannot be used: {reason}.") from error


def _verified(rows: Iterable[_Row]) -> Iterator[tuple[int, Any]]:
    """Yield events with their numbers, after their records were verified by the chain of then."""
    last, digest = 0, bytes(_SIZE)
    for part in in_parts(rows, _PART):
        for sequence, payload, given in part:
            last += 1
            if sequence != last:
                raise DamagedFile(
                    f"the log is damaged: record {last} is missing, and {sequence} follows."
                )
            digest = hashlib.blake2b(digest + payload, digest_size=_SIZE).digest()
            if given != digest:
                raise DamagedFile(f"the log is damaged: record {last} does not match its digest.")
        content = b"\xdd" + len(part).to_bytes(4, "big") + b"".join(row.payload for row in part)
        try:
            decoded = _decode(content)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise DamagedFile(f"the log holds bytes that are not an event: {error}.") from None
        yield from zip((row.sequence for row in part), decoded, strict=True)


# --- writing ----------------------------------------------------------------------------------


class Upgraded(msgspec.Struct, frozen=True):
    """What an upgrade did."""

    records: int
    """The records that were read."""
    experiments: int
    decisions: int
    rewards: int


def upgrade_store(
    place: str,
    store: Store,
    secret: bytes,
    restored: bool = False,
    note: Callable[[float], None] = lambda share: None,
) -> Upgraded:
    """Write all experiments of a store of the first design into a new store.

    Args:
        place: the file or the database of the first design, which is read only.
        store: the new store, without experiments.
        secret: the secret of the new store's keys.
        restored: whether the file comes from a backup, and has no high-water mark.
        note: is told the share of the work that is done.

    Raises:
        DamagedFile: the store of the first design is damaged; the new one has experiments then that
            are not whole.
        InvalidParameter: the new store has experiments already.
    """
    with store.transaction() as transaction:
        if transaction.logs():
            raise InvalidParameter("the new store must be empty; it has experiments.")
    logs: dict[int, _NewLog] = {}
    read = rewards = 0
    with _opened(place, restored) as rows:
        total = sum(1 for _ in _verified(rows()))  # all of them before anything is written
        for read, event in _verified(rows()):
            if isinstance(event, _Created):
                logs[event.experiment] = _NewLog(store, secret, event)
            elif event.experiment not in logs:
                raise DamagedFile(f"record {read} is of an experiment that was not created.")
            else:
                logs[event.experiment].take(read, event)
            rewards += isinstance(event, _Rewarded)
            if read % _PART == 0:
                note(read / total)
    decisions = sum(each.finish() for each in logs.values())
    return Upgraded(read, len(logs), decisions, rewards)


class _NewLog:
    """The log of one experiment, as it is written."""

    def __init__(self, store: Store, secret: bytes, event: _Created) -> None:
        self._store, self._secret = store, secret
        with store.transaction(creates=True) as transaction:
            self._log = transaction.create_log(event.tenant, event.name)
            created = events.Created(event.time, event.tenant, event.name, event.settings)
            record = Chain(secret, self._log).link(BEGINNING, encode(created), subject(created))
            transaction.append(self._log, [record])
        experiment = Experiment.replay([(record, created)])
        assert experiment is not None
        self._shard = Shard(self._log, experiment, secret, 0)
        self._experiment = experiment
        self._is_guarded = isinstance(experiment.generation.learner.policy, Guarded)
        self._numbers: dict[int, int] = {}
        """The new number of each visit by its old one."""
        self._waiting: list[Record] = []

    def take(self, sequence: int, event: Any) -> None:
        """Write an event of the first design."""
        if isinstance(event, (_Decided, _DecidedAhead)):
            self._numbers[sequence] = self._add(self._decided(event))
            # The decision that reaches the horizon still belongs to the generation that made it.
            if self._experiment.is_over:
                horizon = 2 * self._experiment.generation.horizon
                reason = "the guessed horizon was reached"
                self._add(events.StartedAfresh(event.time, horizon, reason))
        elif (converted := self._converted(event)) is not None:
            self._add(converted)

    def _converted(self, event: Any) -> Event | None:
        """Return an event that is no decision in its new form; ``None`` if it says nothing now."""
        time = event.time
        if isinstance(event, _Rewarded):
            number = self._number(event.decision)
            return events.Rewarded(time, number, event.steps, event.source, event.suspicion)
        if isinstance(event, (_Retracted, _Released)):
            numbers = [self._numbers[each] for each in event.decisions if each in self._numbers]
            words = f"{len(numbers)} decisions"
            if isinstance(event, _Retracted):
                return events.Ruled(time, "retract", numbers, words, event.reason)
            return events.Ruled(time, "release", numbers, words, event.reason)
        if isinstance(event, _ArmAdded):
            return events.ArmAdded(time, event.arm)
        if isinstance(event, _ArmChanged):
            return events.ArmChanged(time, event.arm, event.status, told=event.told)
        if isinstance(event, _PhaseChanged):
            return events.PhaseChanged(time, event.phase)
        if isinstance(event, _Contradicted):
            return events.Contradicted(time, self._number(event.decision))
        return events.Ticked(time) if isinstance(event, _Ticked) else None

    def _decided(self, event: _Decided | _DecidedAhead) -> events.Decided:
        ticket = event.ticket
        by: By = "policy"
        if ticket is None:
            # Decisions of which the policy learned nothing: of a floor, or imported.
            by = "floor" if self._experiment.settings.floors else "editor"
        elif self._is_guarded:
            ticket = _with_inner_arm(ticket, len(self._experiment.generation.places))
        return events.Decided(
            event.time,
            event.arm,
            ticket,
            event.taken,
            event.probability,
            event.shares,
            self._shard.hashed(event.unit),
            self._shard.hashed(event.request),
            by=by,
        )

    def _number(self, decision: int) -> int:
        if decision not in self._numbers:
            raise DamagedFile(f"the log speaks of decision {decision}, which was not made.")
        return self._numbers[decision]

    def _add(self, event: Event) -> int:
        record = self._shard.chain.link(self._experiment.head, encode(event), subject(event))
        self._experiment.apply(record, event)
        self._waiting.append(record)
        if len(self._waiting) >= _PART:
            self._flush()
        return record.sequence

    def _flush(self) -> None:
        if self._waiting:
            before = self._waiting[0].sequence - 1
            with self._store.transaction({self._log: before}) as transaction:
                transaction.append(self._log, self._waiting)
            self._waiting = []

    def finish(self) -> int:
        """Write what is left, and a snapshot; return how many decisions there were."""
        self._flush()
        # Replayed once more, with all rulings known from the beginning.
        experiment, _ = LogReader(self._store, self._log, self._secret).load()
        last = experiment.head.sequence
        with self._store.transaction({self._log: last}) as transaction:
            transaction.save_snapshot(self._log, last, experiment.save())
        return experiment.decisions


_TURN = -(2**40)
"""The phase of a ticket whose arm the guard chose, without its base."""


def _with_inner_arm(ticket: Ticket, arms: int) -> Ticket:
    """Return a drawn ticket of ``guarded`` with its inner arm.

    It was kept in the phase at first: how many places after the played arm, in a circle, the arm
    lies that the base drew, or a number that no stage has. Otherwise, drawn tickets have phase 0.
    """
    if ticket.phase == 0:
        return ticket
    inner = NO_ARM if ticket.phase == _TURN else (ticket.arm + ticket.phase) % arms
    return ticket._replace(phase=0, inner_arm=inner)


def upgrade_keys(old: Path, new: Path) -> None:
    """Write the keys of a service of the first design into a new file, with a secret for its logs.

    Args:
        old: the file of the keys.
        new: the new file, which must not exist.
    """
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
