"""Wrappers of a race and of a guard that know the true means and record where intervals miss them.

A wrapper plays exactly like the state within it. After every reward it also records in which
layers the interval of an active arm misses the arm's true mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined, outlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import NO_LAYER, Ticket, assign, choose, distribution, forwards, learn
from armrace.policies.guarded import GuardState
from armrace.policies.races.intervals import PAPER
from armrace.policies.races.race import Race, cell_of, evidence, interval


@forwards(distribution, choose, assign)
class WitnessedRace(NamedTuple):
    """A race, the true means, and which layers' intervals have missed them."""

    race: Race
    means: npt.NDArray[np.float64]
    missed: npt.NDArray[np.bool_]
    """Whether a layer ever had an interval that missed its mean."""


def make_witnessed_race(race: Race, means: npt.NDArray[np.float64]) -> WitnessedRace:
    """Wrap a race before its first round."""
    return WitnessedRace(race, means.copy(), np.zeros(race.share.size, dtype=np.bool_))


@implement(learn, WitnessedRace)
def witnessed_learn(state: WitnessedRace, ticket: Ticket, reward: float) -> None:
    learn(state.race, ticket, reward)
    _note_misses(state.race, ticket, state.means, state.missed)


@forwards(distribution, choose, assign)
class WitnessedGuard(NamedTuple):
    """A guard, the true means, and which layers' intervals have missed them."""

    guard: GuardState
    means: npt.NDArray[np.float64]
    missed: npt.NDArray[np.bool_]


def make_witnessed_guard(guard: GuardState, means: npt.NDArray[np.float64]) -> WitnessedGuard:
    """Wrap a guard before its first round."""
    return WitnessedGuard(guard, means.copy(), np.zeros(guard.race.share.size, dtype=np.bool_))


@implement(learn, WitnessedGuard)
def witnessed_guard_learn(state: WitnessedGuard, ticket: Ticket, reward: float) -> None:
    learn(state.guard, ticket, reward)
    if ticket.layer != NO_LAYER:
        _note_misses_of_guard(state, ticket)


@outlined
def _note_misses_of_guard(state: WitnessedGuard, ticket: Ticket) -> None:
    """Record misses in a labelled round, which is rare enough for a call."""
    _note_misses(state.guard.race, ticket, state.means, state.missed)


@inlined
def _note_misses(
    race: Race,
    ticket: Ticket,
    means: npt.NDArray[np.float64],
    missed: npt.NDArray[np.bool_],
) -> None:
    """Record the layers that use the reward and whose interval of its arm misses the mean."""
    if ticket.layer == NO_LAYER:
        return
    arm, mean = ticket.arm, means[ticket.arm]
    fastest = 0 if race.pooled[0] else ticket.layer
    for layer in range(fastest, ticket.layer + 1):
        cell = cell_of(race, layer, arm)
        if cell.active:
            low, high = cell.lower, cell.upper
            if race.rule.kind[0] == PAPER:  # a patient race has not recomputed these ends
                low, high = interval(race, layer, *evidence(race, layer, arm))
            if low > mean or high < mean:
                missed[layer] = True
