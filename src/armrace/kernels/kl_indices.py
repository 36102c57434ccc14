"""Playing the arm whose mean may be largest by the divergence of Bernoulli laws.

The index of an arm with mean ``p`` after ``n`` plays is ``q = upper_kl(p, d)``, where
``d = (ln t + c max(0, ln ln t)) / n``, held between a floor and a ceiling. For given ``p`` it is
concave in ``d``, so a tangent at an earlier ``d`` bounds it from above and costs no logarithm.
Only arms whose bound reaches the best index found so far are solved for, from where they were
last: one or two arms a round, and still the exact maximum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.counts import Counts, assign, make_counts, record
from armrace.kernels.divergence import improve_upper_kl, upper_kl
from armrace.kernels.generics import Ticket, decide, distribution, implement, learn
from armrace.kernels.streams import Stream

__all__ = ["KlIndices", "exploration", "kl_index", "make_kl_indices"]

_TIE = 1e-12
"""Indices closer than this are equal: their last digits depend on where the solver started."""
_UNSEEN = 0.5
_UNSOLVED = -1.0


class KlIndices(NamedTuple):
    """Counts, and of each arm the index where it was last solved for."""

    counts: Counts
    means: npt.NDArray[np.float64]
    """Means of what counts as a reward; 1/2 before the first, so that the index of an arm
    whose rewards are late falls as it is played."""
    share: npt.NDArray[np.float64]
    """1/assigned."""
    levels: npt.NDArray[np.float64]
    """The ``d`` at which the arm was last solved for."""
    indices: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    """How fast the index grew there with ``d``; negative once the mean has changed."""
    weight: npt.NDArray[np.float64]
    """The factor ``c`` of the iterated logarithm."""
    limits: npt.NDArray[np.float64]
    """Floor and ceiling of the indices."""
    turned: npt.NDArray[np.bool_]
    """Whether small rewards are the good ones, and 1 - reward counts."""


def make_kl_indices(
    arms: int, weight: float, floor: float, ceiling: float, turned: bool
) -> KlIndices:
    """The state before the first round."""
    return KlIndices(
        counts=make_counts(arms),
        means=np.full(arms, _UNSEEN),
        share=np.zeros(arms),
        levels=np.zeros(arms),
        indices=np.ones(arms),
        slopes=np.full(arms, _UNSOLVED),
        weight=np.array([weight]),
        limits=np.array([floor, ceiling]),
        turned=np.array([turned]),
    )


@inlined
def exploration(round_number: int, weight: float) -> float:
    """What ``n kl`` may reach in this round."""
    logarithm = math.log(round_number)
    if weight == 0.0 or logarithm <= 1.0:
        return logarithm
    return logarithm + weight * math.log(logarithm)


@inlined
def kl_index(state: KlIndices, arm: int, round_number: int) -> float:
    """The index of an arm that was played, from scratch."""
    level = exploration(round_number, state.weight[0]) * state.share[arm]
    return _held(state, upper_kl(state.means[arm], level))


@inlined
def _held(state: KlIndices, index: float) -> float:
    return min(max(index, state.limits[0]), state.limits[1])


@inlined
def _bound(state: KlIndices, arm: int, threshold: float) -> float:
    """No less than the index, without a logarithm."""
    slope = state.slopes[arm]
    if slope < 0.0:
        return state.limits[1]
    change = threshold * state.share[arm] - state.levels[arm]
    return _held(state, state.indices[arm] + change * slope)


@inlined
def _solve(state: KlIndices, arm: int, threshold: float, keep: bool) -> float:
    mean = state.means[arm]
    level = threshold * state.share[arm]
    index = improve_upper_kl(mean, level, state.indices[arm])
    if keep:
        reach = index - mean
        state.levels[arm] = level
        state.indices[arm] = index
        state.slopes[arm] = index * (1.0 - index) / reach if reach > 0.0 else _UNSOLVED
    return _held(state, index)


@inlined
def _first_guess(state: KlIndices, threshold: float) -> int:
    """The arm of the largest bound; trying it first spares most of the others."""
    best, best_bound = 0, -np.inf
    for arm in range(state.means.size):
        bound = _bound(state, arm, threshold)
        if bound > best_bound:
            best, best_bound = arm, bound
    return best


@inlined
def _next_arm(state: KlIndices, keep: bool) -> int:
    """The arm of the largest index; what is solved for on the way is kept if asked."""
    played = state.counts.rounds[0]
    arms = state.means.size
    if played < arms:
        return played
    threshold = exploration(played + 1, state.weight[0])
    first = _first_guess(state, threshold)
    best, best_index = first, _solve(state, first, threshold, keep)
    for arm in range(arms):
        if arm != first and _bound(state, arm, threshold) >= best_index - _TIE:
            index = _solve(state, arm, threshold, keep)
            if index > best_index + _TIE or (index >= best_index - _TIE and arm < best):
                best = arm
            best_index = max(best_index, index)
    return best


@implement(distribution, KlIndices)
def kl_indices_distribution(state: KlIndices, out: npt.NDArray[np.float64]) -> None:
    out.fill(0.0)
    out[_next_arm(state, False)] = 1.0


@implement(decide, KlIndices)
def kl_indices_decide(state: KlIndices, stream: Stream) -> Ticket:
    arm = _next_arm(state, True)
    assign(state.counts, arm)
    state.share[arm] = 1.0 / state.counts.assigned[arm]
    return Ticket(arm, 0, 1.0, 0)


@implement(learn, KlIndices)
def kl_indices_learn(state: KlIndices, ticket: Ticket, reward: float) -> None:
    mean = record(state.counts, ticket.arm, reward)
    state.means[ticket.arm] = 1.0 - mean if state.turned[0] else mean
    state.slopes[ticket.arm] = _UNSOLVED
