"""How much corruption a sub-sampled layer meets: the paper's bound, and the sharp one.

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

from armrace.theory.plays import check_above_zero, check_at_least, check_open_unit

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
