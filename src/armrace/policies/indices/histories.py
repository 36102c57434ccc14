"""The rewards of every arm, kept in pages: as they came, or in order of size.

All memory is allocated at the start, since the arrays of a state cannot grow, and touched only when
used. An arm's pages are listed in its directory, a contiguous part of a second pool; a full
directory is moved to one of twice the length.

In order of size, a full page is split in two. To insert costs a binary search and the shift of half
a page. Order statistics are reached by *cursors*, which remember the page they were on last: an
order statistic moves little from one reward to the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.errors import InvalidParameter
from armrace.kernels.compiling import inlined
from armrace.kernels.states import grown_by, index_limits
from armrace.policies.common.counts import CountingPolicy

PAGE = 128
"""Numbers on a page."""
_FIRST_DIRECTORY = 4
_USED_PAGES, _USED_ENTRIES = 0, 1


class Pages(NamedTuple):
    """The pool, and for each arm where its directory begins, its room and its length."""

    pool: npt.NDArray[np.float64]
    directory: npt.NDArray[np.int32]
    begins: npt.NDArray[np.int64]
    room: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    used: npt.NDArray[np.int64]
    """Pages and entries of the directory handed out so far."""


@index_limits(Pages)
def limit_indices_of_pages(state: Pages) -> Iterator[tuple[Any, Any]]:
    yield state.used, [state.pool.size // PAGE + 1, state.directory.size + 1]
    yield state.begins, state.directory.size - state.room + 1
    yield state.length, state.room + 1


@grown_by(Pages)
def give_directories(pages: Pages, old: Pages) -> None:
    """Give each new arm a directory, after those that are in use."""
    for arm in range(old.begins.size, pages.begins.size):
        pages.begins[arm] = pages.used[_USED_ENTRIES]
        pages.room[arm] = _FIRST_DIRECTORY
        pages.length[arm] = 0
        pages.used[_USED_ENTRIES] += _FIRST_DIRECTORY


def make_pages(arms: int, capacity: int) -> Pages:
    """Room for ``capacity`` numbers, if all pages except one per arm are at least half full."""
    # A split leaves two half-full pages, so that a full pool may be half empty.
    count = arms + 2 * capacity // PAGE + 1
    return Pages(
        pool=np.zeros(count * PAGE),
        directory=np.zeros(_FIRST_DIRECTORY * (arms + count), dtype=np.int32),
        begins=np.arange(arms, dtype=np.int64) * _FIRST_DIRECTORY,
        room=np.full(arms, _FIRST_DIRECTORY, dtype=np.int64),
        length=np.zeros(arms, dtype=np.int64),
        used=np.array([0, arms * _FIRST_DIRECTORY], dtype=np.int64),
    )


@inlined
def page_start(pages: Pages, arm: int, number: int) -> int:
    """Return the position in the pool at which the arm's page of this number begins."""
    page: int = pages.directory[pages.begins[arm] + number] * np.int64(PAGE)
    return page


@inlined
def number_at(pages: Pages, arm: int, place: int) -> float:
    """Return an arm's number at a place, if its pages are filled one after the other."""
    number: float = pages.pool[page_start(pages, arm, place // PAGE) + place % PAGE]
    return number


@inlined
def append(pages: Pages, arm: int, place: int, number: float) -> bool:
    """Put a number at the first free place of an arm; False if there is no room."""
    page = place // PAGE
    if page >= pages.length[arm] and not insert_page(pages, arm, page):
        return False
    pages.pool[page_start(pages, arm, page) + place % PAGE] = number
    return True


@inlined
def insert_page(pages: Pages, arm: int, number: int) -> bool:
    """Give the arm a new page at this number; False if there is none left."""
    fresh = pages.used[_USED_PAGES]
    if PAGE * fresh >= pages.pool.size:
        return False
    if pages.length[arm] == pages.room[arm] and not _move_directory(pages, arm):
        return False
    begin = pages.begins[arm]
    for entry in range(begin + pages.length[arm], begin + number, -1):
        pages.directory[entry] = pages.directory[entry - 1]
    pages.directory[begin + number] = fresh
    pages.used[_USED_PAGES] = fresh + 1
    pages.length[arm] += 1
    return True


@inlined
def _move_directory(pages: Pages, arm: int) -> bool:
    """Move an arm's directory to a new one of twice the length; False if there is no room."""
    begin, target = pages.begins[arm], pages.used[_USED_ENTRIES]
    # Old directories are not used again. As lengths double, those of an arm together are shorter
    # than its new one, and ``make_pages`` has made room for that.
    room = 2 * pages.room[arm]
    if target + room > pages.directory.size:
        return False
    for entry in range(pages.length[arm]):
        pages.directory[target + entry] = pages.directory[begin + entry]
    pages.begins[arm] = target
    pages.room[arm] = room
    pages.used[_USED_ENTRIES] = target + room
    return True


_HALF = PAGE // 2


class Ordered(NamedTuple):
    """Pages of sorted rewards; ``fill``, ``least`` and ``totals`` have an entry for each page."""

    pages: Pages
    fill: npt.NDArray[np.int32]
    least: npt.NDArray[np.float64]
    totals: npt.NDArray[np.float64]
    sizes: npt.NDArray[np.int64]
    """Rewards kept of each arm."""
    cursor_page: npt.NDArray[np.int64]
    """For each arm and cursor a page's number in the arm's directory."""
    cursor_rank: npt.NDArray[np.int64]
    """The rank of the first reward on that page."""


@index_limits(Ordered)
def limit_indices_of_ordered(state: Ordered) -> Iterator[tuple[Any, Any]]:
    yield state.pages.directory, state.fill.size
    yield state.fill, PAGE + 1
    yield state.cursor_page, state.pages.length[:, np.newaxis]


def rewards_in_order(ordered: Ordered, arm: int) -> npt.NDArray[np.float64]:
    """All rewards kept of an arm, the smallest first."""
    begin, length = int(ordered.pages.begins[arm]), int(ordered.pages.length[arm])
    pages = ordered.pages.directory[begin : begin + length]
    kept = np.arange(PAGE) < ordered.fill[pages][:, np.newaxis]
    rewards: npt.NDArray[np.float64] = ordered.pages.pool.reshape(-1, PAGE)[pages][kept]
    return rewards


@grown_by(Ordered)
def give_first_pages(ordered: Ordered, old: Ordered) -> None:
    """Give each new arm its first page, as it has one from the start."""
    for arm in range(old.sizes.size, ordered.sizes.size):
        insert_page(ordered.pages, arm, 0)
        ordered.fill[ordered.pages.directory[ordered.pages.begins[arm]]] = 0


def make_ordered(arms: int, capacity: int, cursors: int) -> Ordered:
    """Room for ``capacity`` rewards of all arms together."""
    pages = make_pages(arms, capacity)
    count = pages.pool.size // PAGE
    ordered = Ordered(
        pages=pages,
        fill=np.zeros(count, dtype=np.int32),
        least=np.zeros(count),
        totals=np.zeros(count),
        sizes=np.zeros(arms, dtype=np.int64),
        cursor_page=np.zeros((arms, cursors), dtype=np.int64),
        cursor_rank=np.zeros((arms, cursors), dtype=np.int64),
    )
    for arm in range(arms):
        insert_page(pages, arm, 0)
    return ordered


@inlined
def insert(ordered: Ordered, arm: int, reward: float) -> bool:
    """Insert a reward in order; return False, without a change, if there is no room for it."""
    number = _page_for(ordered, arm, reward)
    page = page_start(ordered.pages, arm, number) // PAGE
    if ordered.fill[page] == PAGE:
        if not _split(ordered, arm, number):
            return False
        # The page was chosen before it was split.
        if reward >= ordered.pages.pool[page_start(ordered.pages, arm, number + 1)]:
            number += 1
        page = page_start(ordered.pages, arm, number) // PAGE
    _insert_on_page(ordered, page, reward)
    ordered.sizes[arm] += 1
    # A cursor stores the rank of the first reward on its page, so a reward that was inserted on
    # an earlier page moves that rank by one.
    for cursor in range(ordered.cursor_page.shape[1]):
        if number < ordered.cursor_page[arm, cursor]:
            ordered.cursor_rank[arm, cursor] += 1
    return True


@inlined
def _page_for(ordered: Ordered, arm: int, reward: float) -> int:
    """Find the last page whose first reward does not exceed ``reward``, or else the first page."""
    low, high = 0, ordered.pages.length[arm] - 1
    begin = ordered.pages.begins[arm]
    while low < high:
        middle = (low + high + 1) // 2
        if ordered.least[ordered.pages.directory[begin + middle]] <= reward:
            low = middle
        else:
            high = middle - 1
    return low


@inlined
def _split(ordered: Ordered, arm: int, number: int) -> bool:
    """Move the upper half of a full page to a new one after it."""
    pages = ordered.pages
    if not insert_page(pages, arm, number + 1):
        return False
    source, target = page_start(pages, arm, number), page_start(pages, arm, number + 1)
    for place in range(_HALF):
        pages.pool[target + place] = pages.pool[source + _HALF + place]
    ordered.least[target // PAGE] = pages.pool[target]
    for half in (source, target):
        ordered.fill[half // PAGE] = _HALF
        # Summed again rather than subtracted, so that rounding errors do not accumulate.
        ordered.totals[half // PAGE] = _sum(pages.pool, half, half + _HALF)
    # A cursor on the page that was split stays on its lower half, whose first rank is unchanged.
    for cursor in range(ordered.cursor_page.shape[1]):
        if number < ordered.cursor_page[arm, cursor]:
            ordered.cursor_page[arm, cursor] += 1
    return True


@inlined
def _sum(pool: npt.NDArray[np.float64], first: int, last: int) -> float:
    total = 0.0
    for place in range(first, last):
        total += pool[place]
    return total


@inlined
def _insert_on_page(ordered: Ordered, page: int, reward: float) -> None:
    """Insert a reward on a page that has room."""
    pool, begin = ordered.pages.pool, PAGE * page
    place = begin + np.int64(ordered.fill[page])
    while place > begin and pool[place - 1] > reward:
        pool[place] = pool[place - 1]
        place -= 1
    pool[place] = reward
    ordered.fill[page] += 1
    ordered.totals[page] += reward
    # Kept apart from the pages, so that ``_page_for`` need not touch a page at each step.
    ordered.least[page] = pool[begin]


@inlined
def reward_of_rank(ordered: Ordered, arm: int, cursor: int, rank: int) -> float:
    """Return the arm's reward of this rank, counted from 0; ``rank`` must be below its size."""
    # Walk from the page where the cursor was last: ranks that are asked for move slowly.
    pages, number = ordered.pages, ordered.cursor_page[arm, cursor]
    first = ordered.cursor_rank[arm, cursor]
    start = page_start(pages, arm, number)
    while rank < first:
        number -= 1
        start = page_start(pages, arm, number)
        first -= ordered.fill[start // PAGE]
    while rank >= first + ordered.fill[start // PAGE]:
        first += ordered.fill[start // PAGE]
        number += 1
        start = page_start(pages, arm, number)
    ordered.cursor_page[arm, cursor] = number
    ordered.cursor_rank[arm, cursor] = first
    return pages.pool[start + rank - first]


@inlined
def median(ordered: Ordered, arm: int, cursor: int) -> float:
    """Return the middle reward, or the mean of the two middle ones; there must be rewards."""
    size = ordered.sizes[arm]
    upper = reward_of_rank(ordered, arm, cursor, size // 2)
    if size % 2 == 1:
        return upper
    return 0.5 * (upper + reward_of_rank(ordered, arm, cursor, size // 2 - 1))


@inlined
def sum_of_ranks(ordered: Ordered, arm: int, cursor: int, first: int, last: int) -> float:
    """Sum of the rewards with ranks from ``first`` up to, not including, ``last``."""
    total = 0.0
    while first < last:
        reward_of_rank(ordered, arm, cursor, first)
        begin = page_start(ordered.pages, arm, ordered.cursor_page[arm, cursor])
        rank, fill = ordered.cursor_rank[arm, cursor], ordered.fill[begin // PAGE]
        if first == rank and rank + fill <= last:  # all of the page
            total += ordered.totals[begin // PAGE]
        else:
            end = min(rank + fill, last)
            total += _sum(ordered.pages.pool, begin + first - rank, begin + end - rank)
        first = rank + fill
    return total


_MOST = 2**31


class HistoryPolicy(CountingPolicy, frozen=True):
    """A counting policy that stores every reward, so that its memory grows with the horizon."""

    loses_arms: ClassVar[bool] = True

    def room(self, horizon: int) -> int:
        """Return how many rewards to make room for; refuse more than memory could hold.

        Args:
            horizon: the number of rounds that are planned.
        """
        if horizon > _MOST:
            raise InvalidParameter(
                f"{self.tag()} keeps all rewards, so horizon must be at most {_MOST}; "
                f"got {horizon}."
            )
        return horizon
