"""Upper confidence bounds around Catoni's M-estimator.

The estimate of an arm with rewards ``X_1 .. X_n`` is the root ``theta`` of
``F = sum psi(alpha (X_i - theta))``, ``psi(y) = sgn(y) ln(1 + |y| + y^2/2)``, where ``alpha``
depends on ``n`` and on the round. Solving for it costs a pass over all rewards, so this is done
rarely. ``F`` and its derivatives are kept up to date at a reference point ``(theta, alpha)``, from
which a linear step gives the root with a bounded error, since ``|psi''| <= 1/4``. The equation is
solved exactly only if these error bounds leave the largest index undecided.
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
from armrace.policies.indices.argmax import comes_first, plays_next_arm
from armrace.policies.indices.histories import PAGE, Pages, insert_page, make_pages, page_start

_TIE = 1e-12
_STEPS = 50
_CURVATURE = 0.25
_LEAST_SLOPE = 0.8
"""A lower bound on the derivative of the influence function on [-1, 1]."""
_THETA, _ALPHA, _VALUE, _SLOPE, _TILT = 0, 1, 2, 3, 4


class CatoniMeans(NamedTuple):
    """Counts, all rewards in the order they came, and a reference for each arm."""

    counts: Counts
    rewards: Pages
    kept: npt.NDArray[np.int64]
    kept_sums: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]
    scratch: npt.NDArray[np.float64]
    """The references: for each arm ``theta``, ``alpha`` (0 if there is no reference), and at
    them ``F``, ``sum psi'`` and ``sum psi' (X - theta)``."""


def make_catoni_means(arms: int, capacity: int) -> CatoniMeans:
    """The state before the first round, with room for ``capacity`` rewards."""
    return CatoniMeans(
        counts=make_counts(arms),
        rewards=make_pages(arms, capacity),
        kept=np.zeros(arms, dtype=np.int64),
        kept_sums=np.zeros(arms),
        spread=np.zeros(arms),
        scratch=np.zeros((arms, 5)),
    )


@inlined
def influence(y: float) -> float:
    """Catoni's ``psi``."""
    size = math.log1p(abs(y) + 0.5 * y * y)
    return size if y >= 0.0 else -size


@inlined
def _influence_slope(y: float) -> float:
    size = 1.0 + abs(y)
    return size / (size + 0.5 * y * y)


@inlined
def catoni_scale(size: int, logarithm: float) -> float:
    """Return ``alpha`` for ``n`` rewards; 0 if there are too few.

    This is ``sqrt(A / (n (v + v A / (n - A))))`` with ``A = 4 ln t`` and ``v = 1/4``.
    """
    needed = 4.0 * logarithm
    if size < 2.0 * needed or size == 0:
        return 0.0
    # v + v A/(n - A) = v n/(n - A), so that the formula needs one root and one division.
    return 2.0 * math.sqrt(needed * (size - needed)) / size


@inlined
def _add(state: CatoniMeans, arm: int, reward: float) -> None:
    """Add a reward to the sums at the reference point."""
    reference = state.scratch[arm]
    distance = reward - reference[_THETA]
    y = reference[_ALPHA] * distance
    slope = _influence_slope(y)
    reference[_VALUE] += influence(y)
    reference[_SLOPE] += slope
    reference[_TILT] += slope * distance


@inlined
def _sums_at(
    state: CatoniMeans, arm: int, theta: float, alpha: float
) -> tuple[float, float, float]:
    """Return ``F``, ``sum psi'`` and ``sum psi' (X - theta)`` of an arm's rewards."""
    value, total_slope, tilt = 0.0, 0.0, 0.0
    for place in range(state.kept[arm]):
        reward = state.rewards.pool[page_start(state.rewards, arm, place // PAGE) + place % PAGE]
        y = alpha * (reward - theta)
        slope = _influence_slope(y)
        value += influence(y)
        total_slope += slope
        tilt += slope * (reward - theta)
    return value, total_slope, tilt


@inlined
def _solve(state: CatoniMeans, arm: int, alpha: float, guess: float) -> float:
    """Solve for the root by Newton's method from a guess; rewards and root lie in [0, 1]."""
    low, high, theta = 0.0, 1.0, min(max(guess, 0.0), 1.0)
    value, slope, tilt = _sums_at(state, arm, theta, alpha)
    for _ in range(_STEPS):
        if value > 0.0:
            low = theta
        else:
            high = theta
        # The sum decreases in theta, so its sign keeps the root bracketed; a step that leaves the
        # bracket, as far from the root may happen, is replaced by bisection.
        following = theta + value / (alpha * slope)
        if following < low or following > high:
            following = 0.5 * (low + high)
        settled = abs(following - theta) < 1e-15
        theta = following
        if settled:
            break
        value, slope, tilt = _sums_at(state, arm, theta, alpha)
    reference = state.scratch[arm]
    reference[_THETA], reference[_ALPHA] = theta, alpha
    reference[_VALUE], reference[_SLOPE], reference[_TILT] = value, slope, tilt
    return theta


@inlined
def _estimate(state: CatoniMeans, arm: int, alpha: float) -> tuple[float, float]:
    """Estimate the root from the reference point, and bound the error.

    With too few rewards (``alpha = 0``) it is their mean, or 1 if there are none.
    """
    size = state.kept[arm]
    if alpha == 0.0:
        return (state.kept_sums[arm] / size if size > 0 else 1.0), 0.0
    reference = state.scratch[arm]
    # Nothing was solved yet: the mean is only a guess, and the error covers all of [0, 1].
    if reference[_ALPHA] == 0.0:
        return state.kept_sums[arm] / size, 1.0
    turn = alpha - reference[_ALPHA]
    step = (reference[_VALUE] + turn * reference[_TILT]) / (alpha * reference[_SLOPE])
    # The remainder's bound needs to know how far away the root is, and that is not known yet. So
    # guess a bound and verify it: if the remainder over the guessed range is within the guess,
    # the root lies in that range. If not, nothing is known, and 1 covers all of [0, 1].
    error = 2.0 * _remainder(turn, alpha, 2.0 * step)
    if _remainder(turn, alpha, abs(step) + error) > error:
        error = 1.0
    return reference[_THETA] + step, error


@inlined
def _remainder(turn: float, alpha: float, step: float) -> float:
    """Bound the error of the linear step by Taylor's remainder, if the root is within ``step``."""
    move = abs(turn) + alpha * abs(step)
    return 0.5 * _CURVATURE / _LEAST_SLOPE * move * move / alpha


@inlined
def _leader(
    state: CatoniMeans, logarithm: float, scale: float, eligible: Eligible
) -> tuple[int, bool]:
    """Return the arm whose index may be largest, and whether it certainly is."""
    best, best_upper, best_lower, second = 0, -np.inf, -np.inf, -np.inf
    for arm in range(state.spread.size):
        if eligible is not None and not eligible[arm]:
            continue
        estimate, error = _estimate(state, arm, catoni_scale(state.kept[arm], logarithm))
        index = estimate + scale * state.spread[arm]
        if index + error > best_upper:
            second = best_upper
            best, best_upper, best_lower = arm, index + error, index - error
        else:
            second = max(second, index + error)
    return best, best_lower > second + _TIE


@inlined
def catoni_index(state: CatoniMeans, arm: int, logarithm: float, scale: float) -> float:
    """The estimate plus ``scale/sqrt(n)``, given ``ln t``."""
    alpha = catoni_scale(state.kept[arm], logarithm)
    estimate, error = _estimate(state, arm, alpha)
    if error > _TIE:
        estimate = _solve(state, arm, alpha, estimate)
    return estimate + scale * state.spread[arm]


@plays_next_arm(CatoniMeans)
@inlined
def _next_arm(state: CatoniMeans, eligible: Eligible) -> int:
    """Return an arm with too few plays for the estimator if there is one, else the best index."""
    arms = state.spread.size
    logarithm = math.log(state.counts.rounds[0] + 1)
    for arm in range(arms):
        if eligible is not None and not eligible[arm]:
            continue
        assigned = state.counts.assigned[arm]
        # Catoni's width holds from 8 ln t rewards on: 2A, as ``catoni_scale`` requires.
        if assigned == 0 or assigned < 8.0 * logarithm:
            return arm
    scale = math.sqrt(2.0 * logarithm)
    first, decided = _leader(state, logarithm, scale, eligible)
    if decided:
        return first
    best, best_index = first, catoni_index(state, first, logarithm, scale)
    for arm in range(arms):
        if eligible is not None and not eligible[arm]:
            continue
        alpha = catoni_scale(state.kept[arm], logarithm)
        estimate, error = _estimate(state, arm, alpha)
        if arm != first and estimate + error + scale * state.spread[arm] >= best_index - _TIE:
            index = catoni_index(state, arm, logarithm, scale)
            if comes_first(index, arm, best_index, best, _TIE):
                best = arm
            best_index = max(best_index, index)
    return best


@implement(assign, CatoniMeans)
def catoni_assign(state: CatoniMeans, ticket: Ticket) -> Ticket:
    count_play(state.counts, ticket.arm)
    state.spread[ticket.arm] = 1.0 / math.sqrt(state.counts.assigned[ticket.arm])
    return ticket


@implement(learn, CatoniMeans)
def catoni_learn(state: CatoniMeans, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    place = state.kept[arm]
    number = place // PAGE
    if number < state.rewards.length[arm] or insert_page(state.rewards, arm, number):
        state.rewards.pool[page_start(state.rewards, arm, number) + place % PAGE] = reward
        state.kept[arm] = place + 1
        state.kept_sums[arm] += reward
        if state.scratch[arm, _ALPHA] > 0.0:
            _add(state, arm, reward)
