"""Decisions as records, and the log of decisions and events that a learner keeps."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Ticket, spelled

DECISION = np.dtype(
    [
        ("number", np.int64),
        ("taken", np.int64),  # position of the stream after the decision
        *(
            (name, np.int64 if kind is int else np.float64)
            for name, kind in get_type_hints(Ticket).items()
        ),
    ]
)
"""A decision as a record: its number, the position of the stream, and its ticket."""


(
    ASSIGNED_EVENT,
    LEARNED_EVENT,
    DROPPED_EVENT,
    ADDED_EVENT,
    PAUSED_EVENT,
    RESUMED_EVENT,
) = range(6)
"""Kinds of events in a log."""

_FORMS = {np.dtype(np.int64): "q", np.dtype(np.float64): "d"}
PACKED = struct.Struct("=" + "".join(_FORMS[DECISION[name]] for name in DECISION.names or ()))
"""How a record of a decision is packed in memory."""

FIRST, ASSIGNED, EVENTS = 0, 1, 2
"""Positions in ``EventArrays.counters``: its first decision, counts of decisions and of events."""


class EventArrays(NamedTuple):
    """Decisions and events in order; a decision needs room for its reward too."""

    decisions: Any
    """Records of type :data:`DECISION`; of length 0 if no log is kept."""
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    """The decision, or the arm, that each event is about."""
    rewards: npt.NDArray[np.float64]
    counters: npt.NDArray[np.int64]


def make_log(room: int) -> EventArrays:
    """Make an empty log with room for ``room`` decisions and their rewards."""
    return EventArrays(
        decisions=np.zeros(room, dtype=DECISION).view(np.recarray),
        kinds=np.zeros(2 * room, dtype=np.uint8),
        numbers=np.zeros(2 * room, dtype=np.int64),
        rewards=np.zeros(2 * room),
        counters=np.zeros(3, dtype=np.int64),
    )


def enlarge_log(log: EventArrays, decisions: int, events: int) -> EventArrays:
    """Copy a log, with room for this many more decisions and events."""
    return EventArrays(
        decisions=_enlarged(log.decisions, decisions).view(np.recarray),
        kinds=_enlarged(log.kinds, events),
        numbers=_enlarged(log.numbers, events),
        rewards=_enlarged(log.rewards, events),
        counters=log.counters,
    )


def _enlarged(array: np.ndarray, room: int) -> np.ndarray:
    return np.concatenate([np.asarray(array), np.zeros(room, dtype=array.dtype)])


def ticket_of(record: Any) -> Ticket:
    """The ticket in a record of a decision."""
    return Ticket(*record.item()[2:])


@inlined
def write_decision(record: Any, number: int, taken: int, ticket: Ticket) -> None:
    """Write a decision, and the position of the stream after it, into a record."""
    record.number = number
    record.taken = taken
    _write_ticket(record, ticket)


_write_ticket = spelled(
    "def write_ticket(record, ticket):\n    {members}",
    "record.{name} = ticket.{name}",
    "\n    ",
)

read_ticket: Callable[[Any], Ticket] = spelled(
    "def read_ticket(record): return Ticket({members})", "record.{name}", ", "
)
"""The ticket in a record, or in a decision that Python passed."""

# Policies that do not compute the probability put NaN on tickets, and NaN differs from NaN.
_is_same: Callable[[Ticket, Ticket], bool] = spelled(
    "def is_same(one, other): return {members}",
    "(one.{name} == other.{name} or (one.{name} != one.{name} and other.{name} != other.{name}))",
    " and ",
)


@inlined
def has_log(log: EventArrays) -> bool:
    """Whether decisions and events are kept."""
    return log.decisions.size > 0


@inlined
def has_room(log: EventArrays) -> bool:
    """Whether one more decision can be logged, or none is."""
    return not has_log(log) or log.counters[ASSIGNED] < log.decisions.size


@inlined
def add_decision(log: EventArrays, number: int, taken: int, ticket: Ticket) -> None:
    """Log a decision, if a log is kept."""
    if has_log(log):
        write_decision(log.decisions[log.counters[ASSIGNED]], number, taken, ticket)
        log.counters[ASSIGNED] += 1
    add_event(log, ASSIGNED_EVENT, number, 0.0)


@inlined
def add_event(log: EventArrays, kind: int, number: int, reward: float) -> None:
    """Log an event about a decision, if a log is kept."""
    if has_log(log):
        place = log.counters[EVENTS]
        log.kinds[place] = kind
        log.numbers[place] = number
        log.rewards[place] = reward
        log.counters[EVENTS] = place + 1


@inlined
def differs_from_log(log: EventArrays, number: int, ticket: Ticket) -> bool:
    """Whether the log has the decision with another ticket."""
    # Decisions before the first of the log came from a snapshot; their tickets are not in it.
    place = number - log.counters[FIRST]
    if not has_log(log) or place < 0:
        return False
    return not _is_same(read_ticket(log.decisions[place]), ticket)
