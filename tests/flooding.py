"""Many connections that begin something and fall silent, as a program of its own.

``python flooding.py PORT COUNT ADDRESSES SECONDS`` opens them from so many addresses of this
machine and prints, for each kind of them, how many there were, how many the server had closed after
so many seconds, and after how many seconds it closed the last one of these.
"""

import asyncio
import json
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

_HOST = b"Host: localhost\r\n"
_HEALTH = b"GET /healthz HTTP/1.1\r\n" + _HOST + b"\r\n"
_POST = b"POST %b HTTP/1.1\r\n" + _HOST + b"Content-Type: application/json\r\nContent-Length: 2\r\n"
_DECIDE = _POST % b"/v1/experiments/ads/decide"
_CHUNKED = _DECIDE.replace(b"Content-Length: 2", b"Transfer-Encoding: chunked") + b"\r\n"

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def _sends(*parts: bytes) -> _Act:
    """Send parts; wait for an answer after each but the last."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        *answered, last = parts
        for part in answered:
            writer.write(part)
            await reader.read(65536)
        writer.write(last)

    return act


async def _drips(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send an empty line between requests again and again, which no parser counts as a head."""
    await _sends(_HEALTH, b"")(reader, writer)
    while not reader.at_eof():
        writer.write(b"\r\n")
        await writer.drain()
        await asyncio.sleep(0.5)


async def _does_not_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]  # of a transport that reads
    writer.write(_HEALTH.replace(b"/healthz", b"/openapi.json") * 10)


KINDS: dict[str, _Act] = {
    "two bytes after an answer": _sends(_HEALTH, b"GE"),
    "a byte of a body after a refusal": _sends(_DECIDE + b"\r\n", b"{"),
    "a form without its fields": _sends(_POST % b"/sign-in" + b"\r\n"),
    "half a head": _sends(_DECIDE),
    "nothing": _sends(b""),
    "answers that nobody reads": _does_not_read,
}
"""What the connections of a flood do."""
MORE_KINDS: dict[str, _Act] = {
    "a body without its end": _sends(_DECIDE + b"\r\n{"),
    "a body that ends after a refusal": _sends(_DECIDE + b"\r\n", b"{}"),
    "nothing after an answer": _sends(_HEALTH, b""),
    "empty lines": _drips,
    "an endless list of headers after a body": _sends(_CHUNKED, b"2\r\n{}\r\n0\r\nX: y"),
    "another protocol": _sends(
        b"GET / HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n" + _HOST + b"\r\n", b""
    ),
}
"""What else a connection may do that is not served."""


async def opened(port: int, source: str, small: bool) -> _Streams:
    """Connect from an address of this machine; with small buffers if little is to be read."""
    one = socket.socket()
    if small:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.setblocking(False)
    one.bind((source, 0))
    await asyncio.get_running_loop().sock_connect(one, ("127.0.0.1", port))
    return await asyncio.open_connection(sock=one, limit=1024)


async def until_closed(port: int, act: _Act, source: str, seconds: float) -> float | None:
    """Do something on a connection; return after how many seconds it was closed, if it was."""
    unread = act is _does_not_read
    reader, writer = await opened(port, source, unread)
    began = time.monotonic()
    acting = asyncio.ensure_future(act(reader, writer))
    try:
        if unread:  # only reading tells that it was closed by then
            await asyncio.sleep(seconds)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            seconds = 10.0
            began = time.monotonic()
        async with asyncio.timeout(seconds):
            with suppress(ConnectionError):
                while await reader.read(65536):
                    pass
        return time.monotonic() - began
    except TimeoutError:
        return None
    finally:
        acting.cancel()
        await asyncio.gather(acting, return_exceptions=True)
        writer.transport.abort()


async def _flood(port: int, count: int, addresses: int, seconds: float) -> None:
    names = list(KINDS)
    found = await asyncio.gather(
        *(
            until_closed(
                port,
                KINDS[names[number % len(names)]],
                f"127.0.{number % addresses // 250}.{number % addresses % 250 + 1}",
                seconds,
            )
            for number in range(count)
        )
    )
    for place, name in enumerate(names):
        ends = found[place :: len(names)]
        closed = [each for each in ends if each is not None]
        print(json.dumps([name, len(ends), len(closed), max(closed, default=0.0)]), flush=True)


if __name__ == "__main__":
    asyncio.run(_flood(*map(int, sys.argv[1:4]), float(sys.argv[4])))
