"""A load at a fixed rate, however long answers take: ``wrk`` waits for each before it asks again.

A request is due at a moment that the rate gives. What it waits for a connection, because earlier
answers are late, is part of its latency. ``python -m benchmarks.service.paced PORT RATE SECONDS
CONNECTIONS`` prints what came of it, in the form of ``visits.lua``.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque

_TICK = 0.001
_HEAD = "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
_DECIDE = (_HEAD.format("/v1/experiments/ads/decide") + "Content-Length: 2\r\n\r\n{}").encode()


def _reward(token: bytes) -> bytes:
    body = b'{"decision":"%s","value":1}' % token
    return _HEAD.format("/v1/rewards").encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Pacer:
    """Decides and rewards in turn, each decision before its reward."""

    def __init__(self, rate: float, seconds: float) -> None:
        self._rate = rate
        self._total = round(rate * seconds)
        self._issued = 0
        self._due: deque[float] = deque()
        self._tokens: deque[bytes] = deque()
        self.idle: deque[_Connection] = deque()
        self.latencies: list[float] = []
        self.wrong = 0
        self.finished = asyncio.Event()

    async def run(self) -> float:
        """Issue all requests, wait for all answers, and return how many seconds that took."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self._issued < self._total:
            now = loop.time()
            while self._issued < self._total and began + self._issued / self._rate <= now:
                self._due.append(began + self._issued / self._rate)
                self._issued += 1
            self.send()
            await asyncio.sleep(_TICK)
        await self.finished.wait()
        return loop.time() - began

    def send(self) -> None:
        """Hand requests that are due to connections that are free."""
        while self._due and self.idle:
            token = self._tokens.popleft() if self._tokens else None
            request = _DECIDE if token is None else _reward(token)
            self.idle.popleft().ask(request, self._due.popleft())

    def answered(self, latency: float, content: bytes) -> None:
        """Take note of an answer."""
        self.latencies.append(latency)
        self.wrong += not content.startswith(b"HTTP/1.1 200")
        _, found, rest = content.partition(b'"decision":"')
        if found:
            self._tokens.append(rest.partition(b'"')[0])
        if len(self.latencies) == self._total:
            self.finished.set()


class _Connection(asyncio.Protocol):
    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer
        self._loop = asyncio.get_running_loop()
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pacer.idle.append(self)

    def ask(self, request: bytes, due: float) -> None:
        self._since = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not end or len(body) < int(length):
            return
        content, self._received = self._received, b""
        self._pacer.answered(self._loop.time() - self._since, content)
        self._pacer.idle.append(self)
        self._pacer.send()

    def connection_lost(self, error: Exception | None) -> None:
        assert self._pacer.finished.is_set(), "the server has closed a connection"


async def _main(port: int, rate: float, seconds: float, connections: int) -> None:
    pacer = Pacer(rate, seconds)
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(lambda: _Connection(pacer), "127.0.0.1", port)
    took = await pacer.run()
    latencies = sorted(1000 * each for each in pacer.latencies)
    median, late = (latencies[int(share * len(latencies))] for share in (0.5, 0.99))
    print(f"RESULT {len(latencies)} {1e6 * took:.0f} {median:.3f} {late:.3f} {pacer.wrong}")


if __name__ == "__main__":
    port, rate, seconds, connections = sys.argv[1:]
    asyncio.run(_main(int(port), float(rate), float(seconds), int(connections)))
