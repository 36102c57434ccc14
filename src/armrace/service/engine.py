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

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from armrace.errors import (
    ArmraceError,
    DamagedFile,
    InvalidParameter,
    Overloaded,
    RequestFailed,
    StoreFailed,
    UnknownName,
)
from armrace.kernels.compiling import NotCompiled, compiling_refused
from armrace.service.background import (
    in_helper,
    run_in_background,
    run_long,
    run_soon,
)
from armrace.service.keyring import Keyring
from armrace.service.loading import (
    STEP,
    Gone,
    LogReader,
    catch_up,
    check_there,
    compile_policy,
    in_parts,
    outdated,
)
from armrace.service.log.marks import Marks, check_mark, marks_path
from armrace.service.log.store import Store, Transaction, in_transaction
from armrace.service.model.settings import Settings
from armrace.service.operations import HANDLERS
from armrace.service.work import (
    STORE_ERRORS,
    Command,
    Deliver,
    KeptRefusal,
    Later,
    LogTime,
    Principal,
    Session,
    Shard,
    Target,
    Work,
)
from armrace.specification import is_importable
from armrace_client.operations import Operation

T = TypeVar("T")
_MOST_WAITING = 50_000
"""How many operations may wait; a batch counts by its members."""
_PART_SECONDS, _ALONE_SECONDS = 0.0005, 0.004
"""How long the part of a batch may keep the engine from others: if they wait, and if none does."""
_CHEAP = 0.0001
"""Up to so much processor time of a call, a wait for the disk is worth sparing for a batch."""
_COST = 0.00004
"""The processor time of a call, in seconds, as long as none of its kind was measured."""
_MOST_COSTS = 1000
_WORTH_SAVING = 500
"""An experiment is saved when it leaves memory if it has had this many events since."""
_CATCH_UP = 2000
"""How many events of other servers are applied within a transaction; more are loaded anew."""
_SNAPSHOT_BYTES = 32 * 2**20
"""How much all snapshots of an experiment may take."""
_MANY_ARMS = 100
_WORTH_HELP = 5_000
"""So many records take longer than it takes to send copies to a helper."""
_CLOSED = "the service is closed; open it again."


@dataclass(slots=True, eq=False)
class _Call:
    """A command on an experiment that waits to be performed."""

    where: int | str
    """The experiment, by the number of its log or by its name."""
    command: Command
    principal: Principal
    job: _Job
    place: int
    log: int = 0
    """The log of the experiment, once it is looked for."""


@dataclass(slots=True, eq=False)
class _Job:
    """Calls whose answers are delivered together."""

    deliver: Deliver
    outcomes: list[Any]
    kind: Any = None
    """What batches have in common whose calls cost alike: the command, and the experiment."""
    calls: list[_Call] = field(default_factory=list)
    left: int = 0
    taken: int = 0
    """How many calls of a batch were taken from the queue."""

    def answer(self, place: int, outcome: Any) -> None:
        self.outcomes[place] = outcome
        self.left -= 1
        if not self.left:
            self.calls = []  # they refer to the job, and would keep copies of states in memory
            self.deliver(self.outcomes)


class _GivenUp(Exception):
    """A transaction must not be kept: the call that is to blame, and its error."""


class Engine:
    """Performs operations on the experiments of a store.

    Args:
        store: where the logs are kept.
        keyring: the secrets of the service.
        clock: returns the time in milliseconds.
        most_loaded: how many experiments are kept in memory, some 25 kB each without open visits.
    """

    def __init__(
        self, store: Store, keyring: Keyring, clock: Callable[[], int] | None, most_loaded: int
    ) -> None:
        self.store, self.keyring = store, keyring
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
        self._costs: dict[Any, float] = {}
        self._ruling: dict[int, threading.Lock] = {}
        self._loaders = ThreadPoolExecutor(2, "loader")
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    # --- asking ---------------------------------------------------------------------------

    def submit(self, operation: Operation[Any], principal: Principal, deliver: Deliver) -> None:
        """Perform an operation; hand over its answer once it is durable, or what refuses it.

        That happens in a thread of the service.
        """
        if not isinstance(name := getattr(operation, "name", ""), str):
            raise InvalidParameter(f"name must be text; got {name!r:.100}.")  # not a log's number
        HANDLERS[type(operation)](Session(self, principal), operation, deliver)

    def gathering(self) -> AbstractContextManager[Any]:
        """Keep the engine from beginning with what is submitted, so that it takes all together."""
        return self._changed

    def perform(self, operation: Operation[T], principal: Principal) -> T:
        """Perform an operation and return its answer once it is durable, or raise its refusal."""
        answer: T = _result(partial(self.submit, operation, principal))
        return answer

    def call(self, where: int | str, command: Command, principal: Principal) -> Any:
        """Perform a command on an experiment and return its answer, or raise its refusal."""
        return _result(partial(self.enqueue_one, where, command, principal))

    def enqueue_one(
        self, where: int | str, command: Command, principal: Principal, deliver: Deliver
    ) -> None:
        """Perform a command; what it leaves to work out is done in the background."""

        def finish(outcomes: list[Any]) -> None:
            if isinstance(outcome := outcomes[0], Later):
                run_in_background(lambda: deliver(self._outcome(outcome.finish)))
            else:
                deliver(outcome)

        self.enqueue([(where, command)], principal, finish)

    def enqueue(self, commands: Sequence[Target], principal: Principal, deliver: Deliver) -> None:
        """Perform commands on experiments; hand over the outcomes when all are durable.

        They are in the order of the commands, and handed over in the engine's thread.
        """
        job = _Job(deliver, [None] * len(commands))
        for place, (where, command) in enumerate(commands):
            if isinstance(where, ArmraceError):
                job.outcomes[place] = where
            else:
                job.calls.append(_Call(where, command, principal, job, place))
        job.left = len(job.calls)
        if job.left > 1:
            first = job.calls[0]
            job.kind = (type(first.command), first.principal.tenant, first.where)
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
            else:
                self._batches.append(job)
            self._changed.notify()

    def in_background(self, work: Callable[[], Any], deliver: Deliver, takes_long: bool) -> None:
        """Do what may take minutes, or at least waits for the engine; hand over its outcome."""
        with self._changed:
            self._check_open()
        (run_long if takes_long else run_soon)(lambda: deliver(self._outcome(work)))

    def _outcome(self, work: Callable[[], Any]) -> Any:
        """Do work; return what it returns, or the error that refuses it."""
        try:
            return work()
        except Exception as error:
            self.note_damage(error)
            return _refusal(error)

    def _check_open(self) -> None:
        if self.failure is not None:
            raise StoreFailed(self.failure)
        if self._closing:
            raise StoreFailed(_CLOSED)

    def reader(self, log: int) -> LogReader:
        """Return what reads a log beside the engine."""
        return LogReader(partial(partial, in_transaction, self.store), log, self._secret)

    def work_out(
        self, records: int, settings: Settings | None, work: Callable[..., T], *arguments: Any
    ) -> T:
        """Return what a function returns, which works on copies and is about so many records.

        If that takes long, a helper calls it, which knows the policy of the settings.
        """
        policy = None if settings is None else settings.make_policy()
        if records < _WORTH_HELP or not (policy is None or is_importable(policy)):
            return work(*arguments)
        return in_helper(partial(in_transaction, self.store), policy, work, *arguments)

    def ruling(self, log: int) -> threading.Lock:
        """Return what is held to make one ruling about an experiment at a time, in this process."""
        with self._changed:
            return self._ruling.setdefault(log, threading.Lock())

    # --- the directory --------------------------------------------------------------------

    def locate(self, tenant: str, name: str) -> int:
        """Return the log of an experiment by its name."""
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

        The work takes the transaction, which may create logs if that is asked for, and the time.
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
                self._changed.wait_for(lambda: self._has_work() or self._closing)
                if not self._has_work():
                    return
                tasks, self._tasks = [*self._tasks], deque()
                calls, batch = self._next()
            for task in tasks:
                task()
            if calls:
                began = time.thread_time()
                self._serve(calls)
                if batch is not None:
                    self._note_cost(batch, (time.thread_time() - began) / len(calls))

    def _has_work(self) -> bool:
        return bool(self._waiting or self._batches or self._tasks)

    def _next(self) -> tuple[list[_Call], _Job | None]:
        """Take all single calls and a part of the first batch, which goes to the end."""
        calls, self._waiting = [*self._waiting], deque()
        if not self._batches:
            return calls, None
        batch = self._batches.popleft()
        cost = self._costs.get(batch.kind, _COST)
        # Where nobody else waits, one wait for the disk serves more of the batch.
        alone = not (calls or self._batches) and cost <= _CHEAP
        part = max(1, int((_ALONE_SECONDS if alone else _PART_SECONDS) / cost))
        calls += batch.calls[batch.taken : batch.taken + part]
        batch.taken += part
        if batch.taken < len(batch.calls):
            self._batches.append(batch)
        return calls, batch

    def _note_cost(self, batch: _Job, seconds: float) -> None:
        """Take note of what a call costs, for the next part of this batch and of those like it."""
        if len(self._costs) >= _MOST_COSTS:
            self._costs.clear()
        # Halved at most, since one batch may name a thousand eligible arms and the next one none.
        self._costs[batch.kind] = max(seconds, self._costs.get(batch.kind, 0.0) / 2, 1e-6)

    def _serve(self, calls: list[_Call]) -> None:
        """Perform calls on experiments that are loaded; let the others wait for their loader."""
        ready: dict[int, list[_Call]] = {}
        for call in calls:
            where, tenant = call.where, call.principal.tenant
            try:
                call.log = where if isinstance(where, int) else self.locate(tenant, where)
            except ArmraceError as refusal:
                self.note_damage(refusal)
                self._answer(call, refusal)
                continue
            if call.log in self._shards and call.log not in self._parked:
                ready.setdefault(call.log, []).append(call)
            else:
                self._load(call.log, [call])
        for logs in in_parts(ready, self.store.most_logs or len(ready)):
            self._serve_logs({log: ready[log] for log in logs})

    def _serve_logs(self, ready: dict[int, list[_Call]]) -> None:
        """Perform calls in one transaction; if one breaks it off, the others wait to be loaded."""
        try:
            self._transact(ready)
        except (NotCompiled, _GivenUp) as given_up:
            self._drop(ready)
            if isinstance(given_up, NotCompiled):
                prepare = given_up.compile
            else:
                (culprit, error), prepare = given_up.args, None
                self._answer(culprit, _refusal(error))
                ready[culprit.log].remove(culprit)
            # They are loaded again, so that what was not kept is forgotten.
            for log, calls in ready.items():
                if calls:
                    self._load(log, calls, prepare)
        except BaseException as error:
            self._drop(ready)
            self.note_damage(error)
            words = f"the transaction was interrupted: {type(error).__name__}."
            refusal = error if isinstance(error, ArmraceError) else StoreFailed(words)
            for call in (each for calls in ready.values() for each in calls):
                # An error each, since tracebacks must not mix.
                self._answer(call, type(refusal)(*refusal.args))

    def _transact(self, ready: dict[int, list[_Call]]) -> None:
        known = {log: self._shards[log].experiment.head.sequence for log in ready}
        outcomes: list[tuple[_Call, Any]] = []
        suspects: list[int] = []
        left: dict[int, list[_Call]] = {}
        self.transactions += 1
        with self.store.transaction(known) as transaction, compiling_refused():
            now = self._log_time.now(transaction.time())
            for log, calls in list(ready.items()):
                shard = self._shards[log]
                experiment, chain = shard.experiment, shard.chain
                caught_up = catch_up(experiment, transaction, log, chain, _CATCH_UP)
                if not caught_up or experiment.is_deleted:
                    self._load(log, ready.pop(log))
                    continue
                work = Work(shard, transaction, _time_of(shard, now), self.keyring.signing_keys())
                work.late_wanted = [c.command.visit for c in calls if hasattr(c.command, "visit")]
                performed = [
                    (call, self._perform(call, work, suspects))
                    for call in calls
                    if not work.experiment.is_deleted  # by a call before this one
                ]
                outcomes += performed
                left[log] = calls[len(performed) :]
                work.flush()
                if not work.experiment.is_deleted:
                    self._save_snapshot(shard, transaction, work.snapshot_wanted)
        for log in ready:
            shard = self._shards.pop(log)
            if shard.experiment.is_deleted:
                self._forget(log)
                if left[log]:
                    self._load(log, left[log])  # finds that it is gone, and looks the name up
            elif log not in suspects:
                self._shards[log] = shard  # the most recently used last
            if self._marks is not None:
                self._marks.move(log, shard.experiment.head, lasting=False)
        self._answer_all(outcomes)
        while len(self._shards) > self._most_loaded:
            self._save_alone(self._shards.pop(next(iter(self._shards))))

    def _perform(self, call: _Call, work: Work, suspects: list[int]) -> Any:
        """Perform a call; return its answer or the error that refuses it."""
        before, work.principal = work.changes, call.principal
        try:
            return call.command(work)
        except KeptRefusal as kept:
            return kept.refusal
        except (NotCompiled, *STORE_ERRORS):
            raise
        except Exception as error:
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

        There, something may be prepared first, such as compiled.
        """
        if log in self._parked:
            self._parked[log] += calls
            return
        self._parked[log] = calls
        try:
            self._loaders.submit(self._loaded, log, prepare)
        except RuntimeError:  # the service is being closed
            self._refuse_parked(log, StoreFailed(_CLOSED))

    def _loaded(self, log: int, prepare: Callable[[], None] | None) -> None:
        task: Callable[[], None]
        try:
            if prepare is not None:
                prepare()
            task = partial(self._unpark, self._load_shard(log))
        except Exception as error:
            self.note_damage(error)
            task = partial(self._refuse_parked, log, _refusal(error))
        with self._changed:
            self._tasks.append(task)
            self._changed.notify()

    def _load_shard(self, log: int) -> Shard:
        # Read before the log: other servers may share the keys, and move the mark on meanwhile.
        mark = None if self._marks is None else self._marks.get(log)
        with self.store.transaction() as transaction:
            if mark is not None:
                check_mark(transaction, log, mark)
            check_there(transaction, log)
        experiment, base = self.reader(log).load()
        compile_policy(experiment.settings)
        return Shard(log, experiment, self._secret, base)

    def _unpark(self, shard: Shard) -> None:
        self._shards[shard.log] = shard
        calls = self._parked.pop(shard.log, [])
        with self._changed:
            self._waiting.extendleft(reversed(calls))

    def _refuse_parked(self, log: int, refusal: ArmraceError) -> None:
        is_gone = isinstance(refusal, Gone)
        if is_gone:
            self._forget(log)
        for call in self._parked.pop(log, []):
            if is_gone and isinstance(call.where, str):  # it may be the name of another one now
                with self._changed:
                    self._waiting.append(call)
            else:
                self._answer(call, refusal)

    def _save_alone(self, shard: Shard) -> None:
        """Save an experiment that leaves memory, if much has happened since it was saved."""
        last = shard.experiment.head.sequence
        if last - shard.snapshot_at < _WORTH_SAVING:
            return
        known = {shard.log: last}
        with suppress(ArmraceError), self.store.transaction(known) as transaction:
            if transaction.head(shard.log) == shard.experiment.head:
                self._save_snapshot(shard, transaction, wanted=True)

    def _save_snapshot(self, shard: Shard, transaction: Transaction, wanted: bool) -> None:
        experiment, last = shard.experiment, shard.experiment.head.sequence
        # Open visits and arms make snapshots large, so many of them make snapshots rarer: to save
        # 10,000 arms takes a tenth of a second, and nobody else is served meanwhile.
        arms = len(experiment.arms)
        has_many = arms > _MANY_ARMS
        step = max(self.snapshot_step, 2 * len(experiment.open), 10 * arms * has_many)
        is_due = last - shard.snapshot_at >= step
        # Saving waits for audits, which are short unless there are many arms.
        waits = is_due and has_many and experiment.audits.is_busy
        if last == shard.snapshot_at or not (wanted or (is_due and not waits)):
            return
        transaction.save_snapshot(shard.log, last, experiment.save())
        sizes = transaction.snapshots(shard.log)
        stale = outdated(sizes, _SNAPSHOT_BYTES, self.snapshot_step)
        transaction.forget_snapshots(shard.log, stale)
        shard.snapshot_at = last

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
                    self._save_alone(shard)
        finally:
            for log in list(self._parked):
                self._refuse_parked(log, StoreFailed(_CLOSED))
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


def _result(submit: Callable[[Deliver], None]) -> Any:
    """Submit something and wait for its outcome."""
    outcome: Future[Any] = Future()
    submit(outcome.set_result)
    found = outcome.result()
    if isinstance(found, ArmraceError):
        raise found
    return found
