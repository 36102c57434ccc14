"""Operations as an event loop awaits them, with the checks that the server's endpoints make."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from armrace.service.engine import Engine
from armrace.service.http.access import Access, Caller
from armrace.service.operations.inspection import ExportFile
from armrace_client.errors import TooOften
from armrace_client.operations import Operation

T = TypeVar("T")
_MOST_STREAMS = 100
"""How many streams of one key may be open at once."""


class Streams:
    """The event streams of a server: how many of a key may be open, and how they end."""

    def __init__(self, most: int = _MOST_STREAMS) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._closing = asyncio.Event()

    @property
    def closing(self) -> bool:
        """Whether the server stops, so that streams must end."""
        return self._closing.is_set()

    def close(self) -> None:
        """End all streams: their rests are over at once."""
        self._closing.set()

    async def rest(self, seconds: float) -> None:
        """Wait before the next message, but not when the server stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    @contextmanager
    def opened(self, key: str) -> Iterator[None]:
        """Count a stream of a key while it is open, or refuse it."""
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1

    def check(self, key: str) -> None:
        """Refuse another stream of a key that has as many as it may have."""
        if self._open[key] >= self._most:
            raise TooOften(f"streams of one key that are open must be at most {self._most}.")


class Api:
    """Performs operations for visitors, and knows who they are."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self.access, self.streams, self.keyring = access, Streams(), engine.keyring
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._asked: list[tuple[Operation[Any], Caller, asyncio.Future[Any]]] = []
        self._outcomes: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._is_due = False

    async def call(self, caller: Caller, operation: Operation[T]) -> T:
        """Perform an operation and return its answer, or raise its refusal."""
        self.access.check_scope(caller, operation.route.scope, operation.route.operator)
        answer: T = await self.submit(caller, operation)
        return answer

    def submit(self, caller: Caller, operation: Operation[Any]) -> asyncio.Future[Any]:
        """Perform an operation of a caller who may do it; return what its answer is awaited by."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._asked:
            # Not at once: what else has arrived by now goes along, in one transaction.
            loop.call_soon(self._submit_all)
        self._asked.append((operation, caller, future))
        self._waiting += 1
        return future

    def _submit_all(self) -> None:
        asked, self._asked = self._asked, []
        for operation, caller, future in asked:
            try:
                self._engine.submit(operation, caller.principal, partial(self._deliver, future))
            except Exception as error:
                self._deliver(future, error)

    def _deliver(self, future: asyncio.Future[Any], outcome: Any) -> None:
        self._outcomes.append((future, outcome))
        if not self._is_due:  # one call of the loop hands over what comes together
            self._is_due = True
            assert self._loop is not None
            with suppress(RuntimeError):  # the loop was closed without waiting for answers
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        self._is_due = False
        while self._outcomes:
            future, outcome = self._outcomes.popleft()
            self._waiting -= 1
            if future.done():  # its client has gone
                if isinstance(outcome, ExportFile):
                    outcome.folder.cleanup()
            elif isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def drain(self, seconds: float) -> bool:
        """Wait until all operations are answered; return whether they were in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._waiting:
                    await asyncio.sleep(0.01)
        return not self._waiting
