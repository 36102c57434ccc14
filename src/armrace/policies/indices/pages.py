"""A pool of pages in which every arm has a growing list of numbers.

All memory is allocated at the start, since the arrays of a state cannot grow, and touched only when
used. An arm's pages are listed in its directory, a contiguous part of a second pool; a full
directory is moved to one of twice the length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.states import grown_by, index_limits

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
