"""UCB1: play the arm with the largest upper confidence bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream
from armrace.policies.base import ArmView, Policy

__all__ = ["Ucb1"]


class Ucb1State(NamedTuple):
    """Counts and means; ``spread`` is 1/sqrt(assigned), kept because it changes rarely."""

    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    rounds: npt.NDArray[np.int64]


class Ucb1(Policy, frozen=True, tag="ucb1"):
    """Plays the arm with the largest ``mean + sqrt(2 ln t / n)``.

    Each arm is played once first; ``t`` is the number of the round. The regret is at most
    ``8 sum ln T/gap + (1 + pi^2/3) sum gap`` in expectation without corruption; being
    deterministic, UCB1 is easily fooled. While feedback is outstanding, ``n`` counts the
    plays assigned and the mean is that of the rewards seen (1 before the first).

    >>> f"{upper_bound(0.5, 1 / math.sqrt(10), bonus_scale(100)):.5f}"
    '1.45971'
    """

    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi and Fischer (2002), Finite-time analysis of the multiarmed bandit "
        "problem"
    )

    def start(self, arms: int, horizon: int) -> Ucb1State:
        return Ucb1State(
            assigned=np.zeros(arms, dtype=np.int64),
            pulls=np.zeros(arms, dtype=np.int64),
            sums=np.zeros(arms),
            means=np.ones(arms),
            spread=np.zeros(arms),
            rounds=np.zeros(1, dtype=np.int64),
        )

    def inspect(self, state: Ucb1State) -> Sequence[ArmView]:
        scale = bonus_scale(max(int(state.rounds[0]), 1))
        return [
            ArmView(
                layer=0,
                arm=arm,
                assigned=int(state.assigned[arm]),
                pulls=int(pulls),
                mean=float(state.means[arm]) if pulls else None,
                upper=float(upper_bound(state.means[arm], state.spread[arm], scale))
                if pulls
                else None,
            )
            for arm, pulls in enumerate(state.pulls)
        ]


@inlined
def bonus_scale(round_number: int) -> float:
    """The part of the bonus that all arms share."""
    return math.sqrt(2.0 * math.log(round_number))


@inlined
def upper_bound(mean: float, spread: float, scale: float) -> float:
    """The index of an arm."""
    return mean + scale * spread


@inlined
def _next_arm(state: Ucb1State) -> int:
    played = state.rounds[0]
    arms = state.means.size
    if played < arms:
        return played
    scale = bonus_scale(played + 1)
    best, best_index = 0, -np.inf
    for arm in range(arms):
        index = upper_bound(state.means[arm], state.spread[arm], scale)
        if index > best_index:
            best, best_index = arm, index
    return best


@implement(distribution, Ucb1State)
def ucb1_distribution(state: Ucb1State, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state)] = 1.0


@implement(decide, Ucb1State)
def ucb1_decide(state: Ucb1State, stream: Stream) -> Ticket:
    arm = _next_arm(state)
    state.rounds[0] += 1
    state.assigned[arm] += 1
    state.spread[arm] = 1.0 / math.sqrt(state.assigned[arm])
    return Ticket(arm, 0, 1.0)


@implement(learn, Ucb1State)
def ucb1_learn(state: Ucb1State, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    state.pulls[arm] += 1
    state.sums[arm] += reward
    state.means[arm] = state.sums[arm] / state.pulls[arm]
