"""Group commit for an event loop: what arrives while one turn is written is the next turn.

A batch is performed in parts, one in each turn, so that it does not hold up what others ask for.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from armrace.errors import ArmraceError, RequestFailed
from armrace.service.aside import Later, run_aside
from armrace.service.http.problems import Overloaded
from armrace.service.ledger import Ledger, Request

__all__ = ["Front"]

T = TypeVar("T")
_Outcomes = list[list[Any] | BaseException]
"""For each member of a turn the answers, or what has kept it from being performed."""
_MOST_WAITING = 50_000
"""How many requests may wait while a turn is under way; a batch counts by its members."""


_PART_SECONDS = 0.0005
"""How long the part of a batch should keep a turn busy."""
_FIRST_PART = 4


class _Waiting:
    """Requests that wait, and what became of those that were performed."""

    __slots__ = ("answer", "outcomes", "part", "requests")

    def __init__(self, requests: Sequence[Request[Any]], answer: asyncio.Future[list[Any]]) -> None:
        self.requests = requests
        self.answer = answer
        self.outcomes: list[Any] = []
        self.part = len(requests) if len(requests) == 1 else _FIRST_PART

    @property
    def next_part(self) -> Sequence[Request[Any]]:
        """What is performed in the next turn."""
        done = len(self.outcomes)
        return self.requests[done : done + self.part]


class Front:
    """Hands requests of many connections to the ledger, together.

    One thread performs them. While it works, the event loop reads what arrives, and hands it over
    when the thread is free.

    Args:
        ledger: performs the requests.
        most_waiting: how many requests may wait.
    """

    def __init__(self, ledger: Ledger, most_waiting: int = _MOST_WAITING) -> None:
        self.ledger = ledger
        self._most_waiting = most_waiting
        self._waiting: list[_Waiting] = []
        self._waiting_count = 0
        self._busy = False
        self._free = asyncio.Event()
        self._free.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batches: SimpleQueue[list[_Waiting] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._shortest_turn = math.inf

    async def ask(self, request: Request[T]) -> T:
        """Perform a request; raise its refusal."""
        outcome = (await self.submit((request,)))[0]
        if isinstance(outcome, ArmraceError):
            raise outcome
        if isinstance(outcome, Later):
            outcome = await asyncio.wrap_future(run_aside(outcome.finish))
        answer: T = outcome
        return answer

    def submit(self, requests: Sequence[Request[Any]]) -> asyncio.Future[list[Any]]:
        """Perform requests; as :meth:`armrace.service.Ledger.submit`, to be awaited."""
        loop = self._loop = asyncio.get_running_loop()
        if self._waiting_count >= self._most_waiting:
            raise Overloaded(f"requests that wait must be at most {self._most_waiting}.")
        answer: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append(_Waiting(requests, answer))
        self._waiting_count += len(requests)
        if not self._busy:
            self._busy = True
            self._start()
            self._free.clear()
            # Not at once: what else has arrived by now goes along.
            loop.call_soon(self._hand_over)
        return answer

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="ledger", daemon=True)
            self._thread.start()

    def _hand_over(self) -> None:
        if self._waiting:
            singles = [each for each in self._waiting if len(each.requests) <= 1]
            batches = [each for each in self._waiting if len(each.requests) > 1]
            self._waiting, turn = batches[1:], singles + batches[:1]
            self._waiting_count = sum(len(e.requests) - len(e.outcomes) for e in self._waiting)
            self._batches.put(turn)
        else:
            self._busy = False
            self._free.set()

    def _work(self) -> None:
        """Perform batches, in a thread of its own."""
        while (batch := self._batches.get()) is not None:
            began = time.perf_counter()
            outcomes = self._perform([each.next_part for each in batch])
            self._fit_part(batch[-1], time.perf_counter() - began)
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(self._answer, batch, outcomes)
            except RuntimeError:  # the loop was closed without waiting for answers
                return

    def _fit_part(self, last: _Waiting, seconds: float) -> None:
        """Let the next part of a batch, which is the last of its turn, take its time."""
        self._shortest_turn = min(self._shortest_turn, seconds)
        share = _PART_SECONDS / max(seconds - self._shortest_turn, _PART_SECONDS / 2)
        last.part = max(1, int(last.part * share))

    def _perform(self, members: list[Sequence[Request[Any]]]) -> _Outcomes:
        """Perform members together: all fail if the turn does."""
        try:
            found = self.ledger.submit([one for requests in members for one in requests])
        except ArmraceError as error:
            # An error each, since tracebacks must not mix.
            return [type(error)(*error.args) for _ in members]
        except BaseException as error:
            return [error for _ in members]
        outcomes: _Outcomes = []
        place = 0
        for requests in members:
            outcomes.append(found[place : place + len(requests)])
            place += len(requests)
        return outcomes

    def _answer(self, batch: list[_Waiting], outcomes: _Outcomes) -> None:
        for member, outcome in zip(batch, outcomes, strict=True):
            answer = member.answer
            if isinstance(outcome, list):
                member.outcomes += outcome
            if answer.done():  # its client has gone
                pass
            elif isinstance(outcome, BaseException):
                refused = isinstance(outcome, ArmraceError)
                answer.set_exception(outcome if refused else RequestFailed.because_of(outcome))
            elif len(member.outcomes) < len(member.requests):
                self._waiting.append(member)
            else:
                answer.set_result(member.outcomes)
        self._hand_over()

    async def close(self, seconds: float | None = None) -> bool:
        """Wait until everything that was submitted is answered.

        Args:
            seconds: how long to wait at most; by default as long as it takes.

        Returns:
            Whether everything was answered in time.
        """
        # The thread is joined only when it is free: a database that says nothing must not keep the
        # process from ending.
        try:
            await asyncio.wait_for(self._free.wait(), seconds)
        except TimeoutError:
            return False
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
            self._thread = None
        return True
