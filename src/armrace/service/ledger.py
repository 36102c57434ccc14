"""The ledger: requests in, durable answers out.

All requests that wait while a turn of the store is under way are performed together in the next
one, so that one wait for the disk serves them all: group commit without a timer. One of the
threads that wait leads: it performs what is waiting, for itself and for the others.

No answer leaves before the turn has ended, refusals and repeated answers included: they too rest
on records of this turn. If a turn fails, the state in memory may be ahead of the store. It is
thrown away, and so are all answers. If it was a request that failed and not the store, the others
are performed again without it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Protocol, TypeVar

from armrace.errors import ArmraceError, DamagedFile, RequestFailed, StoreFailed, StoreInUse
from armrace.kernels.refusals import NotCompiled, compiling_refused
from armrace.service.aside import Later, run_aside
from armrace.service.books import Books, KeptRefusal
from armrace.service.folding import catch_up, check_short_log, load_state
from armrace.service.log_time import LogTime
from armrace.service.seal import Seal
from armrace.service.settings import Settings
from armrace.service.state import State, always
from armrace.service.stores.base import Store, Turn
from armrace.service.tokens import SigningKeys
from armrace.service.warming import Warmer, is_warm

__all__ = ["Ledger", "Request"]

_SNAPSHOT_EVENTS = 50_000
_KEPT_SNAPSHOTS = 4
"""A ruling about the past folds from the latest snapshot before it, so that some are kept."""
_MANY_ARMS = 100
_WAIT_SECONDS = 0.5
"""How long a call waits for a compiler before it asks again whether its policy is ready."""


T_co = TypeVar("T_co", covariant=True)


class Request(Protocol[T_co]):
    """Something that is asked of the ledger, and the type of its answer."""

    def perform(self, books: Books) -> T_co | Later[T_co]:
        """Check everything, then add events; return the answer, or what works it out later.

        It is called again if the turn is broken off, by another request for instance. What it has
        done then is not kept, so that it must change nothing but the books.

        A request that is refused raises an :class:`ArmraceError` before it has added an event, or
        :class:`~armrace.service.books.KeptRefusal` if the events that it has added are to be kept.
        """
        ...


_STORE_ERRORS = (DamagedFile, StoreFailed, StoreInUse)
"""Errors that concern all requests of a turn."""


class _Refused:
    """Stands for a request that has broken off a turn."""

    def __init__(self, refusal: ArmraceError) -> None:
        self._refusal = refusal

    def perform(self, books: Books) -> Any:
        raise self._refusal


class _CheckShortLog:
    """Check the log, if that does not take long."""

    def perform(self, books: Books) -> bool:
        return check_short_log(books.flush())


def _refusal(error: Exception) -> ArmraceError:
    return error if isinstance(error, ArmraceError) else RequestFailed.because_of(error)


class _Job:
    __slots__ = ("begun", "done", "error", "outcomes", "requests")

    def __init__(self, requests: Sequence[Request[Any]]) -> None:
        self.requests = requests
        self.outcomes: list[Any] = []
        self.error: BaseException | None = None
        self.begun = False
        """Whether the turn was begun that the thread of this job leads."""
        self.done = False


class Ledger:
    """Performs requests on the state of a store.

    Args:
        store: where the log is kept.
        keys: returns the keys that sign the names of decisions.
        clock: returns the time in milliseconds.
    """

    def __init__(
        self,
        store: Store,
        keys: Callable[[], SigningKeys],
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.store = store
        self._keys = keys
        self._log_time = LogTime(clock)
        self.snapshot_events = _SNAPSHOT_EVENTS
        """How many events are added from one snapshot to the next."""
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._busy = False
        self._state: State | None = None
        self._snapshot_at = 0
        self._failure: str | None = None
        self.seal: Seal | None = None
        """What is moved to the end of the log after every turn."""
        self.is_shared = store.is_shared
        """Whether other processes wait while this one has a turn."""
        self._warmer = Warmer()
        self._culprit: Request[Any] | None = None
        """The request that has broken off the turn."""
        self.turns = 0
        """How many turns were performed since the process began."""
        if self.ask(_CheckShortLog()):
            store.check()
        while self._has_unready:
            self.wait_for_policies()
            # A turn without requests: it folds what was compiled meanwhile.
            self.submit([])

    def ask(self, request: Request[T_co]) -> T_co:
        """Perform a request and return its answer once it is durable, or raise its refusal.

        Args:
            request: what to do.
        """
        (outcome,) = self.submit([request])
        if isinstance(outcome, ArmraceError):
            raise outcome
        answer: T_co = run_aside(outcome.finish).result() if isinstance(outcome, Later) else outcome
        return answer

    def submit(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Perform requests in one turn and return their answers once they are durable.

        Args:
            requests: what to do, in this order.

        Returns:
            For each request its answer, or the error that refuses it.

        Raises:
            StoreFailed: the store failed; whether the requests were performed is not known.
        """
        job, leads = _Job(requests), False
        jobs: list[_Job] = []
        try:
            with self._changed:
                self._waiting.append(job)
                self._changed.wait_for(lambda: job.done or not self._busy)
                # Woken without an answer: the last leader has ended, so that this thread leads.
                if not job.done:
                    leads = self._busy = True
                    jobs.extend(self._waiting)
                    self._waiting.clear()
            if leads:
                self._perform(jobs, job)
        finally:
            if leads:
                self._end_lead(jobs, job)
        if job.error is not None:
            raise job.error
        return job.outcomes

    def _end_lead(self, jobs: list[_Job], own: _Job) -> None:
        """Let others lead, even if Ctrl-C has interrupted this thread between two statements."""
        with self._changed:
            left = [job for job in jobs if not job.done and job is not own]
            if own.begun:  # the turn may have been kept, so that it must not be taken again
                for job in left:
                    job.error, job.done = _for_others(KeyboardInterrupt()), True
            else:
                waiting = [job for job in self._waiting if job not in left]
                self._waiting = deque(left + waiting)
            self._let_others_lead()

    def _let_others_lead(self) -> None:
        with self._changed:
            self._busy = False
            self._changed.notify_all()

    def _perform(self, jobs: list[_Job], own: _Job) -> None:
        try:
            own.begun = True
            # A store that has failed and cannot recover may hold less than what was answered.
            if self._failure is not None:
                raise StoreFailed(self._failure)
            outcomes = self._take_turns([job.requests for job in jobs])
        except BaseException as error:
            self._give_up(error)
            for job in jobs:
                # An interruption such as Ctrl-C is for the leading thread alone.
                job.error = error if job is own else _for_others(error)
                job.done = True
            return
        for job, found in zip(jobs, outcomes, strict=True):
            job.outcomes, job.done = found, True

    @contextmanager
    def stopped_by_damage(self) -> Iterator[None]:
        """Let damage that is found beside turns stop the service as if a turn had found it."""
        try:
            yield
        except DamagedFile as error:
            if not self.store.recovers:
                self._failure = str(error)
            raise

    def _take_turns(self, batches: list[Sequence[Request[Any]]]) -> list[list[Any]]:
        """Take a turn, and another one for the other requests if one of them breaks it off."""
        while True:
            self._wake_compiled()
            try:
                outcomes = self._take_turn(batches)
            except NotCompiled as needed:
                # A policy whose later states are of other types, for instance. The turn has not
                # been kept, and is taken again.
                self._give_up(needed)
                needed.compile()
            except Exception as error:
                culprit = self._culprit
                if culprit is None or isinstance(error, _STORE_ERRORS):
                    raise
                self._give_up(error)
                refused = _Refused(_refusal(error))
                batches = [[refused if r is culprit else r for r in each] for each in batches]
            else:
                self._compile_dormant()
                return outcomes

    def _compile_dormant(self) -> None:
        """Begin to compile what experiments of other servers need."""
        state = self._state
        if state is not None:
            for each in state.dormant.values():
                self._warmer.want(each.settings)

    def _wake_compiled(self) -> None:
        """Fold what was kept of experiments whose policies are compiled by now.

        Between turns, so that no other server waits for it.
        """
        state = self._state
        if state is None or not state.dormant:
            return
        for each in list(state.dormant.values()):
            failure = self._warmer.failure(each.settings)
            if each.has_failed or not (is_warm(each.settings) or failure):
                continue
            try:
                experiment = None if failure else each.wake()
            except DamagedFile:
                raise
            except Exception as error:  # a policy of the user's own may raise anything
                failure = error
            if failure is not None:
                each.fail(failure)
            elif experiment is None:  # the next turn reads the log again
                self._state = None
                return
            else:
                state.replace(experiment)

    def wait_for_policies(self) -> None:
        """Wait some time while the policies of other servers' experiments are compiled."""
        self._warmer.wait(_WAIT_SECONDS)

    def _give_up(self, error: BaseException) -> None:
        """Throw the state away: it may be ahead of the store."""
        self._state = self._culprit = None
        if isinstance(error, (StoreFailed, DamagedFile)) and not self.store.recovers:
            self._failure = str(error)

    def _take_turn(self, batches: list[Sequence[Request[Any]]]) -> list[list[Any]]:
        with self._turn() as turn:
            outcomes = self._perform_in(turn, batches)
        if self.seal is not None and self._state is not None:
            self.seal.move(self._state.head)
        return outcomes

    @contextmanager
    def _turn(self) -> Iterator[Turn]:
        """Take a turn of the store; if others wait for it, nothing is compiled meanwhile."""
        with (
            self.store.turn() as turn,
            compiling_refused() if self.is_shared else nullcontext(),
        ):
            yield turn

    def _perform_in(self, turn: Turn, batches: list[Sequence[Request[Any]]]) -> list[list[Any]]:
        """Perform requests on the state at the end of the log."""
        self.turns += 1
        self._culprit = None
        state = self._current(turn)
        books = Books(state, turn, self._time(turn, state.time), self._keys())
        books.batches = batches
        outcomes = [[self._answer(each, books) for each in batch] for batch in batches]
        self._conclude(books)
        books.flush()
        # Last, and in the same transaction: a snapshot must end where the log ends.
        self._save_snapshot(state, turn, books.snapshot_wanted)
        return outcomes

    def _answer(self, request: Request[Any], books: Books) -> Any:
        """Perform a request; return its answer or the error that refuses it."""
        before = books.changes
        try:
            return request.perform(books)
        except KeptRefusal as kept:
            return kept.refusal
        except ArmraceError as refusal:
            if books.changes == before and not isinstance(refusal, _STORE_ERRORS):
                return refusal
            self._culprit = request  # a request that was half performed must not be kept
            raise
        except Exception:
            self._culprit = request
            raise

    def _time(self, turn: Turn, last: int) -> int:
        """Return the time of events that follow an event of the time ``last``."""
        return self._log_time.after(last, turn.time())

    def _conclude(self, books: Books) -> None:
        """Do what follows the requests of a turn."""

    def _current(self, turn: Turn) -> State:
        if self._state is None:
            self._state = load_state(turn, is_warm if self.is_shared else always)
            # Another server may have saved the latest one.
            self._snapshot_at = max(turn.snapshots(), default=0)
        else:
            self._state = catch_up(self._state, turn)
        return self._state

    def _save_snapshot(self, state: State, turn: Turn, wanted: bool) -> None:
        if not (wanted or self._needs_snapshot(state)) or state.head.sequence == self._snapshot_at:
            return
        if state.dormant:
            return
        if state.head != turn.head:
            raise DamagedFile("the state in memory does not end where the log ends.")
        turn.save_snapshot(state.head.sequence, state.save())
        turn.forget_snapshots(turn.snapshots()[:-_KEPT_SNAPSHOTS])
        self._snapshot_at = state.head.sequence

    def _needs_snapshot(self, state: State) -> bool:
        if state.dormant:  # not all of the state is there; another server saves one
            return False
        # Open decisions are part of a snapshot, so many of them make snapshots rarer.
        due = max(self.snapshot_events, 2 * state.open_decisions())
        if state.head.sequence - self._snapshot_at < due:
            return False
        # Saving waits for audits, which are short unless there are many arms.
        many = (each for each in state.experiments if len(each.arms) > _MANY_ARMS)
        return not any(each.audits.is_busy for each in many)

    @property
    def _has_unready(self) -> bool:
        state = self._state
        return state is not None and not all(each.has_failed for each in state.dormant.values())

    @property
    def sequence(self) -> int:
        """How many records this process knows of."""
        state = self._state
        return 0 if state is None else state.head.sequence

    @property
    def open_decisions(self) -> int:
        """How many decisions of all experiments are open, as far as this process knows."""
        state = self._state
        return 0 if state is None else state.open_decisions()

    def all_settings(self) -> list[Settings]:
        """Return the settings of all experiments that can be used in this process."""
        state = self._state
        known = [] if state is None else state.experiments
        return [each.settings for each in known if not each.is_dormant]

    @property
    def failure(self) -> str | None:
        """Why the store cannot be used any more."""
        return self._failure

    def close(self) -> None:
        """Save a snapshot, so that the next start is fast, and close the store."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy)
            self._busy = True
        try:
            if self._failure is None and self._state is not None:
                with suppress(NotCompiled), self._turn() as turn:
                    self._save_snapshot(self._current(turn), turn, wanted=True)
        except StoreFailed as error:
            self._failure = str(error)
            raise
        finally:
            self._warmer.close()
            # Set before others may lead: those that still wait are refused with it.
            self._failure = self._failure or "the service is closed; open it again."
            self._state = None
            try:
                if self.seal is not None:
                    self.seal.close()
                    self.seal = None
            finally:
                try:
                    self.store.close()
                finally:
                    self._let_others_lead()


def _for_others(error: BaseException) -> ArmraceError:
    """Return the error for requests that waited on a thread that failed."""
    if isinstance(error, ArmraceError):
        return error
    return StoreFailed(f"the turn was interrupted: {type(error).__name__}.")
