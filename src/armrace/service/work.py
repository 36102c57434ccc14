"""What operations work on, and how they are performed.

An operation works on an experiment within a transaction at some time, on a batch of others, or in
the background.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from time import monotonic_ns, time_ns
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from armrace.errors import ArmraceError, DamagedFile, StoreFailed, StoreInUse
from armrace.service.keyring import DECISION, SigningKeys, TokenContent
from armrace.service.log.chain import Chain, LogRecord
from armrace.service.log.store import Transaction
from armrace.service.model.events import Actor, Decided, Event, Ticked, encode, subject
from armrace.service.model.experiment import ExperimentState
from armrace_client.operations import Operation

if TYPE_CHECKING:
    from armrace.service.engine import Engine

_TOLERATED = 2000
"""A shared clock may differ from the own one by this many milliseconds plus one percent."""


class LogTime:
    """Tells the time of the next event in milliseconds, by ``clock`` if the store has no clock.

    It never goes back. Windows close by it, so that a clock that is set wrong must neither stop it
    nor close windows early, as far as a process can tell: it compares a shared clock, the
    database's, with its own monotonic one from transaction to transaction. When it starts, it has
    nothing to compare with.
    """

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        start, began = time_ns(), monotonic_ns()
        # By default one that no later change of the system's time moves.
        self._clock = clock or (lambda: (start + monotonic_ns() - began) // 1_000_000)
        self._correction = 0
        """What is added to a clock that has jumped."""
        self._told = 0
        self._before: tuple[int, int] | None = None
        """The shared clock and the own one in the last transaction."""

    def now(self, shared: int | None) -> int:
        """Return the time, by the clock that all processes of a store share, if there is one."""
        if shared is not None:
            self._take_back_jumps(shared)
        time = self._clock() if shared is None else shared
        self._correction = max(self._correction, self._told - time)
        self._told = time + self._correction
        return self._told

    def _take_back_jumps(self, shared: int) -> None:
        elapsed = monotonic_ns() // 1_000_000
        if self._before is not None:
            passed = elapsed - self._before[1]
            jump = shared - self._before[0] - passed
            # Small differences are the drift of two clocks, and are not corrected.
            if abs(jump) > _TOLERATED + passed // 100:
                self._correction -= jump
        self._before = shared, elapsed


Said = dict[bytes | None, tuple[int, dict[str, int] | None]]
"""The rewards of a visit by part, with the guardrails that came with each, on their grids."""
T = TypeVar("T")
Deliver = Callable[[Any], None]
"""Takes the outcome of something: the answer, or the error that refuses it."""
STORE_ERRORS = (DamagedFile, StoreFailed, StoreInUse)
"""Errors that concern all operations of a transaction."""


class Principal(NamedTuple):
    """On whose behalf something is asked."""

    tenant: str
    actor: Actor | None = None
    """Who asks; ``None`` for a program in the process of the service."""


class Later(NamedTuple, Generic[T]):
    """An answer whose rest is worked out in the background, once the transaction is durable."""

    finish: Callable[[], T]
    """Returns the answer, from copies alone."""


class KeptRefusal(Exception):
    """An operation is refused, and the events that it has added are kept."""

    def __init__(self, refusal: ArmraceError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Shard:
    """An experiment in memory; the keys of its log are derived from the secret of the store."""

    def __init__(
        self, log: int, experiment: ExperimentState, secret: bytes, snapshot_at: int
    ) -> None:
        self.log = log
        self.experiment = experiment
        self.chain = Chain(secret, log)
        self.snapshot_at = snapshot_at
        """The last record of the latest snapshot."""
        self.clock_offset = 0
        """What is added to the clock, in milliseconds: the log may be ahead of it."""
        self.exported_at = 0
        """The end of the log when it was last exported as a whole."""
        self._identifiers = hashlib.blake2b(b"identifiers %d" % log, key=secret).digest()

    def hashed(self, identifier: str | None) -> bytes | None:
        """Return what the log holds of a unit or a request: a keyed hash."""
        if identifier is None:
            return None
        content = identifier.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(content, key=self._identifiers, digest_size=16).digest()


class Work:
    """One experiment during a transaction, at the end of its log; all its events have one time.

    No answer leaves before the transaction has ended and all records are durable.
    """

    def __init__(
        self, shard: Shard, transaction: Transaction, time: int, keys: SigningKeys
    ) -> None:
        self.shard = shard
        self.experiment = shard.experiment
        self.time = time
        self.keys = keys
        self.principal = Principal("")
        """Who asks for what is performed now."""
        self.changes = 0
        """Grows with each change that an operation makes, before it is made."""
        self.snapshot_wanted = False
        self.late_wanted: Sequence[int] = ()
        """Visits that rewards of this transaction name, so that they are looked up together."""
        self.late: dict[int, tuple[Decided | None, Said]] = {}
        """What the log holds of visits that are not open: the decision, and what was said of it."""
        self._transaction = transaction
        self._records: list[LogRecord] = []

    @property
    def actor(self) -> Actor | None:
        """Who asks for what is performed now."""
        return self.principal.actor

    def add(self, event: Event) -> int:
        """Apply an event and return its sequence number."""
        self.changes += 1
        record = self.shard.chain.link(self.experiment.head, encode(event), subject(event))
        self.experiment.apply(record, event)
        self._records.append(record)
        return record.sequence

    def advance(self) -> None:
        """Settle what is due, as the event does that must follow: nothing is refused any more."""
        self.changes += 1
        self.experiment.advance(self.time)

    def settled(self) -> ExperimentState:
        """Return the experiment with all visits settled whose window has closed by now."""
        if self.experiment.is_due(self.time):
            before = self.changes
            self.add(Ticked(self.time))
            self.changes = before  # that time has passed is kept, even if the operation is refused
        return self.experiment

    def flush(self) -> Transaction:
        """Append to the log what was added so far, and return the transaction."""
        if self._records:
            self._transaction.append(self.shard.log, self._records)
            self._records = []
        return self._transaction

    def swap_in(self, experiment: ExperimentState, snapshots: dict[int, bytes], base: int) -> None:
        """Replace the experiment by one that was replayed, and the snapshots that contradict it.

        ``base`` is the snapshot that the replay began with, or 0; it has made ``snapshots``.
        """
        self.changes += 1
        transaction, log = self.flush(), self.shard.log
        # In the transaction of the ruling: a later snapshot includes what no longer counts.
        stale = [each for each in transaction.snapshots(log) if each > base]
        transaction.forget_snapshots(log, [each for each in stale if each not in snapshots])
        for sequence, data in snapshots.items():
            transaction.save_snapshot(log, sequence, data)
        experiment.rewarded_at = self.experiment.rewarded_at  # a snapshot does not know it
        self.shard.experiment = self.experiment = experiment
        self.shard.snapshot_at = max([base, *snapshots])
        self.snapshot_wanted = True


Command = Callable[[Work], Any]
"""Checks everything, then adds events; returns the answer, or :class:`Later` what works it out. It
may be called again if the transaction is given up, so that it must change nothing but the work. If
it refuses, it raises an :class:`ArmraceError` before it has added an event, or
:class:`KeptRefusal` if the events that it has added are to be kept."""


# --- performing operations --------------------------------------------------------------------

O = TypeVar("O", bound=Operation[Any])  # noqa: E741  # an operation
OnWork = Callable[[Work, O], Any]
InSession = Callable[["Session", O], Any]
Target = tuple[int | str | ArmraceError, Command]
"""A command with the number or the name of its experiment, or with the error that refuses it."""


class Session(NamedTuple):
    """What an operation works with: the engine, on somebody's behalf."""

    engine: Engine
    principal: Principal

    def call(self, where: int | str, command: Command) -> Any:
        """Perform a command on an experiment and return its answer, or raise its refusal."""
        return self.engine.call(where, command, self.principal)

    def log_of(self, name: str) -> int:
        """Return the log of an experiment of the tenant."""
        return self.engine.locate(self.principal.tenant, name)

    def read_token(self, token: object, kind: int = DECISION) -> TokenContent:
        """Return what the signed name of a decision or a lease says, or refuse a forged one."""
        return self.engine.keyring.signing_keys().read(self.principal.tenant, token, kind)


HANDLERS: dict[type[Operation[Any]], Callable[[Session, Any, Deliver], None]] = {}
"""What begins to perform operations of each kind, and hands over their outcome."""


def on_experiment(kind: type[O]) -> Callable[[OnWork[O]], OnWork[O]]:
    """Register what an operation does with the experiment that its ``name`` names."""

    def register(run: OnWork[O]) -> OnWork[O]:
        def begin(session: Session, asked: Any, deliver: Deliver) -> None:
            engine, principal = session
            engine.enqueue_one(asked.name, lambda work: run(work, asked), principal, deliver)

        HANDLERS[kind] = begin
        return run

    return register


def in_background(
    *kinds: type[O], takes_long: bool = True
) -> Callable[[InSession[O]], InSession[O]]:
    """Register what operations do in the background; the others do not wait for long ones."""

    def register(run: InSession[O]) -> InSession[O]:
        def begin(session: Session, asked: Any, deliver: Deliver) -> None:
            session.engine.in_background(lambda: run(session, asked), deliver, takes_long)

        HANDLERS.update(dict.fromkeys(kinds, begin))
        return run

    return register


def as_batch(
    kind: type[O],
    expand: Callable[[Session, O], Sequence[Target]],
    combine: Callable[[O, list[Any]], Any],
) -> None:
    """Register an operation that consists of commands, performed and refused one by one.

    ``combine`` makes the answer of their outcomes.
    """

    def begin(session: Session, asked: Any, deliver: Deliver) -> None:
        def answer(outcomes: list[Any]) -> None:
            # Members have no answer that says that the store has failed. All are sent again.
            failed = next((each for each in outcomes if isinstance(each, STORE_ERRORS)), None)
            try:
                found = failed or combine(asked, outcomes)
            except ArmraceError as refusal:
                found = refusal
            deliver(found)

        session.engine.enqueue(expand(session, asked), session.principal, answer)

    HANDLERS[kind] = begin
