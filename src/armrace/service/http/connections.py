"""Connections with limits that uvicorn does not have: the size of a head, and its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from armrace.service.http.problems import HeadersTooLarge, Problem

__all__ = ["Connection", "close_slow"]

_LARGEST_HEAD = 2**16
"""The bytes of an address with its headers."""
_HEAD_SECONDS = 20.0
"""How long a client may take to send them."""
_SENTENCE = f"the address and the headers must have at most {_LARGEST_HEAD} bytes."


class Connection(HttpToolsProtocol):
    """A connection whose requests have a limited head.

    Between requests, uvicorn closes it after its own time.
    """

    head_began: float | None = None
    """When the head began that is not complete; ``None`` if there is none."""
    _head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        super().connection_made(transport)
        self.head_began = time.monotonic()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.head_began is not None:
            self._head_size += len(data)
            if self._head_size > _LARGEST_HEAD and not self.transport.is_closing():
                self._refuse()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.head_began, self._head_size = time.monotonic(), 0

    def on_headers_complete(self) -> None:
        self.head_began = None
        super().on_headers_complete()

    def _refuse(self) -> None:
        content = msgspec.json.encode(Problem(HeadersTooLarge.code, _SENTENCE))
        self.transport.write(
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(content), content)
        )
        self.transport.close()


def close_slow(connections: Iterable[Any], seconds: float = _HEAD_SECONDS) -> None:
    """Close connections whose head takes too long, or that have sent nothing at all."""
    earliest = time.monotonic() - seconds
    for each in list(connections):
        began = getattr(each, "head_began", None)
        if began is not None and began < earliest:
            each.transport.close()
