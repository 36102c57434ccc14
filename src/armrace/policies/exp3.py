"""EXP3: exponential weights on importance-weighted losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream, uniform
from armrace.policies.base import ArmView, Policy
from armrace.specification import Limits

__all__ = ["Exp3"]

_SMALLEST_WEIGHT = 1e-100


class Exp3State(NamedTuple):
    """Estimated losses; ``weights`` are ``exp(-rate * (loss - origin))``, not normalised."""

    losses: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    origin: npt.NDArray[np.float64]
    learning_rate: npt.NDArray[np.float64]
    assigned: npt.NDArray[np.int64]
    pulls: npt.NDArray[np.int64]
    sums: npt.NDArray[np.float64]


class Exp3(Policy, frozen=True, tag="exp3"):
    """Draws arms with probability proportional to ``exp(-learning_rate * estimated loss)``.

    A play of arm ``a`` with probability ``w`` adds ``(1 - reward)/w`` to its estimated loss.
    With the learning rate ``sqrt(2 ln K / (TK))``, the default, the expected regret against
    any fixed arm is at most ``sqrt(2 T K ln K)`` for whatever rewards an adversary fixes; it
    gains nothing from rewards that are mostly stochastic.

    >>> from armrace.kernels.generics import distribution, learn
    >>> state = Exp3(learning_rate=0.1).start(arms=2, horizon=100)
    >>> learn(state, Ticket(arm=0, layer=0, probability=0.5), reward=0.0)
    >>> weights = np.empty(2)
    >>> distribution(state, weights)
    >>> weights.round(6)
    array([0.450166, 0.549834])
    """

    reference: ClassVar[str] = (
        "Auer, Cesa-Bianchi, Freund and Schapire (2002); rate and bound as in Theorem 3.1 of "
        "Bubeck and Cesa-Bianchi (2012)"
    )

    learning_rate: Annotated[
        float | None, Limits("step size; by default sqrt(2 ln K / (TK))", 0, low_open=True)
    ] = None

    def start(self, arms: int, horizon: int) -> Exp3State:
        rate = self.learning_rate
        if rate is None:
            rate = math.sqrt(2 * math.log(arms) / (horizon * arms))
        return Exp3State(
            losses=np.zeros(arms),
            weights=np.ones(arms),
            origin=np.zeros(1),
            learning_rate=np.array([float(rate)]),
            assigned=np.zeros(arms, dtype=np.int64),
            pulls=np.zeros(arms, dtype=np.int64),
            sums=np.zeros(arms),
        )

    def inspect(self, state: Exp3State) -> Sequence[ArmView]:
        return [
            ArmView(
                layer=0,
                arm=arm,
                assigned=int(state.assigned[arm]),
                pulls=int(pulls),
                mean=float(state.sums[arm] / pulls) if pulls else None,
            )
            for arm, pulls in enumerate(state.pulls)
        ]


@implement(distribution, Exp3State)
def exp3_distribution(state: Exp3State, out: npt.NDArray[np.float64]) -> None:
    total = _total(state.weights)
    for arm in range(out.size):
        out[arm] = state.weights[arm] / total


@implement(decide, Exp3State)
def exp3_decide(state: Exp3State, stream: Stream) -> Ticket:
    weights = state.weights
    total = _total(weights)
    level = uniform(stream) * total
    arm, last = 0, weights.size - 1
    passed = weights[0]
    while passed <= level and arm < last:
        arm += 1
        passed += weights[arm]
    state.assigned[arm] += 1
    return Ticket(arm, 0, weights[arm] / total)


@implement(learn, Exp3State)
def exp3_learn(state: Exp3State, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    state.pulls[arm] += 1
    state.sums[arm] += reward
    state.losses[arm] += (1.0 - reward) / ticket.probability
    state.weights[arm] = _weight(state, arm)
    if np.max(state.weights) < _SMALLEST_WEIGHT:
        _move_origin(state)


@inlined
def _total(weights: npt.NDArray[np.float64]) -> float:
    total = 0.0
    for weight in weights:
        total += weight
    return total


@inlined
def _weight(state: Exp3State, arm: int) -> float:
    return math.exp(-state.learning_rate[0] * (state.losses[arm] - state.origin[0]))


@inlined
def _move_origin(state: Exp3State) -> None:
    """Measure losses from the smallest again, before all weights vanish."""
    state.origin[0] = np.min(state.losses)
    for arm in range(state.losses.size):
        state.weights[arm] = _weight(state, arm)
