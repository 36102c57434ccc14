"""Compiled calls for live traffic: decisions and rewards, singly or in batches.

Changes that belong together, a decision and its number or a reward and the bit that marks it as
received, are made in one compiled call that holds the interpreter lock. A signal handler runs only
between Python instructions, so that an exception raised by one (Ctrl-C) cannot separate them.

The calls have fixed argument types. Otherwise Numba would compile again for every new combination
of Python types, and would spend most of each call on determining the types.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.np.numpy_support import from_dtype

from armrace.kernels.compiling import entry, inlined
from armrace.kernels.generics import (
    NO_LAYER,
    Ticket,
    assign,
    choose,
    distribution,
    drop,
    learn,
)
from armrace.kernels.streams import Stream, tell
from armrace.kernels.unowned_arrays import Handle, opened

__all__ = [
    "ADDED_EVENT",
    "ASSIGNED",
    "ASSIGNED_EVENT",
    "DECISION",
    "DECISIONS",
    "DROPPED_EVENT",
    "EVENTS",
    "FIRST",
    "LEARNED_EVENT",
    "NO_ROOM",
    "REPEATED",
    "REWARDS",
    "SETTLED",
    "TAKEN",
    "UNKNOWN",
    "Live",
    "LiveCalls",
    "Log",
    "enlarge_log",
    "live_entries",
    "make_live_calls",
    "make_log",
    "ticket_fits",
    "ticket_of",
]

TAKEN, UNKNOWN, REPEATED = 0, 1, 2
"""Status of a reward: accepted; no decision matches it; its decision already had a reward."""

DECISIONS, REWARDS, SETTLED = 0, 1, 2
"""Positions in ``Live.counters``: number of decisions, number of rewards, and the decision that the
first bit of ``rewarded`` stands for. All earlier decisions have had their reward."""

NO_ROOM = -1
"""The number of a decision that was not made because there is no room to record it."""

DECISION = np.dtype(
    [
        ("number", np.int64),
        ("taken", np.int64),  # position of the stream after the decision
        ("arm", np.int64),
        ("layer", np.int64),
        ("probability", np.float64),
        ("phase", np.int64),
        ("memo", np.float64),
        ("inner_layer", np.int64),
        ("inner_probability", np.float64),
    ]
)
"""A decision as a record: its number, the position of the stream, and its ticket."""


ASSIGNED_EVENT, LEARNED_EVENT, DROPPED_EVENT, ADDED_EVENT = range(4)
"""Kinds of events in a log."""

FIRST, ASSIGNED, EVENTS = 0, 1, 2
"""Positions in ``Log.counters``: number of its first decision, count of decisions and of events."""


class Log(NamedTuple):
    """Decisions and events in order; a decision needs room for its reward too."""

    decisions: Any
    """Records of type :data:`DECISION`; of length 0 if no log is kept."""
    kinds: npt.NDArray[np.uint8]
    numbers: npt.NDArray[np.int64]
    """The decision that each event is about."""
    rewards: npt.NDArray[np.float64]
    counters: npt.NDArray[np.int64]


class Live(NamedTuple):
    """A policy's state, the stream it decides with, and which decisions have had a reward."""

    policy: Any
    stream: Stream
    counters: npt.NDArray[np.int64]
    rewarded: npt.NDArray[np.uint8]
    """One bit per decision from ``counters[SETTLED]`` on, with room for further decisions."""
    shape: npt.NDArray[np.int64]
    """Numbers of arms and of layers, and whether tickets carry their probability."""
    log: Log


def make_log(room: int, first: int) -> Log:
    """Make an empty log with room for ``room`` decisions and their rewards.

    Args:
        room: the number of decisions.
        first: the number of the first decision.

    Returns:
        The log.
    """
    return Log(
        decisions=np.zeros(room, dtype=DECISION).view(np.recarray),
        kinds=np.zeros(2 * room, dtype=np.uint8),
        numbers=np.zeros(2 * room, dtype=np.int64),
        rewards=np.zeros(2 * room),
        counters=np.array([first, 0, 0], dtype=np.int64),
    )


def enlarge_log(log: Log, decisions: int, events: int) -> Log:
    """Copy a log, with room for this many more decisions and events."""
    return Log(
        decisions=_enlarged(log.decisions, decisions).view(np.recarray),
        kinds=_enlarged(log.kinds, events),
        numbers=_enlarged(log.numbers, events),
        rewards=_enlarged(log.rewards, events),
        counters=log.counters,
    )


def _enlarged(array: np.ndarray, room: int) -> np.ndarray:
    return np.concatenate([np.asarray(array), np.zeros(room, dtype=array.dtype)])


_LEAST_PROBABILITY, _LARGEST_PROBABILITY = 1e-100, 1.0 + 1e-9
_LARGEST_MEMO = 1e100


class LiveCalls(NamedTuple):
    """What the online learner calls, one member for each call."""

    choose: Any
    choose_among: Any
    assign: Any
    decide: Any
    learn: Any
    drop: Any
    distribution: Any
    decide_many: Any
    learn_many: Any


def ticket_of(record: Any) -> Ticket:
    """The ticket in a record of a decision."""
    return Ticket(*record.item()[2:])


@inlined
def _unpacked(
    live: Live, ticket: Ticket
) -> tuple[int, int, int, int, float, int, float, int, float]:
    """Return the latest decision as plain numbers, in the order of :data:`DECISION`."""
    return (
        live.counters[DECISIONS] - 1,
        tell(live.stream),
        ticket.arm,
        ticket.layer,
        ticket.probability,
        ticket.phase,
        ticket.memo,
        ticket.inner_layer,
        ticket.inner_probability,
    )


@inlined
def _write(record: Any, live: Live, ticket: Ticket) -> None:
    """Write the latest decision into a record."""
    record.number = live.counters[DECISIONS] - 1
    record.taken = tell(live.stream)
    record.arm = ticket.arm
    record.layer = ticket.layer
    record.probability = ticket.probability
    record.phase = ticket.phase
    record.memo = ticket.memo
    record.inner_layer = ticket.inner_layer
    record.inner_probability = ticket.inner_probability


@inlined
def _read(record: Any) -> Ticket:
    """The ticket in a record."""
    return Ticket(
        record.arm,
        record.layer,
        record.probability,
        record.phase,
        record.memo,
        record.inner_layer,
        record.inner_probability,
    )


@inlined
def _is_same(one: Ticket, other: Ticket) -> bool:
    # Policies that do not compute the probability put NaN on tickets, and NaN differs from NaN.
    same_probability = one.probability == other.probability or (
        np.isnan(one.probability) and np.isnan(other.probability)
    )
    return (
        same_probability
        and one.arm == other.arm
        and one.layer == other.layer
        and one.phase == other.phase
        and one.memo == other.memo
        and one.inner_layer == other.inner_layer
        and one.inner_probability == other.inner_probability
    )


@inlined
def _add_event(log: Log, kind: int, number: int, reward: float) -> None:
    if log.decisions.size > 0:
        place = log.counters[EVENTS]
        log.kinds[place] = kind
        log.numbers[place] = number
        log.rewards[place] = reward
        log.counters[EVENTS] = place + 1


@inlined
def _has_room(live: Live) -> bool:
    """Whether one more decision can be recorded."""
    counters, log = live.counters, live.log
    logged = log.decisions.size == 0 or log.counters[ASSIGNED] < log.decisions.size
    return logged and counters[DECISIONS] - counters[SETTLED] < 8 * live.rewarded.size


@inlined
def _no_decision() -> tuple[int, int, int, int, float, int, float, int, float]:
    """Return the placeholder for a decision that was not made because there is no room."""
    return NO_ROOM, 0, 0, 0, 0.0, 0, 0.0, 0, 0.0


@inlined
def _assign_next(live: Live, ticket: Ticket) -> Ticket:
    number, log = live.counters[DECISIONS], live.log
    # The number is taken before the policy acts: whatever goes wrong in ``assign``, no two
    # decisions get the same number. ``_write`` also reads the number from this counter.
    live.counters[DECISIONS] = number + 1
    completed = assign(live.policy, ticket)
    if log.decisions.size > 0:
        _write(log.decisions[log.counters[ASSIGNED]], live, completed)
        log.counters[ASSIGNED] += 1
    _add_event(log, ASSIGNED_EVENT, number, 0.0)
    return completed


@inlined
def ticket_fits(ticket: Ticket, arms: int, layers: int, exact: bool) -> bool:
    """Whether a policy with so many arms and layers could have given a ticket.

    Compiled code checks the bounds of arms and layers nowhere else. The limits of numbers keep
    sums of estimates finite; shares of layers may add to slightly more than 1. ``exact`` says
    whether the policy computes the probabilities of its tickets.
    """
    sound = _LEAST_PROBABILITY <= ticket.probability <= _LARGEST_PROBABILITY
    return (
        0 <= ticket.arm < arms
        and NO_LAYER <= ticket.layer < layers
        and NO_LAYER <= ticket.inner_layer < layers
        and (sound or not exact)
        and _LEAST_PROBABILITY <= ticket.inner_probability <= _LARGEST_PROBABILITY
        and abs(ticket.memo) <= _LARGEST_MEMO
    )


@inlined
def _status(live: Live, number: int, ticket: Ticket) -> int:
    """Whether a reward can be taken."""
    known = 0 <= number < live.counters[DECISIONS]
    if not (known and ticket_fits(ticket, live.shape[0], live.shape[1], live.shape[2] != 0)):
        return UNKNOWN
    # A logged decision must match its ticket in full; without a log, ranges are all that can be
    # checked.
    place = number - live.log.counters[FIRST]
    logged = live.log.decisions.size > 0 and place >= 0
    if logged and not _is_same(_read(live.log.decisions[place]), ticket):
        return UNKNOWN
    later = number - live.counters[SETTLED]
    if later < 0:
        return REPEATED
    return REPEATED if live.rewarded[later >> 3] & np.uint8(1 << (later & 7)) else TAKEN


@inlined
def _mark(live: Live, number: int) -> None:
    later = number - live.counters[SETTLED]
    live.rewarded[later >> 3] |= np.uint8(1 << (later & 7))
    live.counters[REWARDS] += 1


@cache
def live_entries(code: str) -> LiveCalls:
    """The functions behind a learner's calls, before they are compiled for a type of handle."""

    @entry(code, holds_lock=True)
    def live_choose(handle: Handle) -> tuple[Any, ...]:
        live = opened(handle)
        return _unpacked(live, choose(live.policy, live.stream, None))

    @entry(code, holds_lock=True)
    def live_choose_among(handle: Handle, eligible: npt.NDArray[np.bool_]) -> tuple[Any, ...]:
        live = opened(handle)
        return _unpacked(live, choose(live.policy, live.stream, eligible))

    @entry(code, holds_lock=True)
    def live_assign(
        handle: Handle,
        arm: int,
        layer: int,
        probability: float,
        phase: int,
        memo: float,
        inner_layer: int,
        inner_probability: float,
    ) -> tuple[Any, ...]:
        live = opened(handle)
        if not _has_room(live):
            return _no_decision()
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        return _unpacked(live, _assign_next(live, ticket))

    @entry(code, holds_lock=True)
    def live_decide(handle: Handle) -> tuple[Any, ...]:
        live = opened(handle)
        if not _has_room(live):
            return _no_decision()
        return _unpacked(live, _assign_next(live, choose(live.policy, live.stream, None)))

    @entry(code, holds_lock=True)
    def live_learn(
        handle: Handle,
        number: int,
        arm: int,
        layer: int,
        probability: float,
        phase: int,
        memo: float,
        inner_layer: int,
        inner_probability: float,
        reward: float,
    ) -> int:
        live = opened(handle)
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        status = _status(live, number, ticket)
        if status == TAKEN:
            # Marked first: if learning failed, the reward would be lost but never count twice.
            _mark(live, number)
            learn(live.policy, ticket, reward)
            _add_event(live.log, LEARNED_EVENT, number, reward)
        return status

    @entry(code, holds_lock=True)
    def live_drop(
        handle: Handle,
        number: int,
        arm: int,
        layer: int,
        probability: float,
        phase: int,
        memo: float,
        inner_layer: int,
        inner_probability: float,
    ) -> int:
        live = opened(handle)
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        status = _status(live, number, ticket)
        if status == TAKEN:
            _mark(live, number)
            drop(live.policy, ticket)
            _add_event(live.log, DROPPED_EVENT, number, 0.0)
        return status

    @entry(code, holds_lock=True)
    def live_distribution(handle: Handle, out: npt.NDArray[np.float64]) -> None:
        distribution(opened(handle).policy, out)

    @entry(code, holds_lock=True)
    def live_decide_many(handle: Handle, out: Any) -> int:
        """Make decisions until ``out`` is full or there is no room; return how many were made."""
        live = opened(handle)
        for place in range(out.size):
            if not _has_room(live):
                return place
            ticket = _assign_next(live, choose(live.policy, live.stream, None))
            _write(out[place], live, ticket)
        return out.size

    @entry(code, holds_lock=True)
    def live_learn_many(
        handle: Handle, records: Any, rewards: npt.NDArray[np.float64]
    ) -> tuple[int, int]:
        """Learn rewards in order; stop at the first that is refused.

        Returns how many were learned, and the status of the one refused.
        """
        live = opened(handle)
        for place in range(records.size):
            number, ticket = records[place].number, _read(records[place])
            status = _status(live, number, ticket)
            if status != TAKEN:
                return place, status
            _mark(live, number)
            learn(live.policy, ticket, rewards[place])
            _add_event(live.log, LEARNED_EVENT, number, rewards[place])
        return records.size, TAKEN

    return LiveCalls(
        choose=live_choose,
        choose_among=live_choose_among,
        assign=live_assign,
        decide=live_decide,
        learn=live_learn,
        drop=live_drop,
        distribution=live_distribution,
        decide_many=live_decide_many,
        learn_many=live_learn_many,
    )


@cache
def make_live_calls(code: str, kind: Any) -> LiveCalls:
    """The compiled calls for one type of handle, with the fingerprint ``code``.

    What every learner needs is compiled here, so that no decision waits for the compiler; the
    rest is compiled when it is first called.
    """
    integer, number = types.int64, types.float64
    ticket = (integer, integer, number, integer, number, integer, number)
    numbers, flags = types.Array(number, 1, "C"), types.Array(types.boolean, 1, "C")
    records = types.Array(from_dtype(DECISION), 1, "C")
    argument_types = LiveCalls(
        choose=(kind,),
        choose_among=(kind, flags),
        assign=(kind, *ticket),
        decide=(kind,),
        learn=(kind, integer, *ticket, number),
        drop=(kind, integer, *ticket),
        distribution=(kind, numbers),
        decide_many=(kind, records),
        learn_many=(kind, records, numbers),
    )
    entries = live_entries(code)
    calls = LiveCalls(*map(_entry_point_later, entries, argument_types))
    return calls._replace(
        decide=_entry_point(entries.decide, argument_types.decide),
        learn=_entry_point(entries.learn, argument_types.learn),
    )


def _entry_point(function: Any, argument_types: tuple[Any, ...]) -> Callable[..., Any]:
    """Compile a function for these types and return its entry point, which skips type dispatch."""
    function.compile(argument_types)
    return function.overloads[argument_types].entry_point


def _entry_point_later(function: Any, argument_types: tuple[Any, ...]) -> Callable[..., Any]:
    """As :func:`_entry_point`, but compile at the first call: not every learner needs it."""
    found: list[Callable[..., Any]] = []

    def call(*arguments: Any) -> Any:
        if not found:
            found.append(_entry_point(function, argument_types))
        return found[0](*arguments)

    return call
