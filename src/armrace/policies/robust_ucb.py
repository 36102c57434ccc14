"""Robust UCB: upper confidence bounds around estimates made for heavy tails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import Eligible, Ticket, learn
from armrace.kernels.states import index_limits
from armrace.policies.common.counts import Counts, make_counts, record
from armrace.policies.indices.argmax import comes_first, counts_spread, plays_next_arm
from armrace.policies.indices.histories import (
    PAGE,
    HistoryPolicy,
    Pages,
    append,
    make_pages,
    number_at,
)

Floats = npt.NDArray[np.float64]

_ESTIMATORS = ("median-of-means", "truncated", "catoni")
_MEDIANS, _TRUNCATED, _CATONI = range(3)
_EARLY = 72
"""More than ``2 ln t`` for any ``t`` that can be reached: only so many rewards can be cut."""
_NEVER = 1e300
_TIE, _STEPS = 1e-12, 50
_REMAINDER = 0.5 * 0.25 / 0.8
"""Half of the most that Catoni's ``psi`` curves, over a lower bound on its slope on [-1, 1]."""

_ESTIMATE, _BLOCKS, _LENGTH = 0, 1, 2
_CUT, _FOLLOWING = 0, 1
_THETA, _ALPHA, _VALUE, _SLOPE, _TILT = 0, 1, 2, 3, 4
"""Places in the notes on an arm: the median and its blocks; the sum of what is cut and the
``2 ln t`` above which more is; a point ``(theta, alpha)`` (``alpha`` 0 if there is none), and there
Catoni's ``F``, ``sum psi'`` and ``sum psi' (X - theta)``."""


class RobustState(NamedTuple):
    """Counts, rewards in the order they came, and what the estimator last made of them."""

    counts: Counts
    rewards: Pages
    """For medians, the running sums of the rewards."""
    kept: npt.NDArray[np.int64]
    sums: Floats
    """Of the rewards kept."""
    spread: Floats
    estimator: npt.NDArray[np.int64]
    scratch: Floats
    """Notes on each arm, so that an estimate need not be computed from all rewards each round."""


@index_limits(RobustState)
def limit_indices_of_robust(state: RobustState) -> Iterator[tuple[Any, Any]]:
    yield state.kept, state.rewards.length * PAGE + 1


class RobustUcb(HistoryPolicy, frozen=True, tag="robust-ucb"):
    """Plays the largest upper bound around a mean estimate that outliers move little.

    With confidence ``t^-2``, variance at most ``v = 1/4`` and second moment at most ``u = 1``,
    as on [0, 1], the index is one of

    - ``median-of-means``: the median of the means of ``k = floor(min(1 + 16 ln t, n/2))`` blocks
      plus ``sqrt(12 v (2 + 32 ln t) / n)``; each arm is played twice first;
    - ``truncated``: the mean in which the ``s``-th reward counts only up to
      ``sqrt(u s / (2 ln t))``, as 0 beyond, plus ``4 sqrt(2 u ln t / n)``;
    - ``catoni``: Catoni's M-estimator plus ``2 sqrt(2 v ln t / n)``;
      an arm with fewer than ``8 ln t`` plays goes first.

    Without corruption, and even for heavy tails, the expected regret is of order
    ``sum v ln T / gap`` for ``median-of-means``, at most ``sum (32 u ln T / gap + 5 gap)`` for
    ``truncated``, and of order ``sum (v / gap + gap) ln T`` for ``catoni``. Estimators, widths and
    bounds are as restated by later papers; Catoni's width follows from his bound once an arm has
    its ``8 ln t`` plays, and the cap of ``n/2`` on the blocks is from memory. The estimators
    withstand outliers, not an adversary, and on [0, 1] the wide bonuses of the first two make them
    slow learners. All but ``truncated`` keep every reward, 16 bytes each, up to the horizon; later
    ones count as plays. ``catoni`` goes through an arm's rewards whenever the bounded error of its
    last solution leaves the largest index undecided: beyond ten times UCB1 where arms are close.
    While feedback is outstanding, ``n`` in the bonus counts the plays assigned; an arm without an
    estimate has 1 (for ``catoni``, the mean of what rewards it has).

    >>> policy = RobustUcb(estimator="catoni")
    >>> state = policy.start(arms=2, horizon=100)
    >>> for reward in [0.0, 1.0] * 20:
    ...     learn(state, Ticket(arm=0), reward)
    >>> f"{robust_mean(state, 0, logarithm=math.log(50)):.3f}"
    '0.500'
    """

    family: ClassVar[str] = "stochastic"
    reference: ClassVar[str] = (
        "Bubeck, Cesa-Bianchi and Lugosi (2013), Bandits with heavy tail; Catoni (2012)"
    )
    source_kind: ClassVar[str] = "restated"
    source_note: ClassVar[str] = (
        "All three estimators and their widths agree with later papers that restate them; the "
        "limit on the number of blocks is from memory."
    )

    estimator: Annotated[
        Literal["median-of-means", "truncated", "catoni"], "the robust estimate of a mean"
    ] = "median-of-means"

    def start(self, arms: int, horizon: int) -> RobustState:
        # Each arm gets a page at least, which is room enough for the rewards that can be cut.
        room = 0 if self.estimator == "truncated" else self.room(horizon)
        return RobustState(
            counts=make_counts(arms),
            rewards=make_pages(arms, room),
            kept=np.zeros(arms, dtype=np.int64),
            sums=np.zeros(arms),
            spread=np.zeros(arms),
            estimator=np.array([_ESTIMATORS.index(self.estimator)]),
            scratch=np.zeros((arms, 5)),
        )

    def upper_bound(self, state: RobustState, arm: int) -> float:
        logarithm = math.log(state.counts.rounds[0])
        mean = robust_mean(state, arm, logarithm)
        return float(mean + _plan(state, logarithm)[0] * state.spread[arm])


@inlined
def _plan(state: RobustState, logarithm: float) -> tuple[float, float]:
    """Return the factor of ``1/sqrt(n)`` in all bonuses, and how often each arm is played first."""
    if state.estimator[0] == _MEDIANS:
        return math.sqrt(3.0 * (2.0 + 32.0 * logarithm)), 2.0
    if state.estimator[0] == _TRUNCATED:
        return 4.0 * math.sqrt(2.0 * logarithm), 1.0
    # Catoni's width holds from 8 ln t rewards on, as ``catoni_scale`` requires.
    return math.sqrt(2.0 * logarithm), max(1.0, 8.0 * logarithm)


@plays_next_arm(RobustState)
@inlined
def _next_arm(state: RobustState, eligible: Eligible) -> int:
    """An arm with too few plays if there is one, else the best index, exactly."""
    logarithm = math.log(state.counts.rounds[0] + 1)
    width, needed = _plan(state, logarithm)
    first, upper, lower, second = 0, -np.inf, -np.inf, -np.inf
    for arm in range(state.spread.size):
        if eligible is not None and not eligible[arm]:
            continue
        if state.counts.assigned[arm] < needed:
            return arm
        estimate, error = _estimate(state, arm, logarithm)
        index = estimate + width * state.spread[arm]
        if index + error > upper:
            second = upper
            first, upper, lower = arm, index + error, index - error
        else:
            second = max(second, index + error)
    if state.estimator[0] != _CATONI or lower > second + _TIE:
        return first
    best, best_index = first, robust_mean(state, first, logarithm) + width * state.spread[first]
    for arm in range(state.spread.size):
        if arm == first or (eligible is not None and not eligible[arm]):
            continue
        estimate, error = _estimate(state, arm, logarithm)
        if estimate + error + width * state.spread[arm] >= best_index - _TIE:
            index = robust_mean(state, arm, logarithm) + width * state.spread[arm]
            if comes_first(index, arm, best_index, best, _TIE):
                best = arm
            best_index = max(best_index, index)
    return best


@inlined
def robust_mean(state: RobustState, arm: int, logarithm: float) -> float:
    """The estimate of an arm's mean, given ``ln t``."""
    estimate, error = _estimate(state, arm, logarithm)
    return _solve(state, arm, logarithm, estimate) if error > _TIE else estimate


@inlined
def _estimate(state: RobustState, arm: int, logarithm: float) -> tuple[float, float]:
    """Return the estimate, and for Catoni's a bound on the error of a cheap one."""
    if state.estimator[0] == _MEDIANS:
        return _median_of_means(state, arm, logarithm), 0.0
    if state.estimator[0] == _TRUNCATED:
        return _truncated_mean(state, arm, 2.0 * logarithm), 0.0
    return _catoni_step(state, arm, logarithm)


@inlined
def _median_of_means(state: RobustState, arm: int, logarithm: float) -> float:
    """The median of the means of equal blocks, anew only when number or length has changed."""
    kept, notes = state.kept[arm], state.scratch[arm]
    if kept < 2:
        return 1.0
    blocks = min(int(1.0 + 16.0 * logarithm), kept // 2)
    length = kept // blocks
    if blocks != notes[_BLOCKS] or length != notes[_LENGTH]:
        means, before = np.empty(blocks), 0.0
        for block in range(blocks):
            total = number_at(state.rewards, arm, (block + 1) * length - 1)
            means[block] = (total - before) / length
            before = total
        notes[_ESTIMATE], notes[_BLOCKS], notes[_LENGTH] = np.median(means), blocks, length
    return notes[_ESTIMATE]


@inlined
def _truncated_mean(state: RobustState, arm: int, doubled: float) -> float:
    """The mean without what is cut, given ``2 ln t``: early rewards whose square is too large."""
    pulls, notes = state.counts.pulls[arm], state.scratch[arm]
    if pulls == 0:
        return 1.0
    # ``2 ln t`` only grows, so what is cut stays the same until the next reward is.
    if doubled > notes[_FOLLOWING]:
        cut, following = 0.0, _NEVER
        for place in range(min(_EARLY, state.kept[arm])):
            reward = number_at(state.rewards, arm, place)
            square = reward * reward
            if doubled * square > place + 1:
                cut += reward
            elif square > 0.0:
                following = min(following, (place + 1) / square)
        notes[_CUT], notes[_FOLLOWING] = cut, following
    return (state.counts.sums[arm] - notes[_CUT]) / pulls


@inlined
def influence(y: float) -> float:
    """Catoni's ``psi(y) = sgn(y) ln(1 + |y| + y^2/2)``.

    His estimate is the root ``theta`` of ``F = sum psi(alpha (X - theta))``.
    """
    size = math.log1p(abs(y) + 0.5 * y * y)
    return size if y >= 0.0 else -size


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
def _add(notes: Floats, reward: float) -> None:
    """Add a reward to the sums at the point of the notes."""
    distance = reward - notes[_THETA]
    y = notes[_ALPHA] * distance
    size = 1.0 + abs(y)
    slope = size / (size + 0.5 * y * y)
    notes[_VALUE] += influence(y)
    notes[_SLOPE] += slope
    notes[_TILT] += slope * distance


@inlined
def _solve(state: RobustState, arm: int, logarithm: float, guess: float) -> float:
    """Solve for Catoni's root by Newton's method; rewards and root lie in [0, 1]."""
    alpha, notes = catoni_scale(state.kept[arm], logarithm), state.scratch[arm]
    low, high = 0.0, 1.0
    notes[_THETA], notes[_ALPHA] = min(max(guess, 0.0), 1.0), alpha
    for _ in range(_STEPS):
        notes[_VALUE], notes[_SLOPE], notes[_TILT] = 0.0, 0.0, 0.0
        for place in range(state.kept[arm]):
            _add(notes, number_at(state.rewards, arm, place))
        theta = notes[_THETA]
        if notes[_VALUE] > 0.0:
            low = theta
        else:
            high = theta
        # The sum decreases in theta, so its sign keeps the root bracketed; a step that leaves the
        # bracket, as far from the root may happen, is replaced by bisection.
        following = theta + notes[_VALUE] / (alpha * notes[_SLOPE])
        if following < low or following > high:
            following = 0.5 * (low + high)
        notes[_THETA] = following
        if abs(following - theta) < 1e-15:
            break
    return notes[_THETA]


@inlined
def _catoni_step(state: RobustState, arm: int, logarithm: float) -> tuple[float, float]:
    """Estimate Catoni's root by a linear step from the last solution, and bound the error.

    With too few rewards (``alpha = 0``) it is their mean, or 1 if there are none.
    """
    size, notes = state.kept[arm], state.scratch[arm]
    alpha = catoni_scale(size, logarithm)
    if alpha == 0.0:
        return (state.sums[arm] / size if size > 0 else 1.0), 0.0
    # Nothing was solved yet: the mean is only a guess, and the error covers all of [0, 1].
    if notes[_ALPHA] == 0.0:
        return state.sums[arm] / size, 1.0
    turn = alpha - notes[_ALPHA]
    step = (notes[_VALUE] + turn * notes[_TILT]) / (alpha * notes[_SLOPE])
    # The remainder's bound needs to know how far away the root is, and that is not known yet. So
    # guess a bound and verify it: if the remainder over the guessed range is within the guess,
    # the root lies in that range. If not, nothing is known, and 1 covers all of [0, 1].
    error = 2.0 * _remainder(turn, alpha, 2.0 * step)
    if _remainder(turn, alpha, abs(step) + error) > error:
        error = 1.0
    return notes[_THETA] + step, error


@inlined
def _remainder(turn: float, alpha: float, step: float) -> float:
    """Bound the error of the linear step by Taylor's remainder, if the root is within ``step``."""
    move = abs(turn) + alpha * abs(step)
    return _REMAINDER * move * move / alpha


counts_spread(RobustState)


@implement(learn, RobustState)
def robust_learn(state: RobustState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    place, total = state.kept[arm], state.sums[arm] + reward
    if state.estimator[0] == _TRUNCATED and place >= _EARLY:
        return
    if append(state.rewards, arm, place, total if state.estimator[0] == _MEDIANS else reward):
        state.kept[arm] = place + 1
        state.sums[arm] = total
        if state.estimator[0] == _TRUNCATED:
            state.scratch[arm, _FOLLOWING] = 0.0  # it may have to be cut before any earlier one
        elif state.estimator[0] == _CATONI and state.scratch[arm, _ALPHA] > 0.0:
            _add(state.scratch[arm], reward)
