"""Answers of operations for pages, of which those that are costly to make are kept for a moment."""

from __future__ import annotations

import time
from typing import Any, NamedTuple, TypeVar

from armrace.service.http.access import Api, Caller
from armrace_client.operations import Operation

T = TypeVar("T")
_MOST_KEPT = 20
"""How many answers are kept that do not grow old."""

_Key = tuple[str, Operation[Any]]
"""Whose experiment, and what was asked."""


class _Kept(NamedTuple):
    made: float
    version: object
    answer: Any


class Reading:
    """Performs operations for the pages of one dashboard.

    Args:
        api: performs them.
        seconds: how old an answer of :meth:`recent` may be.
    """

    def __init__(self, api: Api, seconds: float = 0.5) -> None:
        self._api = api
        self._seconds = seconds
        self._kept: dict[_Key, _Kept] = {}
        self._kept_long: dict[_Key, _Kept] = {}
        self.call = api.call

    async def recent(self, caller: Caller, operation: Operation[T], version: object) -> T:
        """Return the answer of an operation that changes nothing, or the last one if it is recent.

        Audits and histories take ten times as long as the rest of a page. A page that changes
        twenty times a second shows them as they were a moment ago. An answer is not used again for
        another ``version`` of the experiment.
        """
        key, now = (caller.tenant, operation), time.monotonic()
        kept = self._kept.get(key)
        if kept is None or now - kept.made >= self._seconds or kept.version != version:
            kept = _Kept(now, version, await self._api.call(caller, operation))
            self._kept = {
                k: each for k, each in self._kept.items() if now - each.made < self._seconds
            }
            self._kept[key] = kept
        answer: T = kept.answer
        return answer

    async def unchanged(self, caller: Caller, operation: Operation[T], version: object) -> T:
        """Return the answer of an operation, or the last one, however old, of the same ``version``.

        The version must differ whenever the answer does.
        """
        key = caller.tenant, operation
        kept = self._kept_long.pop(key, None)
        if kept is None or kept.version != version:
            kept = _Kept(time.monotonic(), version, await self._api.call(caller, operation))
        self._kept_long[key] = kept  # as the last, so that the first is the one not asked for
        while len(self._kept_long) > _MOST_KEPT:
            del self._kept_long[next(iter(self._kept_long))]
        answer: T = kept.answer
        return answer

    def forget(self) -> None:
        """Clear the cache after a change."""
        self._kept.clear()
        self._kept_long.clear()
