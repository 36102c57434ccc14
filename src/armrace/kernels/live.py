"""A policy on live traffic as compiled code sees it: what is kept, and how each step changes it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.event_log import (
    DROPPED_EVENT,
    LEARNED_EVENT,
    Log,
    add_decision,
    add_event,
    differs_from_log,
    has_room,
)
from armrace.kernels.generics import (
    NO_ARM,
    NO_LAYER,
    Ticket,
    assign,
    choose,
    drop,
    learn,
    make_ticket,
    pass_round,
    spelled,
    teaches_nothing,
)
from armrace.kernels.streams import Stream, tell

TAKEN, UNKNOWN, REPEATED = 0, 1, 2
"""Status of a reward: accepted; no decision matches it; its decision already had a reward."""

DECISIONS, REWARDS, SETTLED = 0, 1, 2
"""Positions in ``Live.counters``: number of decisions, number of rewards, and the decision that the
first bit of ``rewarded`` stands for. All earlier decisions have had their reward."""


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
    log: Log


_LEAST_PROBABILITY, _LARGEST_PROBABILITY = 1e-100, 1.0 + 1e-9
_LARGEST_MEMO = 1e100
"""Limits on the numbers of a ticket. Policies divide by probabilities and add up memos: within
these limits their sums stay finite, even if every ticket is forged."""


class BadTicket(Exception):
    """A policy has drawn what it cannot have drawn; the arguments are those of the ticket."""


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
        completed = fitting(assign(live.policy, ticket), *_shape(live))
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
    return (
        0 <= ticket.arm < arms
        and NO_LAYER <= ticket.layer < layers
        and NO_LAYER <= ticket.inner_layer < layers
        and NO_ARM <= ticket.inner_arm < arms
        and (sound or not exact)
        and _LEAST_PROBABILITY <= ticket.inner_probability <= _LARGEST_PROBABILITY
        and abs(ticket.memo) <= _LARGEST_MEMO
    )


@inlined
def fitting(ticket: Ticket, arms: int, layers: int, exact: bool) -> Ticket:
    """Return a ticket that a policy has drawn, unless :func:`ticket_fits` denies it.

    What follows uses its arm and its layer as indices without a check.
    """
    if not ticket_fits(ticket, arms, layers, exact):
        _refuse(ticket)
    return ticket


@inlined
def decide_fitting(
    state: Any, stream: Stream, arms: int, layers: int, exact: bool, trusted: bool
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
    """
    chosen = choose(state, stream, None)
    return assign(state, chosen if trusted else fitting(chosen, arms, layers, exact))


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
    return fitting(choose(live.policy, live.stream, eligible), *_shape(live))


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
            learn(live.policy, ticket, reward)
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
