"""A wrapper of a race that knows the true means and records where intervals miss them.

The wrapper plays exactly like the race within it. After every reward it also records in which
layers the interval of an active arm misses the arm's true mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.generics import (
    NO_LAYER,
    Eligible,
    Ticket,
    assign,
    choose,
    distribution,
    implement,
    learn,
)
from armrace.kernels.streams import Stream
from armrace.policies.races.intervals import PAPER
from armrace.policies.races.race import Race, cell_of, evidence, interval

__all__ = ["WitnessedRace", "make_witnessed_race"]


class WitnessedRace(NamedTuple):
    """A race, the true means, and which layers' intervals have missed them."""

    race: Race
    means: npt.NDArray[np.float64]
    missed: npt.NDArray[np.bool_]
    """Whether a layer ever had an interval that missed its mean."""


def make_witnessed_race(race: Race, means: npt.NDArray[np.float64]) -> WitnessedRace:
    """Wrap a race before its first round."""
    return WitnessedRace(race, means.copy(), np.zeros(race.share.size, dtype=np.bool_))


@implement(distribution, WitnessedRace)
def witnessed_distribution(state: WitnessedRace, out: npt.NDArray[np.float64]) -> None:
    distribution(state.race, out)


@implement(choose, WitnessedRace)
def witnessed_choose(state: WitnessedRace, stream: Stream, eligible: Eligible = None) -> Ticket:
    return choose(state.race, stream, eligible)


@implement(assign, WitnessedRace)
def witnessed_assign(state: WitnessedRace, ticket: Ticket) -> Ticket:
    return assign(state.race, ticket)


@implement(learn, WitnessedRace)
def witnessed_learn(state: WitnessedRace, ticket: Ticket, reward: float) -> None:
    learn(state.race, ticket, reward)
    if ticket.layer == NO_LAYER:
        return
    arm, mean, race = ticket.arm, state.means[ticket.arm], state.race
    fastest = 0 if race.pooled[0] else ticket.layer
    for layer in range(fastest, ticket.layer + 1):
        cell = cell_of(race, layer, arm)
        if cell.active:
            low, high = cell.lower, cell.upper
            if race.rule.kind[0] == PAPER:  # which a patient race has not recomputed
                low, high = interval(race, layer, *evidence(race, layer, arm))
            if low > mean or high < mean:
                state.missed[layer] = True
