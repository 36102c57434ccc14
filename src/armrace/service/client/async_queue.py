"""Rewards of an event loop, sent in the background: none is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from armrace.service.answers import Decision, RewardAnswer
from armrace.service.arguments import RewardItem
from armrace.service.client.delivery import Send, check_item
from armrace.service.client.queue import RewardQueue

__all__ = ["AsyncRewardQueue"]


class _LoopQueue(RewardQueue):
    """A queue that tells an event loop, and not only threads, when there is room.

    Args:
        loop: the event loop.
        send: sends a batch.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        send: Send,
        room: int,
        when_full: Literal["block", "raise"],
    ) -> None:
        self._loop = loop
        self.woken = asyncio.Event()
        super().__init__(send, room, when_full)

    def _wake(self) -> None:
        super()._wake()
        with suppress(RuntimeError):  # the loop is closed, so that nothing waits in it
            self._loop.call_soon_threadsafe(self.woken.set)


class AsyncRewardQueue:
    """A :class:`RewardQueue` whose methods are awaited and whose requests the event loop sends.

    Close it before the event loop ends; what is left then cannot be sent.

    Args:
        send: sends a batch; as :meth:`armrace.AsyncClient.reward_many`.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self,
        send: Callable[[Sequence[RewardItem]], Awaitable[list[RewardAnswer]]],
        room: int = 10_000,
        when_full: Literal["block", "raise"] = "block",
    ) -> None:
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._waits = when_full == "block"
        self._queue = _LoopQueue(self._loop, self._send_in_loop, room, when_full)

    @property
    def refused(self) -> list[tuple[RewardItem, RewardAnswer]]:
        """Rewards that the service has refused, with its answers."""
        return self._queue.refused

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def put(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> None:
        """Take a reward; as :meth:`RewardQueue.put`."""
        item = check_item(decision, value, source, suspicion)
        # Nothing here may block: the thread of the queue needs the loop to make room.
        while True:
            self._queue.woken.clear()  # first, so that no room is missed that comes from now on
            if self._queue.offer(item):
                return
            if not self._waits:
                raise self._queue.full()
            await self._queue.woken.wait()

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, and take no more; as :meth:`RewardQueue.close`."""
        # A thread of its own: those of the loop may all be busy, and httpx needs one to connect.
        thread = ThreadPoolExecutor(1)
        try:
            await self._loop.run_in_executor(thread, self._queue.close, timeout)
        finally:
            thread.shutdown(wait=False)

    def _send_in_loop(self, batch: Sequence[RewardItem]) -> list[RewardAnswer]:
        """Have the event loop send a batch; called by the thread of the queue."""
        if self._loop.is_closed():
            raise RuntimeError("the event loop was closed before the queue")
        return asyncio.run_coroutine_threadsafe(self._awaited(batch), self._loop).result()

    async def _awaited(self, batch: Sequence[RewardItem]) -> list[RewardAnswer]:
        return await self._send(batch)
