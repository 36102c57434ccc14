"""Answers of endpoints for pages, of which those that are costly to make are kept for a moment."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from armrace.service.http.inside import Inside, Visitor

__all__ = ["Reading"]


class _Kept(NamedTuple):
    made: float
    version: object
    answer: Any


class Reading:
    """Calls endpoints for the pages of one dashboard.

    Args:
        inside: the endpoints.
        seconds: how old an answer of :meth:`recent` may be.
    """

    def __init__(self, inside: Inside, seconds: float = 0.5) -> None:
        self._inside = inside
        self._seconds = seconds
        self._kept: dict[tuple[str, str, str], _Kept] = {}
        self.call = inside.call
        self.call_if_allowed = inside.call_if_allowed

    async def recent(self, visitor: Visitor, path: str, name: str, version: object) -> Any:
        """Return the answer of a reading endpoint, or the last one if it is recent.

        Audits and courses take ten times as long as the rest of a page. A page that changes twenty
        times a second shows them as they were a moment ago.

        Args:
            visitor: who asks.
            path: the address of the endpoint, which everyone who may see the page may read.
            name: the experiment.
            version: an answer is not used again for another version of the experiment.
        """
        place = visitor.tenant, path, name
        now = time.monotonic()
        kept = self._kept.get(place)
        if kept is not None and now - kept.made < self._seconds and kept.version == version:
            return kept.answer
        answer = await self._inside.call(visitor, "GET", path, name)
        self._kept = {p: k for p, k in self._kept.items() if now - k.made < self._seconds}
        self._kept[place] = _Kept(now, version, answer)
        return answer

    def forget(self) -> None:
        """Clear the cache after a change."""
        self._kept.clear()
