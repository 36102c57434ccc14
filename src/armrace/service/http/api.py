"""Operations as an event loop awaits them, with the checks that the server's endpoints make."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from armrace.service.engine import Engine
from armrace.service.http.access import Access, Visitor
from armrace.service.http.streams import Streams
from armrace.service.operations.inspection import ExportFile
from armrace_client.operations import Operation

__all__ = ["Api", "Visitor"]

T = TypeVar("T")


class Api:
    """Performs operations for visitors, and knows who they are."""

    def __init__(self, engine: Engine, access: Access, streams: Streams) -> None:
        self.access, self.streams, self.keyring = access, streams, engine.keyring
        self.refresh, self.visitor = access.refresh, access.visitor
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._outcomes: deque[tuple[asyncio.Future[Any], Any]] = deque()
        self._is_due = False
        self._asked: list[tuple[Operation[Any], Visitor, asyncio.Future[Any]]] = []

    @property
    def is_open(self) -> bool:
        """Whether visitors on this machine need no key."""
        return self.access.is_open

    def charge(self, visitor: Visitor) -> None:
        """Count a request of a visitor's key; refuse one that is too many."""
        self.access.charge(visitor.key)

    def local_visitor(self, http: Mapping[str, Any]) -> Visitor:
        """Return a visitor of a service that is open, or refuse a request from elsewhere."""
        return self.access.local_visitor(http, dict(http["headers"]))

    async def call(self, visitor: Visitor, operation: Operation[T]) -> T:
        """Perform an operation and return its answer, or raise its refusal."""
        route = operation.route
        self.access.check_scope(visitor, route.scope, route.operator)
        answer: T = await self.submit(visitor, operation)
        return answer

    def submit(self, visitor: Visitor, operation: Operation[Any]) -> asyncio.Future[Any]:
        """Perform an operation of a visitor who may do it; return what its answer is awaited by."""
        loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._asked:
            # Not at once: what else has arrived by now goes along, in one transaction.
            loop.call_soon(self._submit_all)
        self._asked.append((operation, visitor, future))
        self._waiting += 1
        return future

    def _submit_all(self) -> None:
        asked, self._asked = self._asked, []
        for operation, visitor, future in asked:
            try:
                self._engine.submit(operation, visitor.principal, partial(self._deliver, future))
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
