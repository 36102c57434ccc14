"""A policy on live traffic in compiled code: what is kept, how each step changes it, and the calls.

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

from armrace.kernels.compiling import entry, inlined, outlined
from armrace.kernels.event_log import (
    DECISION,
    DROPPED_EVENT,
    LEARNED_EVENT,
    EventArrays,
    add_decision,
    add_event,
    differs_from_log,
    has_room,
    read_ticket,
    write_decision,
)
from armrace.kernels.generics import (
    NO_ARM,
    NO_FEATURES,
    NO_LAYER,
    Context,
    ContextShape,
    Ticket,
    Visitor,
    assign,
    choose,
    distribution,
    drop,
    learn,
    make_ticket,
    pass_round,
    replacing,
    spelled,
    teaches_nothing,
)
from armrace.kernels.streams import Stream, tell

TAKEN, UNKNOWN, REPEATED = 0, 1, 2
"""Status of a reward: accepted; no decision matches it; its decision already had a reward."""

DECISIONS, REWARDS, SETTLED = 0, 1, 2
"""Positions in ``Live.counters``: number of decisions, number of rewards, and the decision that the
first bit of ``rewarded`` stands for. All earlier decisions have had their reward."""


class Present(NamedTuple):
    """The visitor of the next call, whom policies that do not take contexts never look at."""

    vector: npt.NDArray[np.float64]
    leaf: npt.NDArray[np.int64]
    """One number."""


def make_present(arms: int, shape: ContextShape = NO_FEATURES) -> Present:
    """Make room for visitors whose contexts have a shape."""
    return Present(np.ones(shape.room(arms)), np.zeros(1, dtype=np.int64))


class Live(NamedTuple):
    """A policy's state, the stream it decides with, and which decisions have had a reward."""

    policy: Any
    stream: Stream
    counters: npt.NDArray[np.int64]
    rewarded: npt.NDArray[np.uint8]
    """One bit per decision from ``counters[SETTLED]`` on, with room for further decisions."""
    shape: npt.NDArray[np.int64]
    """Numbers of arms and of layers, and whether tickets carry their probability."""
    exchanged: Any
    """One record of type :data:`DECISION`, which Python and compiled code write for each other: the
    decision that a call is about, or the one that it has made."""
    log: EventArrays
    present: Present


_LEAST_PROBABILITY, _LARGEST_PROBABILITY = 1e-100, 1.0 + 1e-9
_LARGEST_MEMO = 1e100
"""Limits on the numbers of a ticket. Policies divide by probabilities and add up memos: within
these limits their sums stay finite, even if every ticket is forged."""


class BadTicket(Exception):
    """A policy has drawn what it cannot have drawn; the arguments are those of the ticket."""


@inlined
def _context(live: Live) -> Context:
    return Context(live.present.vector, live.present.leaf[0])


@inlined
def has_place(live: Live) -> bool:
    """Whether one more decision can be recorded."""
    counters = live.counters
    later = counters[DECISIONS] - counters[SETTLED]
    return has_room(live.log) and later < 8 * live.rewarded.size


@inlined
def assign_next(live: Live, ticket: Ticket) -> Ticket:
    """Count a decision under the next number, and return its completed ticket."""
    number = live.counters[DECISIONS]
    # The number is taken before the policy acts: whatever goes wrong in ``assign``, no two
    # decisions get the same number.
    live.counters[DECISIONS] = number + 1
    completed = ticket
    if teaches_nothing(ticket):
        pass_round(live.policy)
    else:
        completed = fitting(assign(live.policy, ticket, _context(live)), *_shape(live))
    add_decision(live.log, number, tell(live.stream), completed)
    return completed


@inlined
def ticket_fits(ticket: Ticket, arms: int, layers: int, exact: bool) -> bool:
    """Whether a policy with ``arms`` arms and ``layers`` layers could have given a ticket.

    Compiled code checks the bounds of arms and layers nowhere else. The limits of numbers keep
    sums of estimates finite; shares of layers may add to slightly more than 1. ``exact`` says
    whether the policy computes the probabilities of its tickets.
    """
    sound = _LEAST_PROBABILITY <= ticket.probability <= _LARGEST_PROBABILITY
    # Distances from both ends of every range, none of which may have the bit of the sign: one
    # comparison a round.
    indices = (
        (ticket.arm | (arms - 1 - ticket.arm))
        | ((ticket.layer - NO_LAYER) | (layers - 1 - ticket.layer))
        | ((ticket.inner_layer - NO_LAYER) | (layers - 1 - ticket.inner_layer))
        | ((ticket.inner_arm - NO_ARM) | (arms - 1 - ticket.inner_arm))
    )
    return (
        indices >= 0
        and (sound or not exact)
        and _LEAST_PROBABILITY <= ticket.inner_probability <= _LARGEST_PROBABILITY
        and abs(ticket.memo) <= _LARGEST_MEMO
        and abs(ticket.inner_memo) <= _LARGEST_MEMO
    )


@inlined
def fitting(ticket: Ticket, arms: int, layers: int, exact: bool) -> Ticket:
    """Return a ticket that a policy has drawn, unless :func:`ticket_fits` denies it.

    What follows uses its arm and its layer as indices without a check.
    """
    if not ticket_fits(ticket, arms, layers, exact):
        # A probability that is not checked need not be computed for the error either.
        _refuse(ticket if exact else _with_probability(ticket, np.nan))
    return ticket


@inlined
def decide_fitting(
    state: Any,
    stream: Stream,
    arms: int,
    layers: int,
    exact: bool,
    trusted: bool,
    context: Visitor = None,
) -> Ticket:
    """Choose an arm and assign the decision; see :func:`fitting`.

    Args:
        state: the state of a policy.
        stream: the random numbers of the learner.
        arms: the number of arms of the policy.
        layers: the number of its layers.
        exact: whether its tickets carry the probability of their arm.
        trusted: whether nothing is checked. A policy of this package never fails, and would compute
            for the check alone probabilities that nothing else in a simulation needs.
        context: what is known about the visitor.
    """
    chosen = choose(state, stream, None, context)
    return assign(state, chosen if trusted else fitting(chosen, arms, layers, exact), context)


_with_probability = replacing(Ticket, "probability")

_raise_refusal = spelled(
    "def raise_refusal(ticket): raise BadTicket({members})",
    "ticket.{name}",
    ", ",
    BadTicket=BadTicket,
)


@outlined
def _refuse(ticket: Ticket) -> None:
    _raise_refusal(ticket)


@inlined
def check_arm(arm: int, arms: int) -> int:
    """Return an arm that an inner policy has drawn; raise :class:`BadTicket` if there is no such.

    Args:
        arm: the arm.
        arms: the number of arms of the policy.
    """
    if not 0 <= arm < arms:
        _refuse(make_ticket(arm))
    return arm


@inlined
def check_weights(weights: npt.NDArray[np.float64]) -> None:
    """Raise :class:`BadTicket` unless all weights of a distribution are probabilities."""
    for arm in range(weights.size):
        if not 0.0 <= weights[arm] <= _LARGEST_PROBABILITY:
            _refuse(make_ticket(arm, NO_LAYER, weights[arm]))


@inlined
def _shape(live: Live) -> tuple[int, int, bool]:
    return live.shape[0], live.shape[1], live.shape[2] != 0


@inlined
def choose_next(live: Live, eligible: Any) -> Ticket:
    """Let the policy choose an arm, and refuse one that it cannot have chosen."""
    chosen = choose(live.policy, live.stream, eligible, _context(live))
    return fitting(chosen, *_shape(live))


@inlined
def _status(live: Live, number: int, ticket: Ticket) -> int:
    """Whether a reward can be taken."""
    known = 0 <= number < live.counters[DECISIONS]
    if not (known and ticket_fits(ticket, *_shape(live))):
        return UNKNOWN
    # A logged decision must match its ticket in full; without a log, ranges are all that can be
    # checked.
    if differs_from_log(live.log, number, ticket):
        return UNKNOWN
    # A bit for each decision that may still get a reward: byte ``later >> 3``, bit ``later & 7``.
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
def learn_reward(live: Live, number: int, ticket: Ticket, reward: float) -> int:
    """Learn a reward if it can be taken; return its status."""
    status = _settle(live, number, ticket)
    if status == TAKEN:
        if not teaches_nothing(ticket):
            learn(live.policy, ticket, reward, _context(live))
        add_event(live.log, LEARNED_EVENT, number, reward)
    return status


@inlined
def drop_reward(live: Live, number: int, ticket: Ticket) -> int:
    """Give up on a reward if it is outstanding; return its status."""
    status = _settle(live, number, ticket)
    if status == TAKEN:
        if not teaches_nothing(ticket):
            drop(live.policy, ticket)
        add_event(live.log, DROPPED_EVENT, number, 0.0)
    return status


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
        distribution(live.policy, out, _context(live))
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
