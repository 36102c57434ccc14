"""Compiled calls for live traffic: decisions and rewards, singly or in batches.

Changes that belong together, a decision and its number or a reward and the bit that marks it as
received, are made in one compiled call that holds the interpreter lock. A signal handler runs only
between Python instructions, so that an exception raised by one (Ctrl-C) cannot separate them.

The calls have fixed argument types. Otherwise Numba would compile again for every new combination
of Python types, and would spend most of each call on determining the types. Decisions are exchanged
as a record in memory, which :mod:`struct` packs and unpacks in a fraction of the time that Numba
takes to convert a tuple.
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
from armrace.kernels.event_log import DECISION, read_ticket, write_decision
from armrace.kernels.generics import Ticket, distribution
from armrace.kernels.live import (
    DECISIONS,
    TAKEN,
    Live,
    assign_next,
    check_weights,
    choose_next,
    drop_reward,
    has_place,
    learn_reward,
)
from armrace.kernels.streams import tell

_NO_NUMBER = -1
"""Stands for the number of what was drawn and is no decision yet."""


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


@inlined
def _hand_over(live: Live, number: int, ticket: Ticket) -> None:
    """Write what was drawn, or decided, where Python reads it."""
    write_decision(live.exchanged[0], number, tell(live.stream), ticket)


@inlined
def _assign(live: Live, ticket: Ticket) -> None:
    completed = assign_next(live, ticket)
    _hand_over(live, live.counters[DECISIONS] - 1, completed)


@cache
def live_entries(code: str) -> LiveCalls:
    """The functions behind a learner's calls, before they are compiled for a type of handle."""

    @entry(code, holds_lock=True)
    def live_choose(live: Live) -> None:
        _hand_over(live, _NO_NUMBER, choose_next(live, None))

    @entry(code, holds_lock=True)
    def live_choose_among(live: Live, eligible: npt.NDArray[np.bool_]) -> None:
        _hand_over(live, _NO_NUMBER, choose_next(live, eligible))

    @entry(code, holds_lock=True)
    def live_assign(live: Live) -> bool:
        if not has_place(live):
            return False
        _assign(live, read_ticket(live.exchanged[0]))
        return True

    @entry(code, holds_lock=True)
    def live_decide(live: Live) -> bool:
        if not has_place(live):
            return False
        _assign(live, choose_next(live, None))
        return True

    @entry(code, holds_lock=True)
    def live_learn(live: Live, reward: float) -> int:
        record = live.exchanged[0]
        return learn_reward(live, record.number, read_ticket(record), reward)

    @entry(code, holds_lock=True)
    def live_drop(live: Live) -> int:
        record = live.exchanged[0]
        return drop_reward(live, record.number, read_ticket(record))

    @entry(code, holds_lock=True)
    def live_distribution(live: Live, out: npt.NDArray[np.float64]) -> None:
        distribution(live.policy, out)
        check_weights(out)

    decide_many, learn_many = _batch_entries(code)
    return LiveCalls(
        choose=live_choose,
        choose_among=live_choose_among,
        assign=live_assign,
        decide=live_decide,
        learn=live_learn,
        drop=live_drop,
        distribution=live_distribution,
        decide_many=decide_many,
        learn_many=learn_many,
    )


def _batch_entries(code: str) -> tuple[Any, Any]:
    """The functions behind the calls for many decisions or rewards."""

    @entry(code, holds_lock=True)
    def live_decide_many(live: Live, out: Any) -> int:
        """Make decisions until ``out`` is full or there is no room; return how many were made."""
        for place in range(out.size):
            if not has_place(live):
                return place
            ticket = assign_next(live, choose_next(live, None))
            write_decision(out[place], live.counters[DECISIONS] - 1, tell(live.stream), ticket)
        return out.size

    @entry(code, holds_lock=True)
    def live_learn_many(
        live: Live, records: Any, rewards: npt.NDArray[np.float64]
    ) -> tuple[int, int]:
        """Learn rewards in order; stop at the first that is refused.

        Returns how many were learned, and the status of the one refused.
        """
        for place in range(records.size):
            ticket = read_ticket(records[place])
            status = learn_reward(live, records[place].number, ticket, rewards[place])
            if status != TAKEN:
                return place, status
        return records.size, TAKEN

    return live_decide_many, live_learn_many


@cache
def make_live_calls(code: str, kind: Any) -> LiveCalls:
    """The compiled calls for one type of handle, with the fingerprint ``code``.

    What every learner needs is compiled here, so that no decision waits for the compiler; the
    rest is compiled when it is first called.
    """
    number = types.float64
    numbers, flags = types.Array(number, 1, "C"), types.Array(types.boolean, 1, "C")
    records = types.Array(from_dtype(DECISION), 1, "C")
    argument_types = LiveCalls(
        choose=(kind,),
        choose_among=(kind, flags),
        assign=(kind,),
        decide=(kind,),
        learn=(kind, number),
        drop=(kind,),
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
