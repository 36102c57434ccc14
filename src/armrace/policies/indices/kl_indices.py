"""KL indices: the largest mean that the Bernoulli divergence does not rule out, for each arm.

The index of an arm with mean ``p`` after ``n`` plays is ``q = upper_kl(p, d)``, where
``d = (ln t + c max(0, ln ln t)) / n``, clipped to a floor and a ceiling. Whether ``t`` counts the
round to be played or only those before it differs between papers. For given ``p`` the index is
concave in ``d``, so a tangent at an earlier ``d`` is an upper bound that costs no logarithm. The
equation is solved only for arms whose bound reaches the best index found so far, starting from
their last solution: one or two arms a round, and the maximum is exact.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    assign,
    learn,
)
from armrace.policies.common.counts import Counts, count_play, make_counts, record
from armrace.policies.common.divergence import improve_upper_kl, upper_kl
from armrace.policies.indices.argmax import comes_first, make_argmax, plays_next_arm

_TIE = 1e-12
"""Indices closer than this are equal: their last digits depend on where the solver started."""
_UNSEEN = 0.5
_UNSOLVED = -1.0


class SolvedIndices(NamedTuple):
    """The last solution for each arm's index, from which the next one starts."""

    levels: npt.NDArray[np.float64]
    """The ``d`` at which the arm was last solved for."""
    indices: npt.NDArray[np.float64]
    slopes: npt.NDArray[np.float64]
    """How fast the index grew there with ``d``; negative once the mean has changed."""


class KlIndices(NamedTuple):
    """Counts, means and the constants of the index."""

    counts: Counts
    means: npt.NDArray[np.float64]
    """Mean reward of each arm; 1/2 before the first reward, so that the index of an arm whose
    rewards are late falls as the arm is played."""
    share: npt.NDArray[np.float64]
    """1/assigned."""
    weight: npt.NDArray[np.float64]
    """The factor ``c`` of the iterated logarithm."""
    limits: npt.NDArray[np.float64]
    """Floor and ceiling of the indices."""
    turned: npt.NDArray[np.bool_]
    """Whether small rewards are the good ones, and 1 - reward counts."""
    counts_present: npt.NDArray[np.bool_]
    """Whether ``t`` counts the round to be played."""
    scratch: SolvedIndices


def make_kl_indices(
    arms: int, weight: float, floor: float, ceiling: float, turned: bool, counts_present: bool
) -> KlIndices:
    """The state before the first round."""
    return KlIndices(
        counts=make_counts(arms),
        means=np.full(arms, _UNSEEN),
        share=np.zeros(arms),
        weight=np.array([weight]),
        limits=np.array([floor, ceiling]),
        turned=np.array([turned]),
        counts_present=np.array([counts_present]),
        scratch=SolvedIndices(
            levels=np.zeros(arms), indices=np.ones(arms), slopes=np.full(arms, _UNSOLVED)
        ),
    )


@inlined
def exploration(round_number: int, weight: float) -> float:
    """Return the level that ``n kl`` may reach in this round."""
    logarithm = math.log(round_number)
    # Up to t = e the iterated logarithm is negative, and counts as 0.
    if weight == 0.0 or logarithm <= 1.0:
        return logarithm
    return logarithm + weight * math.log(logarithm)


@inlined
def kl_index(state: KlIndices, arm: int, round_number: int) -> float:
    """Compute the index of an arm that was played, without an earlier solution."""
    level = exploration(round_number, state.weight[0]) * state.share[arm]
    return _held(state, upper_kl(state.means[arm], level))


@inlined
def _held(state: KlIndices, index: float) -> float:
    return min(max(index, state.limits[0]), state.limits[1])


@inlined
def _bound(state: KlIndices, arm: int, threshold: float) -> float:
    """Return an upper bound on the index that costs no logarithm."""
    solved = state.scratch
    slope = solved.slopes[arm]
    if slope < 0.0:
        return state.limits[1]  # the mean has changed, and the old tangent says nothing
    # Negative after a play of the arm; the tangent of a concave function lies above it on both
    # sides.
    change = threshold * state.share[arm] - solved.levels[arm]
    return _held(state, solved.indices[arm] + change * slope)


@inlined
def _solve(state: KlIndices, arm: int, threshold: float) -> float:
    """Return an arm's exact index, and keep the solution and its tangent."""
    mean, solved = state.means[arm], state.scratch
    level = threshold * state.share[arm]
    index = improve_upper_kl(mean, level, solved.indices[arm])
    reach = index - mean
    solved.levels[arm] = level
    solved.indices[arm] = index
    # d index / d level is 1 / kl'(mean, index), and kl'(p, q) = (q - p) / (q (1 - q)).
    solved.slopes[arm] = index * (1.0 - index) / reach if reach > 0.0 else _UNSOLVED
    return _held(state, index)


_first_guess = make_argmax(_bound)
"""The arm with the largest bound. If it is solved first, most others need not be solved."""


@plays_next_arm(KlIndices)
@inlined
def _next_arm(state: KlIndices, eligible: Eligible) -> int:
    """The arm of the largest index."""
    rounds = state.counts.rounds[0]
    number = rounds + 1 if state.counts_present[0] else max(1, rounds)
    threshold = exploration(number, state.weight[0])
    first = _first_guess(state, threshold, eligible)
    if state.counts.assigned[first] == 0:
        return first
    best, best_index = first, _solve(state, first, threshold)
    for arm in range(state.means.size):
        if eligible is not None and not eligible[arm]:
            continue
        if arm != first and _bound(state, arm, threshold) >= best_index - _TIE:
            index = _solve(state, arm, threshold)
            if comes_first(index, arm, best_index, best, _TIE):
                best = arm
            best_index = max(best_index, index)
    return best


@implement(assign, KlIndices)
def kl_indices_assign(state: KlIndices, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.share[ticket.arm] = 1.0 / state.counts.assigned[ticket.arm]
    return ticket


@implement(learn, KlIndices)
def kl_indices_learn(state: KlIndices, ticket: Ticket, reward: float) -> None:
    mean = record(state.counts, ticket.arm, reward)
    state.means[ticket.arm] = 1.0 - mean if state.turned[0] else mean
    # The old index still serves as the solver's first guess.
    state.scratch.slopes[ticket.arm] = _UNSOLVED
