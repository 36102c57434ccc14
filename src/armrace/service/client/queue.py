"""Rewards sent by a thread in the background: none is dropped."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from types import TracebackType
from typing import Literal, Self

from armrace.errors import ArmraceError, InvalidParameter, ServiceUnreachable, TooManyOpen
from armrace.service.answers import Decision, RewardAnswer
from armrace.service.arguments import RewardItem
from armrace.service.client.delivery import (
    LARGEST_BATCH,
    PAUSE_SECONDS,
    Delivery,
    Send,
    check_item,
    check_room,
)

__all__ = ["RewardQueue"]

_EXIT_SECONDS = 30.0
"""How long a program that ends without closing its queue waits for the service."""


class RewardQueue:
    """Takes rewards at once and sends them in batches.

    A batch that the service does not answer is sent again until it does. The members of a batch
    that is refused are sent one by one. When there is no room, ``put`` waits or raises, as chosen.
    ``close`` returns when everything was sent, or raises an error that says what was not; a program
    that ends closes its queues.

    Args:
        send: sends a batch; as :meth:`armrace.Client.reward_many`.
        room: how many rewards may wait.
        when_full: ``"block"`` or ``"raise"``.
    """

    def __init__(
        self, send: Send, room: int = 10_000, when_full: Literal["block", "raise"] = "block"
    ) -> None:
        check_room(room, when_full)
        self._send = send
        self._room = room
        self._blocks = when_full == "block"
        self._waiting: deque[RewardItem] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._error: BaseException | None = None
        self._delivery = Delivery()
        self._thread = threading.Thread(target=self._work, name="armrace rewards", daemon=True)
        self._thread.start()
        atexit.register(self.close, _EXIT_SECONDS)

    @property
    def refused(self) -> list[tuple[RewardItem, RewardAnswer]]:
        """Rewards that the service has refused, with its answers."""
        return self._delivery.refused

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def put(
        self,
        decision: Decision | str,
        value: float,
        source: str | None = None,
        suspicion: float | None = None,
    ) -> None:
        """Take a reward; arguments as for :meth:`armrace.Client.reward`.

        Raises:
            InvalidParameter: an argument cannot be sent, or the queue is closed.
            TooManyOpen: there is no room, and the queue was told to raise then.
        """
        item = check_item(decision, value, source, suspicion)
        with self._changed:
            if self._blocks:
                self._changed.wait_for(lambda: self.has_room or self._closed or self._error)
            if not self.offer(item):
                raise self.full()

    def offer(self, item: RewardItem) -> bool:
        """Take a reward if there is room, without waiting; return whether it was taken.

        Args:
            item: a reward that :func:`check_item` has returned.
        """
        with self._changed:
            self._raise_error()
            if self._closed:
                raise InvalidParameter("the queue is closed.")
            if not self.has_room:
                return False
            self._waiting.append(item)
            self._changed.notify_all()
            return True

    def full(self) -> TooManyOpen:
        """Return the refusal of a reward for which there is no room."""
        return TooManyOpen(f"rewards that wait must be at most {self._room}.")

    @property
    def has_room(self) -> bool:
        """Whether another reward may wait."""
        return len(self._waiting) < self._room

    def _wake(self) -> None:
        """Wake those who wait for room: there is some, or there will be none."""
        self._changed.notify_all()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise ServiceUnreachable(
                f"{self._unsent} rewards could not be sent: {self._error!r}."
            ) from self._error

    @property
    def _unsent(self) -> int:
        return self._delivery.unsent + len(self._waiting)

    def close(self, timeout: float | None = None) -> None:
        """Send what is left, and take no more.

        Args:
            timeout: how many seconds to wait at most; by default as long as it takes.

        Raises:
            ServiceUnreachable: rewards are left; the message says how many.
            ArmraceError: the service refused to take some, since the key was revoked for instance.
        """
        with self._changed:
            self._closed = True
            self._wake()
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise ServiceUnreachable(
                f"{self._unsent} rewards could not be sent in {timeout:g} seconds."
            )
        atexit.unregister(self.close)
        self._raise_error()
        self._delivery.check()

    def _work(self) -> None:
        try:
            while self._take_batch():
                self._deliver()
        except BaseException as error:  # whatever it is, put and close must tell
            with self._changed:
                self._error = error
                self._wake()

    def _take_batch(self) -> int:
        """Wait for rewards and return how many; none when the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            batch = [self._waiting.popleft() for _ in range(min(LARGEST_BATCH, len(self._waiting)))]
            self._delivery.begin(batch)
            self._wake()
        return len(batch)

    def _deliver(self) -> None:
        while part := self._delivery.next_part:
            if self._delivery.note(self._answers(part)):
                time.sleep(PAUSE_SECONDS)

    def _answers(self, part: list[RewardItem]) -> list[RewardAnswer] | ArmraceError:
        try:
            return self._send(part)
        except ArmraceError as refusal:
            return refusal
