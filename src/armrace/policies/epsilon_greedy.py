"""Epsilon-greedy: the best mean so far, and now and then any arm."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, assign, choose, distribution, learn
from armrace.kernels.sampling import choose_by_weights
from armrace.kernels.streams import Stream
from armrace.limits import Limits
from armrace.policies.common.counts import (
    CountingPolicy,
    Counts,
    count_play,
    make_counts,
    record,
)


class EpsilonGreedyState(NamedTuple):
    """Counts, means, and how much is explored."""

    counts: Counts
    means: npt.NDArray[np.float64]
    fading: float
    least: float
    first: bool
    once: bool
    scratch: npt.NDArray[np.float64]


class EpsilonGreedy(CountingPolicy, frozen=True, tag="epsilon-greedy"):
    """Plays the largest mean, or with probability ``min(1, least + fading / t)`` any arm.

    ``t`` is the number of the round. Each arm is played once first, unless ``once`` is false; a
    mean without rewards then counts as 0. Rewards may lie outside [0, 1].

    >>> from armrace.kernels.generics import distribution
    >>> state = EpsilonGreedy(fading=1.0).start(2, 1000)
    >>> state.counts.assigned[:], state.counts.rounds[0], state.means[:] = 2, 4, (0.25, 0.5)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)  # round 5 explores with probability 1/5
    >>> weights.tolist()
    [0.1, 0.9]
    """

    family: ClassVar[str] = "published"
    draws_by_weights: ClassVar[bool] = True
    learns_from_others: ClassVar[bool] = True
    takes_any_reward: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem; with 1/t as in Jun, Li, Ma and Zhu (2018) and Liu and Shroff (2019)"
    )
    source_kind: ClassVar[str] = "code"
    source_note: ClassVar[str] = (
        "Exploration, order of the first plays and ties are those of the program of Liu and Shroff."
    )

    fading: Annotated[float, Limits("exploration that fades as 1/t", 0, 1e9)] = 1.0
    least: Annotated[float, Limits("exploration that stays", 0, 1)] = 0.0
    ties: Annotated[Literal["first", "any"], "which of arms with equal means is played"] = "first"
    once: Annotated[bool, "play each arm once first"] = True

    def start(self, arms: int, horizon: int) -> EpsilonGreedyState:
        return EpsilonGreedyState(
            make_counts(arms),
            np.zeros(arms),
            float(self.fading),
            float(self.least),
            self.ties == "first",
            self.once,
            np.zeros(arms),
        )


@inlined
def _fill(state: EpsilonGreedyState, out: npt.NDArray[np.float64]) -> None:
    """Write the probability of each arm: one that was never played, or else the best and all."""
    arms = out.size
    explore = min(1.0, state.least + state.fading / (state.counts.rounds[0] + 1))
    best, ties = -np.inf, 0
    for arm in range(arms):
        if state.once and state.counts.assigned[arm] == 0:
            out[:] = 0.0
            out[arm] = 1.0
            return
        if state.means[arm] > best:
            best, ties = state.means[arm], 0
        ties += state.means[arm] == best
    if state.first:
        ties = 1
    given = 0
    for arm in range(arms):
        out[arm] = explore / arms
        if state.means[arm] == best and given < ties:
            given += 1
            out[arm] += (1.0 - explore) / ties


@implement(distribution, EpsilonGreedyState)
def epsilon_greedy_distribution(state: EpsilonGreedyState, out: npt.NDArray[np.float64]) -> None:
    _fill(state, out)


@implement(choose, EpsilonGreedyState)
def epsilon_greedy_choose(
    state: EpsilonGreedyState, stream: Stream, eligible: Eligible = None
) -> Ticket:
    _fill(state, state.scratch)
    return choose_by_weights(state.scratch, 1.0, stream, eligible)


@implement(assign, EpsilonGreedyState)
def epsilon_greedy_assign(state: EpsilonGreedyState, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    return ticket


@implement(learn, EpsilonGreedyState)
def epsilon_greedy_learn(state: EpsilonGreedyState, ticket: Ticket, reward: float) -> None:
    state.means[ticket.arm] = record(state.counts, ticket.arm, reward)
