"""Rewards sent in the background: none is dropped."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Literal, Self

from armrace.errors import InvalidParameter, ServiceUnreachable, TooManyOpen
from armrace.service.answers import Decision, RewardAnswer

__all__ = ["RewardQueue"]

_LARGEST_BATCH = 500
_PAUSE_SECONDS = 0.5
Item = tuple[Decision | str, float]
Send = Callable[[Iterable[Item]], list[RewardAnswer]]


class RewardQueue:
    """Takes rewards at once and sends them in batches.

    A batch that cannot be sent is sent again until it can. When there is no room, ``put`` waits
    or raises, as chosen. ``close`` returns when everything was sent, or says how much was not.

    Args:
        send: sends a batch; as :meth:`armrace.Client.reward_many`.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self, send: Send, room: int = 10_000, when_full: Literal["block", "raise"] = "block"
    ) -> None:
        if when_full not in ("block", "raise"):
            raise InvalidParameter(f"when_full must be block or raise; got {when_full!r:.100}.")
        self._send = send
        self._waits = when_full == "block"
        self._queue: queue.Queue[Item] = queue.Queue(room)
        self._closing = threading.Event()
        self.refused: list[tuple[Item, RewardAnswer]] = []
        """Rewards that the service has refused, with its answers."""
        self._thread = threading.Thread(target=self._work, name="armrace rewards", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def put(self, decision: Decision | str, value: float) -> None:
        """Take a reward.

        Raises:
            TooManyOpen: there is no room, and the queue was told to raise then.
        """
        if self._closing.is_set():
            raise InvalidParameter("the queue is closed.")
        try:
            self._queue.put((decision, value), block=self._waits)
        except queue.Full:
            raise TooManyOpen(f"rewards that wait must be at most {self._queue.maxsize}.") from None

    def close(self, timeout: float | None = None) -> None:
        """Send what is left.

        Args:
            timeout: how many seconds to wait at most; by default as long as it takes.

        Raises:
            ServiceUnreachable: rewards are left; the message says how many.
        """
        self._closing.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise ServiceUnreachable(
                f"{self._queue.unfinished_tasks} rewards could not be sent in {timeout:g} seconds."
            )

    def _work(self) -> None:
        while not (self._closing.is_set() and self._queue.empty()):
            batch = self._next_batch()
            if batch:
                self._send_until_answered(batch)

    def _next_batch(self) -> list[Item]:
        batch: list[Item] = []
        try:
            batch.append(self._queue.get(timeout=0.05))
            while len(batch) < _LARGEST_BATCH:
                batch.append(self._queue.get_nowait())
        except queue.Empty:
            pass
        return batch

    def _send_until_answered(self, batch: list[Item]) -> None:
        pause = threading.Event()
        while True:
            try:
                answers = self._send(batch)
                break
            except ServiceUnreachable:
                pause.wait(_PAUSE_SECONDS)
        for item, answer in zip(batch, answers, strict=True):
            if answer.status not in ("accepted", "duplicate"):
                self.refused.append((item, answer))
            self._queue.task_done()
