"""What is sent in the background: every item is sent, or said not to have been."""

from __future__ import annotations

import asyncio
import atexit
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, Literal, Self, TypeVar

from armrace_client.answers import DecisionAnswer, RewardAnswer, VisitAnswer
from armrace_client.calls import RewardItem, check_reward
from armrace_client.errors import ArmraceError, InvalidParameter, ServiceUnreachable, TooManyOpen
from armrace_client.operations import Labels

Item = TypeVar("Item")
Answer = TypeVar("Answer", RewardAnswer, VisitAnswer)
WhenFull = Literal["block", "raise"]
LARGEST_BATCH = 500
PAUSE_SECONDS = 0.5
"""How long to wait before a batch is sent again that the service did not answer."""
_EXIT_SECONDS = 30.0
"""How long a program that ends without closing its queue waits for the service."""


class Outbox(Generic[Item, Answer]):
    """Items that a thread sends in batches, from the first one on.

    A batch that the service does not answer is sent again until it does. The members of a batch
    that is refused are sent one by one. When there is no room, an item waits or is refused, as
    chosen. ``close`` returns when everything was sent, or raises an error that says what was not; a
    program that ends closes its queues.

    Args:
        send: sends a batch and returns an answer for each item.
        answer: the type of the answers.
        what: what the items are called in messages.
        room: how many items may wait.
        when_full: ``"block"`` or ``"raise"``.
        largest: the most items of a batch.
        linger: how many seconds a batch that is not full waits for more items.
    """

    def __init__(
        self,
        send: Callable[[list[Item]], list[Answer]],
        answer: type[Answer],
        what: str,
        room: int,
        when_full: WhenFull,
        largest: int = LARGEST_BATCH,
        linger: float = 0.0,
    ) -> None:
        if when_full not in ("block", "raise"):
            raise InvalidParameter(f"when_full must be block or raise; got {when_full!r:.100}.")
        if not isinstance(room, int) or room < 1:
            raise InvalidParameter(f"room must be a whole number of at least 1; got {room!r:.100}.")
        self._send: Callable[[list[Item]], list[Answer]] = send
        self._answer: type[Answer] = answer
        self._what, self._room, self.blocks = what, room, when_full == "block"
        self._largest, self._linger = largest, linger
        self._waiting: deque[Item] = deque()
        self._left: list[list[Item]] = []
        """The parts of the batch that is being sent."""
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._failure: ArmraceError | None = None
        self._failures = 0
        self.refused: list[tuple[Item, Answer]] = []
        """What the service has refused, with its answers."""
        self._thread = threading.Thread(target=self._work, name="armrace outbox", daemon=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def put_item(self, item: Item) -> None:
        """Take an item.

        Raises:
            InvalidParameter: the queue is closed.
            TooManyOpen: there is no room, and the queue was told to raise then.
        """
        with self._changed:
            if self.blocks:
                self._changed.wait_for(lambda: self.has_room or self._closed or self._error)
            if not self.offer(item):
                raise self.full()

    def offer(self, item: Item) -> bool:
        """Take an item if there is room, without waiting; return whether it was taken."""
        with self._changed:
            self._raise_error()
            if self._closed:
                raise InvalidParameter("the queue is closed.")
            if not self.has_room:
                return False
            if self._thread.ident is None:  # not before: a server may have forked until now
                self._thread.start()
                atexit.register(self.close, _EXIT_SECONDS)
            self._waiting.append(item)
            self._changed.notify_all()
            return True

    def full(self) -> TooManyOpen:
        """Return the refusal of an item for which there is no room."""
        return TooManyOpen(f"{self._what} that wait must be at most {self._room}.")

    @property
    def has_room(self) -> bool:
        """Whether another item may wait."""
        return len(self._waiting) < self._room

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, and take no more.

        Args:
            timeout: how many seconds to wait at most; by default as long as it takes.

        Raises:
            ServiceUnreachable: something is left; the message says how much.
            ArmraceError: the service refused to take some, since the key was revoked for instance.
        """
        with self._changed:
            self._closed = True
            self._wake()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        if self._thread.is_alive():
            raise ServiceUnreachable(
                f"{self._unsent} {self._what} could not be sent in {timeout:g} seconds."
            )
        atexit.unregister(self.close)
        self._raise_error()
        if self._failure is not None:
            raise type(self._failure)(
                f"{self._failures} {self._what} could not be delivered, see refused; "
                f"the last because {self._failure}"
            )

    def _wake(self) -> None:
        """Wake those who wait for room: there is some, or there will be none."""
        self._changed.notify_all()
        self.also_wake()

    def also_wake(self) -> None:
        """Wake others than threads."""

    def _raise_error(self) -> None:
        if self._error is not None:
            raise ServiceUnreachable(
                f"{self._unsent} {self._what} could not be sent: {self._error!r}."
            ) from self._error

    @property
    def _unsent(self) -> int:
        return sum(map(len, self._left)) + len(self._waiting)

    def _work(self) -> None:
        try:
            while self._take_batch():
                while self._left:
                    self._deliver(self._left[0])
        except BaseException as error:  # whatever it is, put and close must tell
            with self._changed:
                self._error = error
                self._wake()

    def _take_batch(self) -> bool:
        """Wait for items; return whether there are any: none if the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._linger:
                enough = min(self._largest, self._room)
                self._changed.wait_for(
                    lambda: len(self._waiting) >= enough or self._closed, self._linger
                )
            size = min(self._largest, len(self._waiting))
            self._left = [[self._waiting.popleft() for _ in range(size)]]
            self._wake()
        return size > 0

    def _deliver(self, part: list[Item]) -> None:
        try:
            answers = self._send(part)
        except ServiceUnreachable:
            time.sleep(PAUSE_SECONDS)
            return
        except ArmraceError as refusal:
            if len(part) > 1:  # one member may be the reason why all are refused
                self._left = [[item] for item in part]
                return
            self._failure, self._failures = refusal, self._failures + 1
            answers = [self._answer(status="invalid", detail=str(refusal))]
        self._left = self._left[1:]
        for item, answer in zip(part, answers, strict=True):
            if answer.status not in ("accepted", "duplicate"):
                self.refused.append((item, answer))


def _item(
    decision: DecisionAnswer | str,
    value: float,
    source: str | None,
    suspicion: float | None,
    labels: Labels | None,
    metrics: dict[str, float] | None,
    part: str | None,
) -> RewardItem:
    made = check_reward(decision, value, source, suspicion, labels, metrics, part)
    return RewardItem(decision, made.value, source, made.suspicion, labels, made.metrics, part)


class RewardQueue(Outbox[RewardItem, RewardAnswer]):
    """Takes rewards at once and sends them in batches; see :class:`Outbox`.

    Args:
        send: sends a batch; as :meth:`armrace_client.Client.reward_many`.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self,
        send: Callable[[list[RewardItem]], list[RewardAnswer]],
        room: int = 10_000,
        when_full: WhenFull = "block",
    ) -> None:
        super().__init__(send, RewardAnswer, "rewards", room, when_full)

    def put(
        self,
        decision: DecisionAnswer | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
        labels: Labels | None = None,
        metrics: dict[str, float] | None = None,
        part: str | None = None,
    ) -> None:
        """Take a reward; arguments as for :meth:`armrace_client.Client.reward`.

        Raises:
            InvalidParameter: an argument cannot be sent, or the queue is closed.
            TooManyOpen: there is no room, and the queue was told to raise then.
        """
        self.put_item(_item(decision, value, source, suspicion, labels, metrics, part))


class AsyncRewardQueue:
    """As :class:`RewardQueue`, with methods that are awaited; the event loop sends the requests.

    Close it before the event loop ends; what is left then cannot be sent.

    Args:
        send: sends a batch; as :meth:`armrace_client.AsyncClient.reward_many`.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self,
        send: Callable[[Sequence[RewardItem]], Awaitable[list[RewardAnswer]]],
        room: int = 10_000,
        when_full: WhenFull = "block",
    ) -> None:
        self._send = send
        self._loop, self._woken = asyncio.get_running_loop(), asyncio.Event()
        self._queue = RewardQueue(self._send_in_loop, room, when_full)
        self._queue.also_wake = self._tell  # type: ignore[method-assign]

    @property
    def refused(self) -> list[tuple[RewardItem, RewardAnswer]]:
        """Rewards that the service has refused, with its answers."""
        return self._queue.refused

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def put(
        self,
        decision: DecisionAnswer | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
        labels: Labels | None = None,
        metrics: dict[str, float] | None = None,
        part: str | None = None,
    ) -> None:
        """Take a reward; as :meth:`RewardQueue.put`."""
        item = _item(decision, value, source, suspicion, labels, metrics, part)
        # Nothing here may block: the thread of the queue needs the loop to make room.
        while True:
            self._woken.clear()  # first, so that no room is missed that comes from now on
            if self._queue.offer(item):
                return
            if not self._queue.blocks:
                raise self._queue.full()
            await self._woken.wait()

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, and take no more; as :meth:`RewardQueue.close`."""
        # A thread of its own: those of the loop may all be busy, and httpx2 needs one to connect.
        thread = ThreadPoolExecutor(1)
        try:
            await self._loop.run_in_executor(thread, self._queue.close, timeout)
        finally:
            thread.shutdown(wait=False)

    def _tell(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, so that nothing waits in it
            self._loop.call_soon_threadsafe(self._woken.set)

    def _send_in_loop(self, batch: list[RewardItem]) -> list[RewardAnswer]:
        """Have the event loop send a batch; called by the thread of the queue."""
        if self._loop.is_closed():
            raise RuntimeError("the event loop was closed before the queue")
        return asyncio.run_coroutine_threadsafe(self._awaited(batch), self._loop).result()

    async def _awaited(self, batch: list[RewardItem]) -> list[RewardAnswer]:
        return await self._send(batch)
