"""Two learners that armrace does not have: UCB with any bonus, and epsilon-greedy."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, NamedTuple

import numpy as np

from armrace.extending import (
    Eligible,
    Floats,
    Limits,
    Policy,
    Stream,
    Ticket,
    assign,
    choose,
    choose_by_weights,
    distribution,
    implement,
    inlined,
    learn,
    make_ticket,
)


class UcbState(NamedTuple):
    """Pulls and means; the bonus of an arm is ``sqrt(strength * ln t / pulls)``."""

    pulls: Floats
    means: Floats
    strength: float


class Ucb(Policy, frozen=True, tag="ucb"):
    """Plays the arm with the largest ``mean + sqrt(strength * ln t / n)``; UCB1 has strength 2."""

    strength: Annotated[float, Limits("factor of the logarithm", 0)] = 2.0

    def start(self, arms: int, horizon: int) -> UcbState:
        """No arm has been played."""
        return UcbState(np.zeros(arms), np.zeros(arms), float(self.strength))


@inlined
def largest_index(state: UcbState) -> int:
    """The next arm: one that was never played, else the one with the largest index."""
    scale = state.strength * math.log(np.sum(state.pulls) + 1)
    best, best_index = 0, -np.inf
    for arm in range(state.pulls.size):
        if state.pulls[arm] == 0:
            return arm
        index = state.means[arm] + math.sqrt(scale / state.pulls[arm])
        if index > best_index:
            best, best_index = arm, index
    return best


@implement(distribution, UcbState)
def ucb_distribution(state: UcbState, out: Floats) -> None:
    """All weight on the next arm."""
    out.fill(0.0)
    out[largest_index(state)] = 1.0


@implement(choose, UcbState)
def ucb_choose(state: UcbState, stream: Stream) -> Ticket:
    """The next arm."""
    return make_ticket(largest_index(state))


@implement(assign, UcbState)
def ucb_assign(state: UcbState, ticket: Ticket) -> Ticket:
    """Plays are counted with their rewards."""
    return ticket


@implement(learn, UcbState)
def ucb_learn(state: UcbState, ticket: Ticket, reward: float) -> None:
    """Count the play."""
    state.pulls[ticket.arm] += 1
    state.means[ticket.arm] += (reward - state.means[ticket.arm]) / state.pulls[ticket.arm]


class GreedyState(NamedTuple):
    """Pulls and means; a random arm is played with probability ``least + fading/t``."""

    pulls: Floats
    means: Floats
    fading: float
    least: float
    first: bool


class EpsilonGreedy(Policy, frozen=True, tag="epsilon-greedy"):
    """Plays the largest mean, or with probability ``min(1, least + fading / t)`` any arm.

    Arms with equal means are equally likely, unless ``first`` says that the first is played.
    """

    draws_by_weights: ClassVar[bool] = True
    fading: Annotated[float, Limits("exploration that fades as 1/t", 0)] = 1.0
    least: Annotated[float, Limits("exploration that stays", 0, 1)] = 0.0
    first: Annotated[bool, "play the first of equal arms"] = False

    def start(self, arms: int, horizon: int) -> GreedyState:
        """No arm has been played."""
        zeros, fading, least = np.zeros(arms), float(self.fading), float(self.least)
        return GreedyState(zeros, zeros.copy(), fading, least, self.first)


@inlined
def exploration(state: GreedyState) -> float:
    """The probability of playing just any arm."""
    return min(1.0, state.least + state.fading / (np.sum(state.pulls) + 1))


@implement(distribution, GreedyState)
def greedy_distribution(state: GreedyState, out: Floats) -> None:
    """A share for every arm, the rest for the largest mean."""
    explore, best = exploration(state), np.max(state.means)
    ties = 1 if state.first else np.sum(state.means == best)
    given = 0
    for arm in range(out.size):
        out[arm] = explore / out.size
        if state.means[arm] == best and given < ties:
            given += 1
            out[arm] += (1.0 - explore) / ties


@implement(choose, GreedyState)
def greedy_choose(state: GreedyState, stream: Stream, eligible: Eligible = None) -> Ticket:
    """Explore or exploit."""
    weights = np.empty(state.means.size)
    distribution(state, weights)
    return choose_by_weights(weights, 1.0, stream, eligible)


@implement(assign, GreedyState)
def greedy_assign(state: GreedyState, ticket: Ticket) -> Ticket:
    """Plays are counted with their rewards."""
    return ticket


@implement(learn, GreedyState)
def greedy_learn(state: GreedyState, ticket: Ticket, reward: float) -> None:
    """Count the play."""
    state.pulls[ticket.arm] += 1
    state.means[ticket.arm] += (reward - state.means[ticket.arm]) / state.pulls[ticket.arm]
