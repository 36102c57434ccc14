"""Group commit for an event loop: what arrives while one turn is written is the next turn."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from armrace.service.ledger import Ledger, Request

__all__ = ["Front"]


class Front:
    """Hands requests of many connections to the ledger, together.

    Args:
        ledger: performs the requests.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="ledger")
        self._waiting: list[tuple[Sequence[Request[Any]], asyncio.Future[list[Any]]]] = []
        self._task: asyncio.Task[None] | None = None

    async def submit(self, requests: Sequence[Request[Any]]) -> list[Any]:
        """Perform requests; as :meth:`armrace.service.Ledger.submit`."""
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._waiting.append((requests, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            flat = [request for requests, _ in batch for request in requests]
            try:
                outcomes = iter(await loop.run_in_executor(self._thread, self._ledger.submit, flat))
            except BaseException as error:
                for _, answer in batch:
                    if not answer.done():
                        answer.set_exception(error)
                continue
            for requests, answer in batch:
                found = [next(outcomes) for _ in requests]
                if not answer.done():  # its client may have gone
                    answer.set_result(found)

    async def close(self) -> None:
        """Wait until everything that was submitted is answered."""
        if self._task is not None:
            await asyncio.wait([self._task])
        self._thread.shutdown()
