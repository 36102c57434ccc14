"""Group commit for an event loop: what arrives while one turn is written is the next turn."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from queue import SimpleQueue
from typing import Any, TypeVar

from armrace.errors import ArmraceError, StoreFailed
from armrace.service.ledger import Ledger, Request

__all__ = ["Front"]

T = TypeVar("T")
_Waiting = tuple[Sequence[Request[Any]], "asyncio.Future[list[Any]]"]


class Front:
    """Hands requests of many connections to the ledger, together.

    One thread performs them. While it works, the event loop reads what arrives, and hands it over
    when the thread is free.

    Args:
        ledger: performs the requests.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._waiting: list[_Waiting] = []
        self._busy = False
        self._free = asyncio.Event()
        self._free.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._batches: SimpleQueue[list[_Waiting] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    async def ask(self, request: Request[T]) -> T:
        """Perform a request; raise its refusal."""
        outcome = (await self.submit((request,)))[0]
        if isinstance(outcome, ArmraceError):
            raise outcome
        answer: T = outcome
        return answer

    def submit(self, requests: Sequence[Request[Any]]) -> asyncio.Future[list[Any]]:
        """Perform requests; as :meth:`armrace.service.Ledger.submit`, to be awaited."""
        loop = self._loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        self._waiting.append((requests, answer))
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
            batch, self._waiting = self._waiting, []
            self._batches.put(batch)
        else:
            self._busy = False
            self._free.set()

    def _work(self) -> None:
        """Perform batches, in a thread of its own."""
        while (batch := self._batches.get()) is not None:
            outcomes: list[Any] | BaseException
            try:
                outcomes = self.ledger.submit([one for requests, _ in batch for one in requests])
            except BaseException as error:
                outcomes = error
            assert self._loop is not None
            try:
                self._loop.call_soon_threadsafe(self._answer, batch, outcomes)
            except RuntimeError:  # the loop was closed without waiting for answers
                return

    def _answer(self, batch: list[_Waiting], outcomes: list[Any] | BaseException) -> None:
        self._hand_over()
        place = 0
        for requests, answer in batch:
            following = place + len(requests)
            if answer.done():  # its client has gone
                pass
            elif isinstance(outcomes, BaseException):
                answer.set_exception(_own(outcomes))
            else:
                answer.set_result(outcomes[place:following])
            place = following

    async def close(self) -> None:
        """Wait until everything that was submitted is answered."""
        await self._free.wait()
        if self._thread is not None:
            self._batches.put(None)
            self._thread.join()
            self._thread = None


def _own(error: BaseException) -> BaseException:
    """Return an error for one request of several, whose tracebacks must not mix."""
    if isinstance(error, ArmraceError):
        return type(error)(*error.args)
    return StoreFailed(f"the turn was interrupted: {type(error).__name__}.")
