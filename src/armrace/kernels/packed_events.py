"""Reading decisions and rewards of a log from MessagePack into arrays.

An event is an array ``[kind, time, experiment, ...]``. Only what is frequent in a log is read
in full, and only as it is usually written; every other event is marked as *unread* and left to a
decoder that knows all of MessagePack. Positions that are read never leave the bytes of an event.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from armrace.kernels.compiling import entry, fingerprint, inlined, outlined
from armrace.kernels.event_log import DECISION, write_decision
from armrace.kernels.generics import SAME_ARM, Ticket

__all__ = [
    "CONTRADICTED",
    "DECIDED",
    "PACKED",
    "REWARDED",
    "TICKED",
    "UNREAD",
    "make_reader",
    "read_events",
]

DECIDED, REWARDED, TICKED, CONTRADICTED = 1, 2, 8, 9
"""The kinds of events that are read; of the last two, only the beginning is."""

_DECIDED_AHEAD = 11
"""Decisions drawn ahead are read as decisions, without where their numbers come from."""

UNREAD = -1
"""The kind of an event that is left to another decoder."""

PACKED = np.dtype(
    [
        ("begin", np.int64),  # of the event in the bytes of all
        ("end", np.int64),
        ("kind", np.int64),
        ("time", np.int64),
        ("experiment", np.int64),
        ("arm", np.int64),
        ("has_ticket", np.int64),
        ("taken", np.int64),
        ("shares_at", np.int64),  # where bytes or text begin, and where they end
        ("shares_end", np.int64),
        ("decision", np.int64),
        ("steps", np.int64),
        ("source_at", np.int64),  # both -1 if there is none
        ("source_end", np.int64),
        ("suspicion", np.float64),  # NaN if there is none
    ]
)
"""An event as a record; of a decision without its ticket."""

_NIL, _DOUBLE = 0xC0, 0xCB
_FAILED = -1
"""The position after what could not be read."""
_TICKET_SIZE, _DECIDED_SIZE, _REWARDED_SIZE, _DECIDED_AHEAD_SIZE = 8, 10, 7, 13
_EARLIER_TICKET_SIZE = 7
"""The members of a ticket in logs of earlier versions, which had no ``inner_arm``."""


@inlined
def _read_big_endian(data: Any, at: int, size: int) -> Any:
    value = np.uint64(0)
    for place in range(at, at + size):
        value = (value << np.uint64(8)) | np.uint64(data[place])
    return value


@outlined
def _read_integer(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return a whole number and the position after it; negative ones are read in one byte only.

    Tickets have no others: layers and inner arms that are none are -1 and -2.
    """
    if at < 0 or at >= end:
        return 0, _FAILED
    head: Any = np.int64(data[at])
    if head < 0x80:
        return head, at + 1
    if head >= 0xE0:
        return head - 0x100, at + 1
    if head < 0xCC or head > 0xCF:
        return 0, _FAILED
    size = 1 << (head - 0xCC)
    if at + 1 + size > end:
        return 0, _FAILED
    # A number of 2^63 or more becomes negative here, and is left to the other decoder.
    value: Any = np.int64(_read_big_endian(data, at + 1, size))
    return value, at + 1 + size if value >= 0 else _FAILED


@outlined
def _read_double(data: Any, at: int, end: int) -> tuple[float, int]:
    if at < 0 or at + 9 > end or data[at] != _DOUBLE:
        return 0.0, _FAILED
    bits = np.uint64(_read_big_endian(data, at + 1, 8))
    return bits.view(np.float64), at + 9


@inlined
def _read_double_or_nil(data: Any, at: int, end: int) -> tuple[float, int]:
    """Return a number, NaN for nil, and the position after it."""
    if 0 <= at < end and data[at] == _NIL:
        return np.nan, at + 1
    return _read_double(data, at, end)


@outlined
def _read_span(data: Any, at: int, end: int, short: int, longest: int) -> tuple[int, int]:
    """Return where text or bytes begin, and the position after them.

    Args:
        data: the bytes of all events.
        at: where to read.
        end: the end of the event.
        short: the head of text of no more than 31 bytes, or 0 if there is no such form.
        longest: the head of the form whose length takes one byte; the next two follow it.
    """
    if at < 0 or at >= end:
        return _FAILED, _FAILED
    head: Any = np.int64(data[at])
    begin: Any = at + 1
    size: Any = np.int64(0)
    if short and head >> 5 == short >> 5:
        size = head & 0x1F
    elif longest <= head <= longest + 2:
        width = 1 << (head - longest)
        if begin + width > end:
            return _FAILED, _FAILED
        size = np.int64(_read_big_endian(data, begin, width))
        begin += width
    else:
        return _FAILED, _FAILED
    return begin, begin + size if begin + size <= end else _FAILED


@inlined
def _read_text_or_nil(data: Any, at: int, end: int) -> tuple[int, int]:
    if 0 <= at < end and data[at] == _NIL:
        return -1, at + 1
    return _read_span(data, at, end, 0xA0, 0xD9)


@outlined
def _read_ticket(data: Any, at: int, end: int) -> tuple[Ticket, int]:
    """Return a ticket, and the position after it."""
    size = np.int64(data[at]) - 0x90 if 0 <= at < end else -1
    if not _EARLIER_TICKET_SIZE <= size <= _TICKET_SIZE:
        return Ticket(0, 0, 0.0, 0, 0.0, 0, 0.0, SAME_ARM), _FAILED
    # A failed read returns a negative position, from which every later read fails too: one look at
    # the last position is enough.
    arm, at = _read_integer(data, at + 1, end)
    layer, at = _read_integer(data, at, end)
    probability, at = _read_double(data, at, end)
    phase, at = _read_integer(data, at, end)
    memo, at = _read_double(data, at, end)
    inner_layer, at = _read_integer(data, at, end)
    inner_probability, at = _read_double(data, at, end)
    inner_arm = SAME_ARM
    if size == _TICKET_SIZE:
        inner_arm, at = _read_integer(data, at, end)
    ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability, inner_arm)
    return ticket, at


@inlined
def _read_decision(data: Any, at: int, end: int, event: Any, decision: Any) -> int:
    """Read what follows the head of a decision; return the position after it."""
    event.arm, at = _read_integer(data, at, end)
    if 0 <= at < end and data[at] == _NIL:
        at += 1
    else:
        ticket, at = _read_ticket(data, at, end)
        write_decision(decision, -1, 0, ticket)
        event.has_ticket = 1
    event.taken, at = _read_integer(data, at, end)
    _, at = _read_double_or_nil(data, at, end)
    event.shares_at, at = _read_span(data, at, end, 0, 0xC4)
    event.shares_end = at
    _, at = _read_text_or_nil(data, at, end)
    _, at = _read_text_or_nil(data, at, end)
    return at


@inlined
def _read_reward(data: Any, at: int, end: int, event: Any) -> int:
    """Read what follows the head of a reward; return the position after it."""
    event.decision, at = _read_integer(data, at, end)
    event.steps, at = _read_integer(data, at, end)
    event.source_at, at = _read_text_or_nil(data, at, end)
    event.source_end = -1 if event.source_at < 0 else at
    event.suspicion, at = _read_double_or_nil(data, at, end)
    return at


@inlined
def _read_event(data: Any, at: int, end: int, event: Any, decision: Any) -> None:
    """Read an event into its records; mark it as unread unless it ends where it should."""
    size = np.int64(data[at]) - 0x90 if at < end else -1
    kind, at = _read_integer(data, at + 1, end)
    event.time, at = _read_integer(data, at, end)
    event.experiment, at = _read_integer(data, at, end)
    if kind == DECIDED and size == _DECIDED_SIZE:
        at = _read_decision(data, at, end, event, decision)
    elif kind == _DECIDED_AHEAD and size == _DECIDED_AHEAD_SIZE:
        at = _read_decision(data, at, end, event, decision)
        for _ in range(_DECIDED_AHEAD_SIZE - _DECIDED_SIZE):
            _, at = _read_integer(data, at, end)
        kind = DECIDED
    elif kind == REWARDED and size == _REWARDED_SIZE:
        at = _read_reward(data, at, end, event)
    elif not ((kind == TICKED and size == 3) or (kind == CONTRADICTED and size == 4)):
        at = _FAILED
    elif kind == CONTRADICTED:
        event.decision, at = _read_integer(data, at, end)
    event.kind = kind if at == end else UNREAD


@cache
def make_reader() -> Any:
    """Return the compiled reader, which is made when it is first needed."""

    @entry(fingerprint([]))
    def read_all(data: Any, ends: Any, events: Any, decisions: Any) -> None:
        at = 0
        for place in range(ends.size):
            events[place].begin, events[place].end = at, ends[place]
            _read_event(data, at, ends[place], events[place], decisions[place])
            at = ends[place]

    return read_all


def read_events(content: bytes, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Read events that follow one another.

    Args:
        content: their bytes.
        ends: where each of them ends.

    Returns:
        Records of the type :data:`PACKED`, and the tickets of decisions as records of the type
        ``DECISION``, one of each for every event.
    """
    events = np.zeros(ends.size, dtype=PACKED)
    decisions = np.zeros(ends.size, dtype=DECISION)
    data = np.frombuffer(content, dtype=np.uint8)
    make_reader()(data, ends, events.view(np.recarray), decisions.view(np.recarray))
    return events, decisions
