"""Answers of endpoints for pages, of which those that are costly to make are kept for a moment."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from armrace.service.http.inside import Inside, Visitor

__all__ = ["Reading"]


_MOST_KEPT = 20
"""How many answers are kept that do not grow old."""

_Place = tuple[str, str, str]
"""Whose experiment, the address of an endpoint, and the experiment."""


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
        self._kept: dict[_Place, _Kept] = {}
        self._kept_long: dict[_Place, _Kept] = {}
        self.call = inside.call

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

    async def unchanged(self, visitor: Visitor, path: str, name: str, version: object) -> Any:
        """Return the answer of a reading endpoint, or the last one of this version, however old.

        Args:
            visitor: who asks, and may read this.
            path: the address of the endpoint.
            name: the experiment.
            version: what the answer depends on; it differs whenever the answer does.
        """
        place = visitor.tenant, path, name
        kept = self._kept_long.pop(place, None)
        if kept is None or kept.version != version:
            answer = await self._inside.call(visitor, "GET", path, name)
            kept = _Kept(time.monotonic(), version, answer)
        self._kept_long[place] = kept  # as the last, so that the first is the one not asked for
        while len(self._kept_long) > _MOST_KEPT:
            del self._kept_long[next(iter(self._kept_long))]
        return kept.answer

    def forget(self) -> None:
        """Clear the cache after a change."""
        self._kept.clear()
        self._kept_long.clear()
