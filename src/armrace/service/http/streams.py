"""Event streams: how many of a key may be open, and how they end when the server stops."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from armrace_client.errors import TooOften

_MOST = 100
"""How many streams of one key may be open at once."""


class Streams:
    """The event streams of a server."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._closing = asyncio.Event()

    @property
    def closing(self) -> bool:
        """Whether the server stops, so that streams must end."""
        return self._closing.is_set()

    def close(self) -> None:
        """End all streams: their rests are over at once."""
        self._closing.set()

    async def rest(self, seconds: float) -> None:
        """Wait before the next message, but not when the server stops."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    @contextmanager
    def opened(self, key: str) -> Iterator[None]:
        """Count a stream of a key while it is open, or refuse it."""
        self.check(key)
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def check(self, key: str) -> None:
        """Refuse another stream of a key that has as many as it may have."""
        if self._open[key] >= self._most:
            raise TooOften(f"streams of one key that are open must be at most {self._most}.")
