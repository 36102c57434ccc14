"""UCB1: play the arm with the largest upper confidence bound."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    learn,
    make_ticket,
)
from armrace.kernels.streams import Stream
from armrace.policies.common.counts import CountingPolicy, Counts, count_play, make_counts, record
from armrace.policies.indices.argmax import make_argmax

_BRACKET = 11
"""What is known of the others is used while the number of the round grows by ``2^-11``."""

_SHORTEST = 8
"""A lead is not computed for fewer rounds than this: it would cost more than it saves."""


class Lead(NamedTuple):
    """A leader, and the round up to which no other arm's index exceeds a known bound."""

    arm: npt.NDArray[np.int64]
    until: npt.NDArray[np.int64]
    scale: npt.NDArray[np.float64]
    """A lower bound on the bonus scale of these rounds."""
    rival: npt.NDArray[np.float64]
    """An upper bound on the index of every other arm in these rounds."""


class Ucb1State(NamedTuple):
    """Counts, means and ``spread``, 1/sqrt(assigned), which changes for one arm a round."""

    counts: Counts
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    scratch: Lead


class Ucb1(CountingPolicy, frozen=True, tag="ucb1"):
    """Plays the arm with the largest ``mean + sqrt(2 ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. The regret is at most
    ``8 sum ln T/gap + (1 + pi^2/3) sum gap`` in expectation without corruption (Theorem 1 of the
    paper, from memory); being deterministic, UCB1 is easily fooled. While feedback is
    outstanding, ``n`` counts the plays assigned and the mean is that of the rewards seen (1
    before the first).

    >>> f"{upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)):.5f}"
    '1.45971'
    """

    family: ClassVar[str] = "stochastic"
    takes_new_arms: ClassVar[bool] = True
    loses_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "The index agrees with public implementations and with the well-known bound; no print "
        "was compared."
    )

    def start(self, arms: int, horizon: int) -> Ucb1State:
        return Ucb1State(
            counts=make_counts(arms),
            means=np.ones(arms),
            spread=np.zeros(arms),
            scratch=Lead(
                arm=np.zeros(1, dtype=np.int64),
                until=np.zeros(1, dtype=np.int64),
                scale=np.zeros(1),
                rival=np.zeros(1),
            ),
        )

    def upper_bound(self, state: Ucb1State, arm: int) -> float:
        scale = bonus_scale(int(state.counts.rounds[0]))
        return float(upper_bound(state.means[arm], state.spread[arm], scale))


@inlined
def bonus_scale(round_number: int) -> float:
    """The part of the bonus that all arms share."""
    return math.sqrt(2.0 * math.log(round_number))


@inlined
def upper_bound(mean: float, spread: float, scale: float) -> float:
    """The index of an arm."""
    return mean + scale * spread


@inlined
def _index(state: Ucb1State, arm: int, scale: float) -> float:
    return upper_bound(state.means[arm], state.spread[arm], scale)


_arm_of_largest_index = make_argmax(_index)


@inlined
def _next_arm(state: Ucb1State, eligible: Eligible) -> int:
    """The arm with the largest index, the first of equals; each arm once before."""
    return _arm_of_largest_index(state, bonus_scale(state.counts.rounds[0] + 1), eligible)


@inlined
def _still_leads(state: Ucb1State) -> bool:
    """Whether the leader's index is certainly the largest, without computing the others'."""
    lead = state.scratch
    arm = lead.arm[0]
    index = upper_bound(state.means[arm], state.spread[arm], lead.scale[0])
    return state.counts.rounds[0] < lead.until[0] and index > lead.rival[0]


@inlined
def _find_leader(state: Ucb1State) -> int:
    """Return the next arm, and record until when, and above which index, it remains the leader.

    As long as the leader is played, the means of the other arms do not change, and their bonuses
    grow with the round by less than the tangent of the bonus scale, which is concave.
    """
    arm, lead, played = _next_arm(state, None), state.scratch, state.counts.rounds[0]
    rounds = played >> _BRACKET
    lead.arm[0], lead.until[0] = arm, 0
    if rounds >= _SHORTEST:
        lead.until[0] = played + rounds
        lead.scale[0] = bonus_scale(played + 1)
        # The derivative of sqrt(2 ln t) is 1/(t sqrt(2 ln t)); ``played`` instead of ``played + 1``
        # makes the tangent a little steeper, which only widens the bound.
        highest = lead.scale[0] + rounds / (played * lead.scale[0])
        rival = -np.inf
        for other in range(state.means.size):
            if other != arm:
                index = upper_bound(state.means[other], state.spread[other], highest)
                if state.counts.assigned[other] == 0:
                    index = np.inf  # an arm that was never played comes before all others
                rival = max(rival, index)
        lead.rival[0] = rival
    return arm


@implement(distribution, Ucb1State)
def ucb1_distribution(state: Ucb1State, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state, None)] = 1.0


@implement(choose, Ucb1State)
def ucb1_choose(state: Ucb1State, stream: Stream, eligible: Eligible = None) -> Ticket:
    if eligible is None:
        return make_ticket(state.scratch.arm[0] if _still_leads(state) else _find_leader(state))
    # The known lead is over all arms, and is left as it is for the next unrestricted choice.
    return make_ticket(_next_arm(state, eligible))


@implement(assign, Ucb1State)
def ucb1_assign(state: Ucb1State, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.spread[ticket.arm] = 1.0 / math.sqrt(state.counts.assigned[ticket.arm])
    return ticket


@implement(learn, Ucb1State)
def ucb1_learn(state: Ucb1State, ticket: Ticket, reward: float) -> None:
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)
    # A late reward of another arm changes that arm's mean, so the bound on its index is void.
    if ticket.arm != state.scratch.arm[0]:
        state.scratch.until[0] = 0
