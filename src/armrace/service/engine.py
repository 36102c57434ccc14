"""The engine: operations in, durable answers out.

One thread performs what waits. All operations that wait while a transaction is under way are
performed together in the next one, so that one wait for the disk serves them all: group commit
without a timer. A batch is performed in parts, one in each transaction, so that it does not hold up
what others ask for.

Experiments are loaded when they are first used, by threads of their own: operations on an
experiment that is not loaded wait, and all others are served. What takes long, replays, exports and
audits, runs in the background on copies.

No answer leaves before its transaction has ended, refusals and repeated answers included: they too
rest on records of the log. If a transaction fails, the experiments that it has changed are ahead of
the store. They are thrown away and loaded again. If it was an operation that failed and not the
store, the others are performed again without it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from armrace.errors import (
    ArmraceError,
    DamagedFile,
    Overloaded,
    RequestFailed,
    StoreFailed,
    StoreInUse,
    UnknownName,
)
from armrace.kernels.refusals import NotCompiled, compiling_refused
from armrace.service.background import run_in_background, run_long, run_soon
from armrace.service.keyring import Keyring
from armrace.service.loading import Gone, LogReader, catch_up, check_there, compile_policy
from armrace.service.log.marks import Marks, check_mark, marks_path
from armrace.service.log.snapshots import STEP, outdated
from armrace.service.log.store import Store, Transaction
from armrace.service.log_time import LogTime
from armrace.service.operations import HANDLERS
from armrace.service.work import KeptRefusal, Later, Principal, Shard, Work
from armrace_client.operations import Operation

__all__ = ["Command", "Engine"]

T = TypeVar("T")
Command = Callable[[Work], Any]
"""Checks everything, then adds events; returns the answer, or :class:`Later` what works it out. It
may be called again if the transaction is given up, so that it must change nothing but the work. If
it refuses, it raises an :class:`ArmraceError` before it has added an event, or
:class:`~armrace.service.work.KeptRefusal` if the events that it has added are to be kept."""

_MOST_WAITING = 50_000
"""How many operations may wait; a batch counts by its members."""
_PART_SECONDS = 0.0005
"""How long the part of a batch should keep a transaction busy."""
_FIRST_PART, _WHOLE_PART = 4, 100
_MOST_LOADED = 1000
"""How many experiments are kept in memory, some 25 kB each without open visits."""
_WORTH_SAVING = 500
"""An experiment is saved before it leaves memory if it has had this many events since."""
_CATCH_UP = 2000
"""How many events of other servers are applied within a transaction; more are loaded aside."""
_SNAPSHOT_BYTES = 32 * 2**20
"""How much all snapshots of an experiment may take."""
_MANY_ARMS = 100
_STORE_ERRORS = (DamagedFile, StoreFailed, StoreInUse)
"""Errors that concern all operations of a transaction."""


class _Call:
    """A command on an experiment that waits to be performed."""

    __slots__ = ("command", "job", "log", "name", "place", "principal")

    def __init__(
        self, where: int | str, command: Command, principal: Principal, job: _Job, place: int
    ) -> None:
        self.log, self.name = (where, "") if isinstance(where, int) else (0, where)
        self.command, self.principal = command, principal
        self.job, self.place = job, place


class _Job:
    """Calls whose answers are delivered together."""

    __slots__ = ("calls", "deliver", "left", "outcomes", "part", "taken")

    def __init__(self, deliver: Callable[[list[Any]], None]) -> None:
        self.calls: list[_Call] = []
        self.deliver = deliver
        self.outcomes: list[Any] = []
        self.left = 0
        self.taken = 0
        """How many of the calls were taken from the queue."""
        self.part = _FIRST_PART

    def answer(self, place: int, outcome: Any) -> None:
        self.outcomes[place] = outcome
        self.left -= 1
        if not self.left:
            self.calls = []  # they refer to the job, and would keep copies of states in memory
            self.deliver(self.outcomes)


class _GivenUp(Exception):
    """A transaction must not be kept; the call that is to blame, if one is."""

    def __init__(self, culprit: _Call, error: Exception) -> None:
        super().__init__(str(error))
        self.culprit, self.error = culprit, error


class Engine:
    """Performs operations on the experiments of a store.

    Args:
        store: where the logs are kept.
        keyring: the secrets of the service.
        clock: returns the time in milliseconds.
        most_loaded: how many experiments are kept in memory.
    """

    def __init__(
        self,
        store: Store,
        keyring: Keyring,
        clock: Callable[[], int] | None = None,
        most_loaded: int = _MOST_LOADED,
    ) -> None:
        self.store = store
        self.keyring = keyring
        self.when_failed: Callable[[], None] = lambda: None
        """Called once when the store has failed for good."""
        self.failure: str | None = None
        """Why the store cannot be used any more."""
        self.transactions = 0
        """How many transactions were made since the process began."""
        self.snapshot_step = STEP
        self._secret = keyring.store_secret()
        self._marks = self._open_marks()
        self._log_time = LogTime(clock)
        self._most_loaded = most_loaded
        self._shards: dict[int, Shard] = {}  # the least recently used first
        self._directory: dict[tuple[str, str], int] = {}
        self._parked: dict[int, list[_Call]] = {}
        self._waiting: deque[_Call] = deque()
        self._batches: deque[_Job] = deque()
        self._tasks: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._count = 0
        self._closing = False
        self._is_serving = False
        self._shortest = math.inf
        self._ruling: dict[int, threading.Lock] = {}
        self._loaders = ThreadPoolExecutor(2, "loader")
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # --- asking ---------------------------------------------------------------------------

    def submit(
        self, operation: Operation[Any], principal: Principal, deliver: Callable[[Any], None]
    ) -> None:
        """Perform an operation; hand over its answer, or the error that refuses it.

        Args:
            operation: what to do.
            principal: on whose behalf.
            deliver: called with the outcome once it is durable, in a thread of the service.

        Raises:
            Overloaded: too much waits.
        """
        HANDLERS[type(operation)].begin(self, operation, principal, deliver)

    def perform(self, operation: Operation[T], principal: Principal) -> T:
        """Perform an operation and return its answer once it is durable, or raise its refusal."""
        answer: T = _result(lambda deliver: self.submit(operation, principal, deliver))
        return answer

    def call(self, where: int | str, command: Command, principal: Principal) -> Any:
        """Perform a command on an experiment and return its answer, or raise its refusal.

        Args:
            where: the experiment, by the number of its log or by its name.
            command: what to do.
            principal: on whose behalf.
        """
        return _result(
            lambda deliver: self.enqueue(
                [(where, command)], principal, lambda outcomes: self.finish(outcomes[0], deliver)
            )
        )

    def enqueue(
        self,
        commands: Sequence[tuple[int | str | ArmraceError, Command]],
        principal: Principal,
        deliver: Callable[[list[Any]], None],
    ) -> None:
        """Perform commands on experiments; hand over the outcomes when all are durable.

        Args:
            commands: each with the number or the name of its experiment, or with the error that
                refuses it.
            principal: on whose behalf.
            deliver: called with the outcomes in the order of the commands, in the engine's thread.

        Raises:
            Overloaded: too much waits.
        """
        job = _Job(deliver)
        job.outcomes = [None] * len(commands)
        for place, (where, command) in enumerate(commands):
            if isinstance(where, ArmraceError):
                job.outcomes[place] = where
            else:
                job.calls.append(_Call(where, command, principal, job, place))
        job.left = len(job.calls)
        if not job.left:
            deliver(job.outcomes)
            return
        with self._changed:
            self._check_open()
            if self._count >= _MOST_WAITING:
                raise Overloaded(f"operations that wait must be at most {_MOST_WAITING}.")
            self._count += job.left
            if job.left == 1:
                self._waiting.append(job.calls[0])
                job.taken = 1
            else:
                self._batches.append(job)
            self._changed.notify()

    def finish(self, outcome: Any, deliver: Callable[[Any], None]) -> None:
        """Hand over an outcome; what is left to work out is done in the background first."""
        if not isinstance(outcome, Later):
            deliver(outcome)
            return

        def work() -> None:
            try:
                found = outcome.finish()
            except Exception as error:
                found = _refusal(error)
            deliver(found)

        run_in_background(work)

    def in_background(
        self, work: Callable[[], Any], deliver: Callable[[Any], None], takes_long: bool = True
    ) -> None:
        """Do what may take minutes, or at least waits for the engine; hand over its outcome."""

        def run() -> None:
            try:
                outcome = work()
            except Exception as error:
                self.note_damage(error)
                outcome = _refusal(error)
            deliver(outcome)

        with self._changed:
            self._check_open()
        (run_long if takes_long else run_soon)(run)

    def _check_open(self) -> None:
        if self.failure is not None:
            raise StoreFailed(self.failure)
        if self._closing:
            raise StoreFailed("the service is closed; open it again.")

    @property
    def is_busy(self) -> bool:
        """Whether operations wait or are being performed, which long work lets go first."""
        return self._is_serving or bool(self._waiting)

    def reader(self, log: int) -> LogReader:
        """Return what reads a log beside the engine."""
        return LogReader(self.store, log, self._secret, lambda: self.is_busy)

    @contextmanager
    def ruling(self, log: int) -> Iterator[None]:
        """Make one ruling about an experiment at a time, in this process."""
        with self._changed:
            lock = self._ruling.setdefault(log, threading.Lock())
        with lock:
            yield

    # --- the directory --------------------------------------------------------------------

    def locate(self, tenant: str, name: str) -> int:
        """Return the log of an experiment by its name.

        Raises:
            UnknownName: the tenant has no such experiment.
        """
        log = self._directory.get((tenant, name))
        if log is None:
            with self.store.transaction() as transaction:
                log = transaction.find_log(tenant, name) if isinstance(name, str) else None
            if log is None:
                raise UnknownName.among("experiment", str(name)[:100], self.names(tenant))
            self._directory[tenant, name] = log
        return log

    def names(self, tenant: str) -> list[str]:
        """Return the names of a tenant's experiments in the order of creation."""
        with self.store.transaction() as transaction:
            return [each.name for each in transaction.logs(tenant) if not each.is_deleted]

    def change_directory(self, work: Callable[[Transaction, int], T], creates: bool) -> T:
        """Work on the directory in a transaction of the engine's thread, and return the outcome.

        Args:
            work: takes the transaction and the time.
            creates: whether it may create logs.
        """
        outcome: Future[T] = Future()

        def task() -> None:
            try:
                with self.store.transaction(creates=creates) as transaction:
                    found = work(transaction, self._log_time.now(transaction.time()))
            except BaseException as error:
                self.note_damage(error)
                outcome.set_exception(error)
            else:
                outcome.set_result(found)

        with self._changed:
            self._check_open()
            self._tasks.append(task)
            self._changed.notify()
        return outcome.result()

    def _forget(self, log: int) -> None:
        """Forget an experiment that was deleted, here or by another server."""
        self._shards.pop(log, None)
        self._directory = {key: each for key, each in self._directory.items() if each != log}

    # --- the engine's thread --------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_serving = False
                self._changed.wait_for(self._has_work)
                if self._closing and not (self._waiting or self._batches or self._tasks):
                    return
                self._is_serving = True
                tasks, self._tasks = [*self._tasks], deque()
                calls, batch = self._next()
            for task in tasks:
                task()
            if calls:
                began = time.perf_counter()
                self._serve(calls)
                if batch is not None:
                    self._fit_part(batch, time.perf_counter() - began)

    def _has_work(self) -> bool:
        return bool(self._waiting or self._batches or self._tasks or self._closing)

    def _next(self) -> tuple[list[_Call], _Job | None]:
        """Take all single calls and a part of the first batch, which goes to the end."""
        calls, self._waiting = [*self._waiting], deque()
        if not self._batches:
            return calls, None
        batch = self._batches.popleft()
        # Where nobody else waits, one wait for the disk serves the whole batch.
        part = batch.part if calls or self._batches else _WHOLE_PART
        calls += batch.calls[batch.taken : batch.taken + part]
        batch.taken += part
        if batch.taken < len(batch.calls):
            self._batches.append(batch)
        return calls, batch

    def _fit_part(self, batch: _Job, seconds: float) -> None:
        """Let the next part of a batch take its time, beyond what the shortest one took."""
        self._shortest = min(self._shortest, seconds)
        share = _PART_SECONDS / max(seconds - self._shortest, _PART_SECONDS / 2)
        batch.part = max(1, int(batch.part * share))

    def _serve(self, calls: list[_Call]) -> None:
        """Perform calls on experiments that are loaded; let the others wait for their loader."""
        ready: dict[int, list[_Call]] = {}
        for call in calls:
            if not call.log and not self._resolve(call):
                continue
            if call.log in self._parked:
                self._parked[call.log].append(call)
            elif call.log in self._shards:
                ready.setdefault(call.log, []).append(call)
            else:
                self._load(call.log, [call])
        most = self.store.most_logs or len(ready)
        logs = list(ready)
        for first in range(0, len(logs), max(1, most)):
            self._serve_logs({log: ready[log] for log in logs[first : first + most]})

    def _resolve(self, call: _Call) -> bool:
        """Find the log of a call by its name; return whether there is one, or refuse the call."""
        try:
            call.log = self.locate(call.principal.tenant, call.name)
        except ArmraceError as refusal:
            self.note_damage(refusal)
            self._answer(call, refusal)
        return bool(call.log)

    def _serve_logs(self, ready: dict[int, list[_Call]]) -> None:
        """Perform calls in one transaction; if one breaks it off, the others wait to be loaded."""
        try:
            self._transact(ready)
        except _GivenUp as given_up:
            self._drop(ready)
            prepare = None
            if isinstance(given_up.error, NotCompiled):
                prepare = given_up.error.compile
            else:
                self._answer(given_up.culprit, _refusal(given_up.error))
                ready[given_up.culprit.log].remove(given_up.culprit)
            # They are loaded again, so that what was not kept is forgotten.
            for log, calls in ready.items():
                if calls:
                    self._load(log, calls, prepare)
        except BaseException as error:
            self._drop(ready)
            self.note_damage(error)
            refusal = error if isinstance(error, ArmraceError) else _interrupted(error)
            for call in (each for calls in ready.values() for each in calls):
                # An error each, since tracebacks must not mix.
                self._answer(call, type(refusal)(*refusal.args))

    def _transact(self, ready: dict[int, list[_Call]]) -> None:
        known = {log: self._shards[log].experiment.head.sequence for log in ready}
        outcomes: list[tuple[_Call, Any]] = []
        suspects: list[int] = []
        self.transactions += 1
        with self.store.transaction(known) as transaction, compiling_refused():
            now = self._log_time.now(transaction.time())
            for log, calls in list(ready.items()):
                shard = self._shards[log]
                caught_up = self._catch_up(shard, transaction, calls[0])
                if not caught_up or shard.experiment.is_deleted:
                    self._load(log, ready.pop(log))
                    continue
                work = Work(shard, transaction, _time_of(shard, now), self.keyring.signing_keys())
                work.late_wanted = [c.command.visit for c in calls if hasattr(c.command, "visit")]
                outcomes += [(call, self._perform(call, work, suspects)) for call in calls]
                work.flush()
                if not work.experiment.is_deleted:
                    self._save_snapshot(shard, transaction, work.snapshot_wanted)
        for log in ready:
            shard = self._shards.pop(log)
            if shard.experiment.is_deleted:
                self._forget(log)
            elif log not in suspects:
                self._shards[log] = shard  # the most recently used last
            if self._marks is not None:
                self._marks.move(log, shard.experiment.head, lasting=False)
        self._answer_all(outcomes)
        self._evict()

    def _catch_up(self, shard: Shard, transaction: Transaction, call: _Call) -> bool:
        try:
            return catch_up(shard.experiment, transaction, shard.log, shard.chain, _CATCH_UP)
        except NotCompiled as error:
            raise _GivenUp(call, error) from None

    def _perform(self, call: _Call, work: Work, suspects: list[int]) -> Any:
        """Perform a call; return its answer or the error that refuses it."""
        before, work.principal = work.changes, call.principal
        if work.experiment.is_deleted:  # by a call before this one
            return Gone()
        try:
            return call.command(work)
        except KeptRefusal as kept:
            return kept.refusal
        except NotCompiled as error:
            raise _GivenUp(call, error) from None
        except Exception as error:
            if isinstance(error, _STORE_ERRORS):
                raise
            if work.changes != before:  # what was half performed must not be kept
                raise _GivenUp(call, error) from error
            if not isinstance(error, ArmraceError):
                suspects.append(call.log)
            return _refusal(error)

    def _answer(self, call: _Call, outcome: Any) -> None:
        self._answer_all([(call, outcome)])

    def _answer_all(self, outcomes: Sequence[tuple[_Call, Any]]) -> None:
        with self._changed:
            self._count -= len(outcomes)
        for call, outcome in outcomes:
            # A receiver that fails must not stop the engine.
            with suppress(Exception):
                call.job.answer(call.place, outcome)

    def _drop(self, ready: dict[int, list[_Call]]) -> None:
        """Throw experiments away: they may be ahead of the store."""
        for log in ready:
            self._shards.pop(log, None)

    def note_damage(self, error: BaseException) -> None:
        """Stop for good if the store has failed and cannot recover."""
        is_final = isinstance(error, (StoreFailed, DamagedFile)) and not self.store.recovers
        if is_final and self.failure is None:
            self.failure = str(error)
            self.when_failed()

    # --- loading and leaving --------------------------------------------------------------

    def _load(
        self, log: int, calls: list[_Call], prepare: Callable[[], None] | None = None
    ) -> None:
        """Load an experiment in a thread of its own; the calls wait until it is there.

        Args:
            log: its log.
            calls: what waits for it.
            prepare: what to do first in that thread, such as to compile.
        """
        if log in self._parked:
            self._parked[log] += calls
            return
        self._parked[log] = calls
        try:
            self._loaders.submit(self._loaded, log, prepare)
        except RuntimeError:  # the service is being closed
            self._refuse_parked(log, StoreFailed("the service is closed; open it again."))

    def _loaded(self, log: int, prepare: Callable[[], None] | None) -> None:
        try:
            if prepare is not None:
                prepare()
            shard = self._load_shard(log)
        except Gone:
            self._as_task(lambda: self._leave(log))
        except Exception as error:
            self.note_damage(error)
            refusal = _refusal(error)
            self._as_task(lambda: self._refuse_parked(log, refusal))
        else:
            self._as_task(lambda: self._unpark(shard))

    def _load_shard(self, log: int) -> Shard:
        reader = self.reader(log)
        with self.store.transaction() as transaction:
            if self._marks is not None and (mark := self._marks.get(log)) is not None:
                check_mark(transaction, log, mark)
            check_there(transaction, log)
        experiment, base = reader.load()
        compile_policy(experiment.settings)
        return Shard(log, experiment, self._secret, base)

    def _as_task(self, task: Callable[[], None]) -> None:
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def _unpark(self, shard: Shard) -> None:
        self._shards[shard.log] = shard
        calls = self._parked.pop(shard.log, [])
        with self._changed:
            self._waiting.extendleft(reversed(calls))

    def _refuse_parked(self, log: int, refusal: ArmraceError) -> None:
        for call in self._parked.pop(log, []):
            self._answer(call, refusal)

    def _leave(self, log: int) -> None:
        """Forget an experiment that is not there; its name may be that of another one now."""
        self._forget(log)
        for call in self._parked.pop(log, []):
            if call.name:
                call.log = 0
                with self._changed:
                    self._waiting.append(call)
            else:
                self._answer(call, Gone())

    def _evict(self) -> None:
        """Let the experiments leave memory that were not used for the longest time."""
        while len(self._shards) > self._most_loaded:
            shard = self._shards.pop(next(iter(self._shards)))
            if shard.experiment.head.sequence - shard.snapshot_at >= _WORTH_SAVING:
                self._save_alone(shard)

    def _save_alone(self, shard: Shard) -> None:
        known = {shard.log: shard.experiment.head.sequence}
        with suppress(ArmraceError), self.store.transaction(known) as transaction:
            if transaction.head(shard.log) == shard.experiment.head:
                self._save_snapshot(shard, transaction, wanted=True)

    def _save_snapshot(self, shard: Shard, transaction: Transaction, wanted: bool) -> None:
        experiment, last = shard.experiment, shard.experiment.head.sequence
        if last == shard.snapshot_at or not (wanted or self._needs_snapshot(shard)):
            return
        transaction.save_snapshot(shard.log, last, experiment.save())
        sizes = transaction.snapshots(shard.log)
        stale = outdated(sizes, _SNAPSHOT_BYTES, self.snapshot_step)
        transaction.forget_snapshots(shard.log, stale)
        shard.snapshot_at = last

    def _needs_snapshot(self, shard: Shard) -> bool:
        experiment = shard.experiment
        # Open visits are part of a snapshot, so many of them make snapshots rarer.
        due = max(self.snapshot_step, 2 * len(experiment.open))
        if experiment.head.sequence - shard.snapshot_at < due:
            return False
        # Saving waits for audits, which are short unless there are many arms.
        return not (len(experiment.arms) > _MANY_ARMS and experiment.audits.is_busy)

    def _open_marks(self) -> Marks | None:
        """Return the marks of all logs; kept with the keys, they show that a log was cut."""
        keys = self.keyring.path
        if keys is None or not self.store.name:
            return None
        path, secrets = marks_path(keys, self.store.name), (self._secret,)
        if path.exists() and not self.store.restored:
            return Marks(path, secrets)
        # In a folder that cannot be written, a loss would not be noticed, and all else works.
        return Marks.create(path, secrets) if os.access(path.parent, os.W_OK) else None

    @property
    def loaded(self) -> list[Shard]:
        """The experiments in memory, as they are now."""
        return list(self._shards.values())

    def close(self) -> None:
        """Serve what waits, save experiments for the next start, and close the store."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._loaders.shutdown(cancel_futures=True)
        try:
            if self.failure is None:
                for shard in self.loaded:
                    if shard.experiment.head.sequence - shard.snapshot_at >= _WORTH_SAVING:
                        self._save_alone(shard)
        finally:
            for log in list(self._parked):
                self._refuse_parked(log, StoreFailed("the service is closed; open it again."))
            self._shards.clear()
            if self._marks is not None:
                self._marks.close()
            self.store.close()


def _time_of(shard: Shard, now: int) -> int:
    """Return the time of the next events of an experiment, which never goes back."""
    behind = shard.experiment.time - now - shard.clock_offset
    if behind > 0:
        # From here on time passes as fast as the clock, and does not wait for it.
        shard.clock_offset += behind
    return now + shard.clock_offset


def _refusal(error: Exception) -> ArmraceError:
    return error if isinstance(error, ArmraceError) else RequestFailed.because_of(error)


def _interrupted(error: BaseException) -> StoreFailed:
    return StoreFailed(f"the transaction was interrupted: {type(error).__name__}.")


def _result(submit: Callable[[Callable[[Any], None]], None]) -> Any:
    """Submit something and wait for its outcome."""
    outcome: Future[Any] = Future()
    submit(outcome.set_result)
    found = outcome.result()
    if isinstance(found, ArmraceError):
        raise found
    return found
