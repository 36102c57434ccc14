"""What the bounds of races share: regret from plays of bad arms, and the corruption of a layer.

Let arm ``a`` with the gap ``D(a)`` be played ``n(a)`` times. The pseudo-regret of a run is
``sum n(a) D(a)``. Against an arm ``b``, the regret on the rewards before corruption is

    sum n(a) D(a) - T D(b) + (a martingale that moves only in rounds in which b is not played).

Its steps lie within an interval of length 2, so after ``m`` moves it exceeds ``sqrt(2 m L)`` with
probability at most ``exp(-L)`` (Hoeffding and Azuma), for all ``K`` arms and ``m <= T`` at once
with at most ``K T exp(-L)``. Against the best arm there are as many moves as bad plays, against
another at most ``T``. Corruption changes the comparator by at most ``C`` and what was collected
by at most ``C``. Altogether the regret is at most

    sum n(a) D(a) + max(sqrt(2 L sum n(a)), sqrt(2 L T) - T D(b) for any b) + 2 C.

The paper adds another ``n(a) D(a)`` for each arm and one ``C``; the argument gives the above.

How long it takes until a tolerant layer of a race has deleted an arm, in moves and in rounds.

Active arms are played in turn. Until an arm with ``N(a)`` plays is deleted, a best arm has at most
``N(a)`` plays in the layer and every other arm ``b`` at most ``min(N(a), N(b))``, so that the layer
has made ``M = N(a) + sum over b of min(N(a), N(b))`` moves. The number of moves in ``R`` rounds is
binomial with the mean ``R p``, and below ``R p - s`` with probability at most ``exp(-s^2 / 2Rp)``
(Chernoff), so ``R p = M + h + sqrt(h^2 + 2 M h)`` gives ``M`` moves, except with the probability
``exp(-h)``. The paper waits for each move separately, ``ln(1/failure)(1 - p)/p`` rounds where its
argument needs ``ln(1/failure)/p``, which costs another logarithm on ``C``; counting the moves
together does not.

How much corruption a sub-sampled layer meets: the paper's bound, and the sharp one.

A layer that gets each round with probability ``p``, by a coin that the adversary cannot see,
learns from a share of the corruption only. Let ``c_t`` be the corruption that the layer would
meet in round ``t`` and ``B_t`` its coin. Given the past, the round's clean rewards and what the
adversary does with them, ``c_t`` is fixed and the coin is not, so for every ``x > 0``

    E exp(x B_t c_t) <= exp(p (e^x - 1) c_t),

because the exponential is convex on [0, 1]. By Ville's inequality, with probability
``1 - failure`` and at all times at once, the corruption ``Z`` met so far and the corruption
``C`` spent so far satisfy ``x Z <= (e^x - 1) p C + ln(1/failure)``.

The paper conditions on the past alone and says that the expected corruption met is at most 1;
that fails for an adversary who sees the round's own rewards before it acts: then only
``sum of c_t <= C`` is known, path by path. Conditioning as above repairs the proof, and also gives
the sharper constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number

_OPEN_UNIT = Limits("", 0, 1, low_open=True, high_open=True)
_SHARE = Limits("", 0, 1, low_open=True)
_UNIT = Limits("", 0, 1)


def check_at_least(name: str, value: float, low: float) -> None:
    """Refuse what is not a finite number of at least ``low``."""
    check_number(name, value, Limits("", low))


def check_above_zero(name: str, value: float) -> None:
    """Refuse what is not a finite number above 0."""
    check_number(name, value, Limits("", 0, low_open=True))


def check_open_unit(name: str, value: float) -> None:
    """Refuse what is not in (0, 1)."""
    check_number(name, value, _OPEN_UNIT)


def check_share(name: str, value: float) -> None:
    """Refuse what is not in (0, 1]."""
    check_number(name, value, _SHARE)


def check_run(arms: int, horizon: int, delta: float | None = None) -> None:
    """Refuse fewer than two arms, fewer than one round, and a ``delta`` that is not in (0, 1)."""
    check_at_least("arms", arms, 2)
    check_horizon(horizon)
    if delta is not None:
        check_open_unit("delta", delta)


def check_horizon(horizon: int) -> None:
    """Refuse fewer than one round."""
    check_at_least("horizon", horizon, 1)


def check_means(means: Sequence[float]) -> None:
    """Refuse fewer than two means, and those that are not in [0, 1]."""
    if len(means) < 2:
        raise InvalidParameter(f"means must name at least 2 arms; got {len(means)}.")
    for mean in means:
        check_number("each of means", mean, _UNIT)


def check_gaps(gaps: Sequence[float]) -> None:
    """Refuse gaps that are not in [0, 1], or none at all."""
    if not len(gaps):
        raise InvalidParameter("gaps must have an entry for each arm but the best; got none.")
    for gap in gaps:
        check_number("each of gaps", gap, _UNIT)


class RegretBound(NamedTuple):
    """Upper bounds on a run's pseudo-regret and regret, except with the failure probability."""

    pseudo_regret: float
    """Sum over rounds of the gap of the arm played."""
    regret: float
    """Best arm in hindsight minus what was collected, both after corruption."""

    @property
    def is_void(self) -> bool:
        """True where nothing is guaranteed: the slowest layer tolerates less than ``C``."""
        return self.pseudo_regret == math.inf


NO_GUARANTEE = RegretBound(math.inf, math.inf)
"""The bound of a race under more corruption than its slowest layer tolerates."""


def regret_of_limits(gaps: Sequence[float], limits: Sequence[float], horizon: float) -> float:
    """Return the largest pseudo-regret if each arm has a limit on its plays in ``horizon`` rounds.

    >>> regret_of_limits([0.5, 0.1], [10, 1000], 100)
    14.0
    """
    left, total = float(horizon), 0.0
    for gap, limit in sorted(zip(gaps, limits, strict=True), reverse=True):
        plays = min(limit, left)
        left -= plays
        total += gap * plays
    return total


def regret_of_stages(gaps: Sequence[float], ends: Sequence[float], horizon: int) -> float:
    """Return the largest pseudo-regret if each arm is deleted by a given round.

    In every round, the worst that can be played is the worst arm that is not deleted.

    >>> regret_of_stages([0.5, 0.1], [10, 60], 100)
    10.0
    """
    start, total = 0.0, 0.0
    for gap, end in sorted(zip(gaps, ends, strict=True), reverse=True):
        reached = max(start, min(end, float(horizon)))
        total += gap * (reached - start)
        start = reached
    return total


def bound_regret(
    gaps: Sequence[float],
    pseudo_regret: float,
    bad_plays: float,
    horizon: int,
    log_term: float,
    corruption: float,
) -> RegretBound:
    """Regret from pseudo-regret and the number of bad plays, as derived above.

    ``corruption`` is the sum of what it does to the comparator and to what is collected.

    >>> bound_regret([0.5], 10, 8, 1000, 4, 6)
    RegretBound(pseudo_regret=10, regret=24.0)
    """
    to_the_best = math.sqrt(2 * log_term * min(bad_plays, horizon))
    to_others = max(math.sqrt(2 * log_term * horizon) - horizon * gap for gap in gaps)
    return RegretBound(pseudo_regret, pseudo_regret + max(to_the_best, to_others) + corruption)


def moves_until_deleted(plays: Sequence[float]) -> list[float]:
    """The number of moves by which a tolerant layer has deleted each arm.

    ``plays`` are the limits ``N(a)`` on the turns of every arm except one best arm. While arm
    ``a`` is active, no active arm is more than a turn ahead of it, so a best arm has at most
    ``N(a)`` turns and arm ``b`` at most ``min(N(a), N(b))``.

    Args:
        plays: for each arm except one best arm, the most turns before it is deleted.

    >>> moves_until_deleted([10, 40]), moves_until_deleted([7])
    ([30, 90], [14])
    """
    return [own + sum(min(own, other) for other in plays) for own in plays]


def rounds_until_moves(moves: float, share: float, failure: float) -> float:
    """Return after how many rounds a layer has made ``moves`` moves, except with ``failure``.

    That is ``(M + h + sqrt(h^2 + 2 M h)) / p`` with ``h = ln(1/failure)``, rounded up.

    Args:
        moves: the number of moves.
        share: the share of the rounds that the layer gets.
        failure: the probability with which it may take longer.

    >>> rounds_until_moves(1000, 0.25, 0.1), rounds_until_moves(10, 1, 0.1)
    (4281, 10)
    """
    if moves != math.inf:  # an arm of no gap is never deleted
        check_at_least("moves", moves, 0)
    check_share("share", share)
    check_open_unit("failure", failure)
    if share == 1 or moves == math.inf:
        return moves
    log_term = math.log(1 / failure)
    mean = moves + log_term + math.sqrt(log_term**2 + 2 * moves * log_term)
    return math.ceil(mean / share)


_NEWTON_STEPS = 200


def corruption_allowance(rho: float, log_term: float) -> float:
    """The most corruption that a layer meets, except with probability ``exp(-log_term)``.

    ``rho`` bounds the layer's share times the corruption spent. The best ``x`` above gives the
    root ``c > rho`` of

        c ln(c / rho) - c + rho = log_term.

    Newton's method starts from ``log_term + (e - 1) rho``, the bound for ``x = 1``; the left
    side is convex, so that every step comes down towards the root and none passes it.

    >>> log_term = math.log(2 * 10 / 0.1)
    >>> f"{corruption_allowance(1, log_term):.5f} {corruption_allowance(2, log_term):.5f}"
    '5.74452 8.14902'
    """
    check_above_zero("rho", rho)
    check_at_least("log_term", log_term, 0)
    return _least_allowance(rho, log_term)


@lru_cache(1000)  # every replication of a race asks for those of its layers
def _least_allowance(rho: float, log_term: float) -> float:
    allowance = log_term + (math.e - 1) * rho
    for _ in range(_NEWTON_STEPS):
        slope = math.log(allowance / rho)
        excess = allowance * slope - allowance + rho - log_term
        if slope <= 0 or excess <= 0:
            break
        lower = allowance - excess / slope
        if lower >= allowance:
            break
        allowance = max(lower, rho)
    return allowance


def allowance_failure(rho: float, allowance: float) -> float:
    """The probability with which a layer may meet more than ``allowance``.

    The inverse of :func:`corruption_allowance`: ``exp(-(c ln(c/rho) - c + rho))``, and 1 where
    the allowance is no larger than ``rho``.

    >>> f"{allowance_failure(1, 5.744522):.4f}"
    '0.0050'
    """
    check_above_zero("rho", rho)
    check_at_least("allowance", allowance, 0)
    if allowance <= rho:
        return 1.0
    return math.exp(-(allowance * math.log(allowance / rho) - allowance + rho))


def tolerated_ratio(allowance: float, log_term: float) -> float:
    """The largest ``rho`` for which an allowance fails with at most ``exp(-log_term)``.

    Inverts :func:`corruption_allowance` in its first argument: a layer with the share ``p`` whose
    intervals leave room for ``allowance`` tolerates a corruption of ``rho / p``. The result is
    rounded down, so that the failure probability is not exceeded. It is 0 if ``allowance`` is 0.

    >>> f"{tolerated_ratio(5.744522, math.log(200)):.4f}"
    '1.0000'
    """
    check_at_least("allowance", allowance, 0)
    check_at_least("log_term", log_term, 0)
    low, high = 0.0, allowance
    for _ in range(_NEWTON_STEPS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if allowance * math.log(allowance / middle) - allowance + middle >= log_term:
            low = middle
        else:
            high = middle
    return low


def layer_tolerances(designed: Sequence[float], allowances: Sequence[float]) -> list[float]:
    """Return the corruption up to which each layer of a race keeps a best arm.

    A layer meets no more corruption than there is, so it tolerates its allowance even where that is
    more than it was designed for (Lemma 5 of the theory page). It loses what a slower layer
    deletes, so it tolerates no more than any slower one (Theorem A).

    Args:
        designed: for each layer, fastest first, the corruption of which it meets more than its
            allowance with no more than its part of the failure probability.
        allowances: the corruption for which each layer's intervals leave room.

    Returns:
        A number for each layer; they do not decrease.

    >>> layer_tolerances([2, 4, 8, 16], [9.0, 9.0, 9.0, 7.0])
    [9.0, 9.0, 9.0, 16]
    """
    own = map(max, zip(designed, allowances, strict=True))
    return list(accumulate(reversed(list(own)), min))[::-1]


def observed_corruption(delta: float) -> float:
    """The paper's lemma: a layer with share ``1/C`` meets at most ``ln(1/delta) + 3``.

    The paper bounds the variance by 2, which its argument improves to 1; either way the lemma
    holds, as it allows more than the sharp root does.

    >>> f"{observed_corruption(0.005):.3f}"
    '8.298'
    """
    check_open_unit("delta", delta)
    return math.log(1 / delta) + 3
