"""What streams send of a page: the parts that have changed, made once for all who follow it.

A large part, such as a table of 600 cells, takes a browser longer to parse than a frame, so it is
cut into fragments that change alone. A template marks a fragment by an element whose last attribute
is an identifier and whose content stands between two comments:
``<td id="cell-0-3"><!--piece-->0.61<!--/piece--></td>``. Names that someone chose are escaped and
cannot contain such comments.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from armrace.service.http.access import Api, Caller
from armrace_client.operations import Operation

T = TypeVar("T")
_MOST_KEPT = 100
"""How many answers are kept that do not grow old."""

_Key = tuple[str, Operation[Any]]
"""Whose experiment, and what was asked."""


class _Kept(NamedTuple):
    made: float
    version: object
    answer: Any


class CachedCalls:
    """Performs operations for the pages of one dashboard."""

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


_BEGIN, _END = "<!--piece-->", "<!--/piece-->"


class Cut(NamedTuple):
    """A part of a page, cut into its fragments and what is around them."""

    html: str
    frame: str
    pieces: dict[str, str]
    """The content of each fragment by the identifier of its element."""


def cut(html: str) -> Cut:
    """Cut a part into fragments.

    >>> cut('<b id="x"><!--piece-->1<!--/piece--></b>')[1:]
    ('<b id="x"></b>', {'x': '<!--piece-->1<!--/piece-->'})
    """
    before, *rest = html.split(_BEGIN)  # some ten times as fast as a regular expression
    frame, pieces = [before], {}
    for each in rest:
        content, _, after = each.partition(_END)
        pieces[before[before.rindex('"', 0, -2) + 1 : -2]] = f"{_BEGIN}{content}{_END}"
        frame.append(after)
        before = after
    return Cut(html, "".join(frame), pieces)


def compare_cuts(known: Cut | None, fresh: Cut) -> tuple[str | None, dict[str, str]]:
    """Return the whole part if more than its fragments has changed, else those that have.

    >>> old, new = (cut(f'<b id="x"><!--piece-->{n}<!--/piece--></b>') for n in "12")
    >>> compare_cuts(old, new), compare_cuts(old, old)
    ((None, {'x': '<!--piece-->2<!--/piece-->'}), (None, {}))
    """
    if known is None or known.frame != fresh.frame:
        return fresh.html, {}
    return None, {k: v for k, v in fresh.pieces.items() if known.pieces.get(k) != v}


Content = dict[str, str]
"""A page without its frame: HTML by the name of its place."""


def updates(content: Content, known: dict[str, Cut]) -> bytes | None:
    """Return what has changed as JSON, and note it as known; ``None`` if nothing has."""
    parts: dict[str, str] = {}
    pieces: dict[str, str] = {}
    for name, html in content.items():
        before = known.get(name)
        if before is not None and before.html == html:
            continue
        fresh = known[name] = cut(html)
        whole, changed = compare_cuts(before, fresh)
        if whole is not None:
            parts[name] = whole
        pieces.update(changed)
    return msgspec.json.encode({"parts": parts, "pieces": pieces}) if parts or pieces else None


Make = Callable[[CachedCalls, Caller, str], Awaitable[Content]]
"""Makes the content of a page for a caller and an experiment."""

_Place = tuple[str, str, str]
"""The kind of a page, who may see it, and the experiment."""

_FRESH = 0.8
"""Of the time between two looks of a stream: streams whose looks differ a little share a page."""


class SharedContents:
    """The current content of each page."""

    def __init__(self, reading: CachedCalls, seconds: float) -> None:
        self._reading = reading
        self._seconds = seconds
        self._kept: dict[_Place, tuple[float, Content]] = {}
        self._making: dict[_Place, asyncio.Task[Content]] = {}

    async def current(self, kind: str, make: Make, caller: Caller, name: str) -> Content:
        """Return a content that is not older than the time between two looks.

        Visitors of the same tenant and scope share contents.
        """
        scope = "admin" if caller.may_change else "read"
        place = (kind, f"{caller.tenant} {scope}", name)
        kept = self._kept.get(place)
        if kept is not None and time.monotonic() - kept[0] < _FRESH * self._seconds:
            return kept[1]
        # Streams that find the page too old at the same time wait for one that makes it.
        making = self._making.get(place)
        if making is None:
            making = asyncio.create_task(self._make(place, make, caller, name))
            self._making[place] = making
        # A stream that is closed is cancelled, and the others still wait for the page.
        return await asyncio.shield(making)

    async def _make(self, place: _Place, make: Make, caller: Caller, name: str) -> Content:
        began, own = time.monotonic(), asyncio.current_task()
        try:
            content = await make(self._reading, caller, name)
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
