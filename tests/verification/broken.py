"""Races with a mistake that a check must find."""

from typing import NamedTuple

import numpy as np

from armrace.extending import Floats, Stream, Ticket, decide, distribution, implement, learn
from armrace.kernels.race import Race
from armrace.policies import EnlargedArmElimination, FastSlowRace, MultiLayerRace


class HalvedWidths(EnlargedArmElimination, frozen=True, tag="halved-widths"):
    """Enlarged arm elimination with half the widths.

    A quarter of the logarithmic term and half the corruption halve both parts; the former is that
    of a shorter horizon.
    """

    def start(self, arms, horizon):
        whole = 2 * arms * horizon / self.delta
        shorter = whole**0.25 * self.delta / (2 * arms)
        half = EnlargedArmElimination(corruption=self.corruption / 2, delta=self.delta)
        return half.start(arms, shorter)


class LeakyState(NamedTuple):
    race: Race
    share: np.ndarray


class LeakyRace(MultiLayerRace, frozen=True, tag="leaky-race"):
    """A race that feeds every reward to every layer, whichever was drawn."""

    def start(self, arms, horizon):
        race = super().start(arms, horizon)
        return LeakyState(race, race.share.copy())

    def inspect(self, state):
        return super().inspect(state.race)


@implement(distribution, LeakyState)
def leaky_distribution(state: LeakyState, out: Floats) -> None:
    distribution(state.race, out)


@implement(decide, LeakyState)
def leaky_decide(state: LeakyState, stream: Stream) -> Ticket:
    return decide(state.race, stream)


@implement(learn, LeakyState)
def leaky_learn(state: LeakyState, ticket: Ticket, reward: float) -> None:
    for layer in range(state.share.size):
        learn(state.race, Ticket(ticket.arm, layer, ticket.probability, ticket.note), reward)


class HastySlowLayer(FastSlowRace, frozen=True, tag="hasty-slow-layer"):
    """A Fast-Slow race whose slow layer gets half of the rounds, whatever it was told."""

    def start(self, arms, horizon):
        return FastSlowRace(corruption=2.0, delta=self.delta).start(arms, horizon)


class EagerElimination(EnlargedArmElimination, frozen=True, tag="eager-elimination"):
    """Enlarged arm elimination that leaves no room for the corruption it was told."""

    def start(self, arms, horizon):
        return EnlargedArmElimination(corruption=0.0, delta=self.delta).start(arms, horizon)
