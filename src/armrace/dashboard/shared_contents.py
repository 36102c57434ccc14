"""Contents of pages that many streams follow at the same time: made once, kept for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from armrace.dashboard.contents import Content
from armrace.dashboard.reading import Reading
from armrace.service.http.inside import Visitor

__all__ = ["Make", "SharedContents"]

Make = Callable[[Reading, Visitor, str], Awaitable[Content]]
"""Makes the content of a page for a visitor and an experiment."""

_Place = tuple[str, str, str]
"""The kind of a page, who may see it, and the experiment."""

_FRESH = 0.8
"""Of the time between two looks of a stream: streams whose looks differ a little share a page."""


class SharedContents:
    """The current content of each page.

    Args:
        reading: calls the endpoints that pages are made from.
        seconds: how often streams look for changes.
    """

    def __init__(self, reading: Reading, seconds: float) -> None:
        self._reading = reading
        self._seconds = seconds
        self._kept: dict[_Place, tuple[float, Content]] = {}
        self._making: dict[_Place, asyncio.Task[Content]] = {}

    async def current(self, kind: str, make: Make, visitor: Visitor, name: str) -> Content:
        """Return a content that is not older than the time between two looks.

        Args:
            kind: the kind of the page.
            make: makes the content, where there is none that is recent.
            visitor: who asks; visitors of the same tenant and scope share contents.
            name: the experiment.
        """
        scope = "admin" if visitor.may_change else "read"
        place = (kind, f"{visitor.tenant} {scope}", name)
        kept = self._kept.get(place)
        if kept is not None and time.monotonic() - kept[0] < _FRESH * self._seconds:
            return kept[1]
        # Streams that find the page too old at the same time wait for one that makes it.
        making = self._making.get(place)
        if making is None:
            making = asyncio.create_task(self._make(place, make, visitor, name))
            self._making[place] = making
        # A stream that is closed is cancelled, and the others still wait for the page.
        return await asyncio.shield(making)

    async def _make(self, place: _Place, make: Make, visitor: Visitor, name: str) -> Content:
        began, own = time.monotonic(), asyncio.current_task()
        try:
            content = await make(self._reading, visitor, name)
            if self._making.get(place) is own:  # nothing was changed in the meantime
                kept = self._kept.items()
                self._kept = {p: k for p, k in kept if began - k[0] < self._seconds}
                self._kept[place] = began, content
            return content
        finally:
            if self._making.get(place) is own:
                del self._making[place]

    def forget(self) -> None:
        """Clear what is kept and what is being made, since something was changed."""
        self._kept.clear()
        self._making.clear()
        self._reading.forget()
