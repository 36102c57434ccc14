"""Connections with limits, whose refusals have the same shape as those of endpoints."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from armrace.errors import ArmraceError
from armrace.service.http.problems import (
    BadRequest,
    HeadersTooLarge,
    Overloaded,
    Problem,
    headers_of,
    status_of,
)

__all__ = ["Connection", "close_slow"]

_LARGEST_HEAD = 2**16
"""The bytes of an address with its headers."""
_HEAD_SECONDS = 20.0
"""How long a client may take to send them."""
_SENTENCE = f"the address and the headers must have at most {_LARGEST_HEAD} bytes."


class Connection(HttpToolsProtocol):
    """A connection whose requests have a limited head.

    Between requests, uvicorn closes it after its own time. What uvicorn would refuse in plain text,
    too many connections and what is not HTTP, is refused as JSON.
    """

    head_began: float | None = None
    """When the head began that is not complete; ``None`` if there is none."""
    _head_size = 0

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._application = self.app
        self._most, self.limit_concurrency = self.limit_concurrency, None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.head_began = time.monotonic()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.head_began is not None:
            self._head_size += len(data)
            if self._head_size > _LARGEST_HEAD and not self.transport.is_closing():
                self._refuse(HeadersTooLarge(_SENTENCE))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_began, self._head_size = time.monotonic(), 0

    def on_headers_complete(self) -> None:
        self.head_began = None
        busy = max(len(self.connections), len(self.tasks))
        is_full = self._most is not None and busy >= self._most
        self.app = _refuse_overload if is_full else self._application
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest("the request is not valid HTTP."))

    def _refuse(self, error: ArmraceError) -> None:
        """Answer what no endpoint will see, and close the connection."""
        status, content = HTTPStatus(status_of(error)), _content(error)
        self.transport.write(
            b"HTTP/1.1 %d %b\r\nconnection: close\r\ncontent-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b"
            % (status, status.phrase.encode(), len(content), content)
        )
        self.transport.close()


def _content(error: ArmraceError) -> bytes:
    return msgspec.json.encode(Problem(error.code, str(error)))


async def _refuse_overload(scope: Scope, receive: Receive, send: Send) -> None:
    error = Overloaded("there are more connections than the service takes; ask again later.")
    content = _content(error)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    headers += [(k.lower().encode(), v.encode()) for k, v in headers_of(error).items()]
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status_of(error), "headers": headers})
    await send({"type": "http.response.body", "body": content})


def close_slow(connections: Iterable[Any]) -> None:
    """Close connections whose head takes too long, or that have sent nothing at all.

    Args:
        connections: all connections of a server.
    """
    earliest = time.monotonic() - _HEAD_SECONDS
    for each in list(connections):
        began = getattr(each, "head_began", None)
        if began is not None and began < earliest:
            each.transport.close()
