"""Reading the bodies of requests: not too long, not too slowly, and JSON."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from starlette.types import Receive

from armrace.errors import InvalidParameter
from armrace.service.http.problems import TimedOut, TooLarge, WrongMedia

__all__ = ["Bodies", "ClientGone"]

_SECONDS = 20.0
_JSON = b"application/json"


class ClientGone(Exception):
    """The client has closed the connection before it had sent its body."""


class Bodies:
    """Reads bodies.

    One timer looks after all of them: a timer for each would take longer than reading one.
    """

    def __init__(self) -> None:
        self._began: dict[asyncio.Task[Any], float] = {}
        self._late: set[asyncio.Task[Any]] = set()
        self._timer: asyncio.TimerHandle | None = None

    async def read(
        self,
        receive: Receive,
        headers: dict[bytes, bytes],
        limit: int,
        decoder: msgspec.json.Decoder[Any],
    ) -> Any:
        """Return what a body says, or refuse it.

        Args:
            receive: receives the parts of the body, as ASGI says.
            headers: the headers of the request.
            limit: the most bytes that it may have.
            decoder: turns it into an object.
        """
        body = await self._in_time(receive, limit)
        if body and not headers.get(b"content-type", b"").lower().startswith(_JSON):
            # A page of another site can send anything else without asking the service first.
            raise WrongMedia("the header Content-Type must be application/json.")
        return _decode(decoder, body)

    async def _in_time(self, receive: Receive, limit: int) -> bytes:
        task = asyncio.current_task()
        assert task is not None
        self._began[task] = time.monotonic()
        if self._timer is None:
            self._watch()
        try:
            return await _read(receive, limit)
        except asyncio.CancelledError:
            if task not in self._late:
                raise
            task.uncancel()
            raise TimedOut(f"the body must come within {_SECONDS:g} seconds.") from None
        finally:
            del self._began[task]
            self._late.discard(task)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_SECONDS / 4, self._end_late_ones)

    def _end_late_ones(self) -> None:
        self._timer = None
        earliest = time.monotonic() - _SECONDS
        for task, began in self._began.items():
            if began < earliest and task not in self._late:
                self._late.add(task)
                task.cancel()
        if self._began:
            self._watch()


async def _read(receive: Receive, limit: int) -> bytes:
    """Return the body; refuse it as soon as it is longer than the limit."""
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > limit:
            raise TooLarge(f"the body must have at most {limit} bytes.")
        if not message.get("more_body", False):
            return body


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidParameter(f"the body is refused: {reason[:300]}.") from None
