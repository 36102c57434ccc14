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
from armrace.kernels.event_log import (
    DECISION,
    DROPPED_EVENT,
    LEARNED_EVENT,
    Log,
    add_decision,
    add_event,
    differs_from_log,
    has_room,
    read_ticket,
    write_decision,
)
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
    "DECISIONS",
    "NO_ROOM",
    "REPEATED",
    "REWARDS",
    "SETTLED",
    "TAKEN",
    "UNKNOWN",
    "Live",
    "LiveCalls",
    "live_entries",
    "make_live_calls",
    "ticket_fits",
]

TAKEN, UNKNOWN, REPEATED = 0, 1, 2
"""Status of a reward: accepted; no decision matches it; its decision already had a reward."""

DECISIONS, REWARDS, SETTLED = 0, 1, 2
"""Positions in ``Live.counters``: number of decisions, number of rewards, and the decision that the
first bit of ``rewarded`` stands for. All earlier decisions have had their reward."""

NO_ROOM = -1
"""The number of a decision that was not made because there is no room to record it."""


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
    replay: Any


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
def _has_room(live: Live) -> bool:
    """Whether one more decision can be recorded."""
    counters = live.counters
    later = counters[DECISIONS] - counters[SETTLED]
    return has_room(live.log) and later < 8 * live.rewarded.size


@inlined
def _no_decision() -> tuple[int, int, int, int, float, int, float, int, float]:
    """Return the placeholder for a decision that was not made because there is no room."""
    return NO_ROOM, 0, 0, 0, 0.0, 0, 0.0, 0, 0.0


@inlined
def _assign_next(live: Live, ticket: Ticket) -> Ticket:
    number = live.counters[DECISIONS]
    # The number is taken before the policy acts: whatever goes wrong in ``assign``, no two
    # decisions get the same number.
    live.counters[DECISIONS] = number + 1
    completed = assign(live.policy, ticket)
    add_decision(live.log, number, tell(live.stream), completed)
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
    if differs_from_log(live.log, number, ticket):
        return UNKNOWN
    later = number - live.counters[SETTLED]
    if later < 0:
        return REPEATED
    return REPEATED if live.rewarded[later >> 3] & np.uint8(1 << (later & 7)) else TAKEN


@inlined
def _settle(live: Live, number: int, ticket: Ticket) -> int:
    """Mark a decision as rewarded if its reward can be taken, and return whether it can.

    The mark comes before the policy learns: if learning failed, the reward would be lost but never
    count twice.
    """
    status = _status(live, number, ticket)
    if status == TAKEN:
        later = number - live.counters[SETTLED]
        live.rewarded[later >> 3] |= np.uint8(1 << (later & 7))
        live.counters[REWARDS] += 1
    return status


@inlined
def _learn(live: Live, number: int, ticket: Ticket, reward: float) -> int:
    """Learn a reward if it can be taken; return its status."""
    status = _settle(live, number, ticket)
    if status == TAKEN:
        learn(live.policy, ticket, reward)
        add_event(live.log, LEARNED_EVENT, number, reward)
    return status


@inlined
def _drop(live: Live, number: int, ticket: Ticket) -> int:
    """Give up on a reward if it is outstanding; return its status."""
    status = _settle(live, number, ticket)
    if status == TAKEN:
        drop(live.policy, ticket)
        add_event(live.log, DROPPED_EVENT, number, 0.0)
    return status


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
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        return _learn(opened(handle), number, ticket, reward)

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
        ticket = Ticket(arm, layer, probability, phase, memo, inner_layer, inner_probability)
        return _drop(opened(handle), number, ticket)

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
            write_decision(out[place], live.counters[DECISIONS] - 1, tell(live.stream), ticket)
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
            ticket = read_ticket(records[place])
            status = _learn(live, records[place].number, ticket, rewards[place])
            if status != TAKEN:
                return place, status
        return records.size, TAKEN

    @entry(code, holds_lock=True)
    def live_replay(
        handle: Handle,
        records: Any,
        steps: npt.NDArray[np.int64],
        rewards: npt.NDArray[np.float64],
    ) -> tuple[int, int]:
        """Take steps in order; stop at the first that is refused.

        The step ``i`` assigns the record ``i`` and completes it, ``-1 - i`` learns its reward, or
        drops it if that is NaN. Returns how many steps were taken, and the status of the one
        refused.
        """
        live = opened(handle)
        arms, layers, exact = live.shape[0], live.shape[1], live.shape[2] != 0
        for place in range(steps.size):
            step = steps[place]
            if step >= 0:
                ticket = read_ticket(records[step])
                if not ticket_fits(ticket, arms, layers, exact):
                    return place, UNKNOWN
                if not _has_room(live):
                    return place, NO_ROOM
                ticket = _assign_next(live, ticket)
                number = live.counters[DECISIONS] - 1
                write_decision(records[step], number, tell(live.stream), ticket)
            else:
                done = -1 - step
                ticket = read_ticket(records[done])
                if np.isnan(rewards[done]):
                    status = _drop(live, records[done].number, ticket)
                else:
                    status = _learn(live, records[done].number, ticket, rewards[done])
                if status != TAKEN:
                    return place, status
        return steps.size, TAKEN

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
        replay=live_replay,
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
        replay=(kind, records, types.Array(integer, 1, "C"), numbers),
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
