"""crUCB: upper confidence bounds around means that forget the extremes."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.kernels.dispatch import implement
from armrace.kernels.generics import (
    Eligible,
    Ticket,
    learn,
)
from armrace.limits import Limits
from armrace.policies.common.counts import Counts, make_counts, record
from armrace.policies.indices.argmax import counts_spread, make_argmax, plays_next_arm
from armrace.policies.indices.histories import (
    PAGE,
    HistoryPolicy,
    Ordered,
    insert,
    make_ordered,
    median,
    page_start,
    reward_of_rank,
    sum_of_ranks,
)

_ESTIMATORS = ("trimmed", "shorth", "median")
_TRIMMED, _SHORTH = 0, 1
_LOW, _HIGH = 0, 1
"""How far a running sum may be off after very many rewards."""
_DEVIATION = 0.5
"""Standard deviation of a reward in [0, 1], at most."""
_FORGIVEN = 1e-12
"""Relative tolerance in rounding ``alpha n`` up, so that 0.07 of 100 rewards are 7, not 8."""


class CrUcbState(NamedTuple):
    """Counts, all rewards in order of size, and what the estimator makes of them."""

    counts: Counts
    ordered: Ordered
    estimates: npt.NDArray[np.float64]
    kept_sums: npt.NDArray[np.float64]
    """Sum of the rewards that trimming leaves."""
    trimmed: npt.NDArray[np.int64]
    """How many are trimmed at each end; for the shorth, how many lie below its interval."""
    spread: npt.NDArray[np.float64]
    alpha: npt.NDArray[np.float64]
    estimator: npt.NDArray[np.int64]


class CrUcb(HistoryPolicy, frozen=True, tag="crucb"):
    """Plays the largest robust mean plus ``sigma/(1 - 2 alpha) sqrt(4 ln t / n)``.

    ``sigma`` is 1/2, the most for rewards in [0, 1]; ``alpha`` should be at least the fraction
    of each arm's rewards that may be corrupted. The robust mean is one of

    - ``trimmed``: the mean without the ``ceil(alpha n)`` smallest and as many largest rewards,
      or of all rewards if that would leave none;
    - ``shorth``: the mean of the shortest interval that holds ``floor((1 - alpha) n)`` rewards,
      at least one;
    - ``median``, with the same bonus. This one is not in the paper, and nothing is proved of it.

    Two points where the paper leaves room: its box for the shorth averages one reward more than
    its text, a fraction ``1 - alpha``, which is what is taken here; and it chooses among equally
    short intervals at random, where the lowest is taken here, so that the estimate depends on
    the rewards alone.

    The regret on clean rewards is at most ``8 sigma sqrt(K T ln T) + 15 sum gap`` if at all times
    at most a fraction ``alpha`` of each arm's rewards is corrupted and ``alpha`` is at most
    ``D/(4 (D + 4))`` for ``trimmed`` or ``D/(4 (D + 9))`` for ``shorth``, where ``D`` is the
    least gap (Theorems 3 and 4, checked against the paper, for rewards in [0, 1]). That allows
    at most 1/20 and 1/40, so the default of 0.1 has no such guarantee for any gap; for ``alpha``
    below 1/4 the paper states a regret of order ``sigma sqrt(KT) + alpha sigma T/(1 - 4 alpha)``
    up to logarithms. The shorth's mean is shown to concentrate only for ``alpha`` below 1/3. On
    Bernoulli arms all three estimates lean towards 0 or 1, so that arms on the same side of 1/2
    look alike: expect failures there.

    All rewards are kept, in order of size: 16 bytes each. A reward costs a search and a small
    shift, and for the shorth a look at every page of the outer ``alpha n`` rewards and into
    those that could hold a shorter interval, which is far above ten times UCB1 on long runs.
    Rewards beyond the horizon count as plays but are no longer kept. While feedback is
    outstanding, ``n`` counts the plays assigned; before its first reward an arm's mean is 1.

    >>> from armrace.kernels.generics import learn
    >>> state = CrUcb(alpha=0.2).start(arms=2, horizon=100)
    >>> for reward in (0, 0, 1 / 9, 1 / 9, 1):
    ...     learn(state, Ticket(arm=0), reward)
    >>> f"{9 * state.estimates[0]:.6f}"
    '0.666667'
    """

    family: ClassVar[str] = "robust"
    takes_new_arms: ClassVar[bool] = True
    reference: ClassVar[str] = (
        "Niss and Tewari (2020), What you see may not be what you get: UCB bandit algorithms "
        "robust to epsilon-contamination"
    )
    source_kind: ClassVar[str] = "print"
    source_note: ClassVar[str] = (
        "Index and estimators follow Algorithms 2 to 4 of the UAI paper. Its theorems ask for "
        "a share of corrupted rewards far below the default `alpha` of 0.1, so that no "
        "guarantee applies at the default."
    )

    alpha: Annotated[
        float, Limits("fraction of each arm's rewards that may be corrupted", 0, 0.5, False, True)
    ] = 0.1
    estimator: Annotated[
        Literal["trimmed", "shorth", "median"], "the robust mean; median is not the paper's"
    ] = "trimmed"

    def start(self, arms: int, horizon: int) -> CrUcbState:
        return CrUcbState(
            counts=make_counts(arms),
            ordered=make_ordered(arms, self.room(horizon), cursors=2),
            estimates=np.ones(arms),
            kept_sums=np.zeros(arms),
            trimmed=np.zeros(arms, dtype=np.int64),
            spread=np.zeros(arms),
            alpha=np.array([float(self.alpha)]),
            estimator=np.array([_ESTIMATORS.index(self.estimator)]),
        )

    def upper_bound(self, state: CrUcbState, arm: int) -> float:
        scale = bonus_scale(int(state.counts.rounds[0]), self.alpha)
        return float(state.estimates[arm] + scale * state.spread[arm])


@inlined
def bonus_scale(round_number: int, alpha: float) -> float:
    """The part of the bonus that all arms share."""
    return _DEVIATION / (1.0 - 2.0 * alpha) * math.sqrt(4.0 * math.log(round_number))


@inlined
def _index(state: CrUcbState, arm: int, scale: float) -> float:
    return state.estimates[arm] + scale * state.spread[arm]


_arm_of_largest_index = make_argmax(_index)


@plays_next_arm(CrUcbState)
@inlined
def _next_arm(state: CrUcbState, eligible: Eligible) -> int:
    scale = bonus_scale(state.counts.rounds[0] + 1, state.alpha[0])
    return _arm_of_largest_index(state, scale, eligible)


counts_spread(CrUcbState)


@implement(learn, CrUcbState)
def crucb_learn(state: CrUcbState, ticket: Ticket, reward: float) -> None:
    arm = ticket.arm
    record(state.counts, arm, reward)
    # Without room the estimate stays as it is; the reward is counted as a play alone.
    if insert(state.ordered, arm, reward):
        if state.estimator[0] == _TRIMMED:
            state.estimates[arm] = _trimmed_mean(state, arm, reward)
        elif state.estimator[0] == _SHORTH:
            state.estimates[arm] = _shorth(state, arm)
        else:
            state.estimates[arm] = median(state.ordered, arm, _LOW)


@inlined
def _trimmed_mean(state: CrUcbState, arm: int, reward: float) -> float:
    """The mean of the kept rewards, from the sum before ``reward`` was inserted.

    If the number of trimmed rewards is unchanged, exactly one reward joins those that are kept:
    the new reward or the one that it displaces at an edge. Both equal the new reward clipped to
    the new edges.
    """
    size, trimmed = state.ordered.sizes[arm], state.trimmed[arm]
    following = trimmed_count(state.alpha[0], size)
    if following == trimmed or following == trimmed + 1:
        low = reward_of_rank(state.ordered, arm, _LOW, trimmed)
        high = reward_of_rank(state.ordered, arm, _HIGH, size - 1 - trimmed)
        state.kept_sums[arm] += min(max(reward, low), high)
        if following > trimmed:
            # One more is trimmed at each end, and these are the two that were at the edges.
            state.kept_sums[arm] -= low + high
    else:  # where trimming would leave nothing, or begins again after that
        last = size - following
        state.kept_sums[arm] = sum_of_ranks(state.ordered, arm, _LOW, following, last)
    state.trimmed[arm] = following
    return state.kept_sums[arm] / (size - 2 * following)


@inlined
def trimmed_count(alpha: float, size: int) -> int:
    """Return how many of ``size`` rewards are trimmed at each end."""
    count = math.ceil(alpha * size * (1.0 - _FORGIVEN))
    return count if 2 * count < size else 0


@inlined
def _shorth(state: CrUcbState, arm: int) -> float:
    held = held_count(state.alpha[0], state.ordered.sizes[arm])
    mean, state.trimmed[arm] = shorth(state.ordered, arm, held, state.trimmed[arm])
    return mean


@inlined
def held_count(alpha: float, size: int) -> int:
    """Return how many of ``size`` rewards the interval of the shorth contains."""
    return max(1, int((1.0 - alpha) * size * (1.0 + _FORGIVEN)))


@inlined
def shorth(ordered: Ordered, arm: int, held: int, near: int) -> tuple[float, int]:
    """The mean of the shortest interval that holds ``held`` rewards, the lowest such.

    Also returns the rank at which it begins; pass it as ``near`` in the next call. Uses two
    cursors. All intervals that begin on one page are at least as long as the distance from the
    page's last reward to the end of the page's first interval, so most pages can be skipped.
    """
    starts = ordered.sizes[arm] - held + 1
    # A restored state may hold any count here: only that of the trimmed mean is checked.
    near = min(max(near, 0), starts - 1)
    # The interval at the last place is a first bound: no page that cannot do better is looked at.
    longest = reward_of_rank(ordered, arm, _HIGH, near + held - 1)
    longest -= reward_of_rank(ordered, arm, _LOW, near)
    best, best_length = 0, np.inf
    rank = 0
    while rank < starts:
        reward_of_rank(ordered, arm, _LOW, rank)
        begin = page_start(ordered.pages, arm, ordered.cursor_page[arm, _LOW])
        end = min(rank + np.int64(ordered.fill[begin // PAGE]), starts)
        last = ordered.pages.pool[begin + end - 1 - rank]
        least = reward_of_rank(ordered, arm, _HIGH, rank + held - 1) - last
        # An interval as long as the first bound is not skipped: that one must itself be found
        # again.
        if least < best_length and least <= longest:
            for start in range(rank, end):
                upper = reward_of_rank(ordered, arm, _HIGH, start + held - 1)
                length = upper - ordered.pages.pool[begin + start - rank]
                if length < best_length:
                    best, best_length = start, length
        rank = end
    return sum_of_ranks(ordered, arm, _LOW, best, best + held) / held, best
