"""A policy that errs in round 7: in what it draws, or in where it writes."""

from typing import Annotated, Any, NamedTuple

import numpy as np

from armrace.kernels.dispatch import implement
from armrace.kernels.generics import assign, choose, distribution, learn, make_ticket
from armrace.limits import Limits
from armrace.policies import Policy

__all__ = ["Stray"]


class StrayState(NamedTuple):
    plays: Any
    numbers: Any
    probability: Any
    counts: Any


class Stray(Policy, frozen=True, tag="stray"):
    """Plays arm 0, and in round 7 what it is told; learns at a place that it is told."""

    arm: Annotated[int, Limits("the arm of that round")] = 0
    layer: Annotated[int, Limits("the layer of that round")] = 0
    place: Annotated[int, Limits("where it writes in that round")] = 0
    probability: Annotated[float | None, Limits("that of the arm; None for NaN")] = 1.0

    def start(self, arms, horizon):
        told = np.nan if self.probability is None else self.probability
        numbers = np.array([self.arm, self.layer, self.place])
        return StrayState(np.zeros(1, dtype=np.int64), numbers, np.array([told]), np.zeros(arms))


@implement(distribution, StrayState)
def stray_distribution(state, out):
    out.fill(0.0)
    out[0] = state.probability[0] if state.plays[0] == 7 else 1.0


@implement(choose, StrayState)
def stray_choose(state, stream, eligible=None):
    if state.plays[0] == 7:
        return make_ticket(state.numbers[0], state.numbers[1], state.probability[0])
    return make_ticket(0)


@implement(assign, StrayState)
def stray_assign(state, ticket):
    state.plays[0] += 1
    return ticket


@implement(learn, StrayState)
def stray_learn(state, ticket, reward):
    if state.plays[0] == 8 and state.numbers[2] != 0:
        state.numbers[np.uint64(state.numbers[2])] = 1
