"""The fast-slow race: Theorem 2, for a corruption that the race knows.

The slow layer's share is so small that, with high probability, it meets no more corruption than its
allowance. It then never deletes a best arm, and deletes every other arm after a known number of its
own plays. The fast layer may be fooled, but loses what the slow one deletes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.theory.arguments import (
    check_arms,
    check_at_least,
    check_gaps,
    check_horizon,
    check_open_unit,
)
from armrace.theory.eliminations import plays_until_deleted
from armrace.theory.moves import moves_until_deleted, rounds_until_moves
from armrace.theory.plays import RegretBound, bound_regret, regret_of_limits, regret_of_stages


def fast_slow_log_term(arms: int, horizon: int, delta: float) -> float:
    """``L = ln(8KT/delta)`` of Theorem 2; the slow layer's allowance is ``2 L``.

    Args:
        arms: the number of arms.
        horizon: the number of rounds.
        delta: the failure probability.

    >>> f"{fast_slow_log_term(2, 1000, 0.1):.5f}"
    '11.98293'
    """
    check_arms(arms)
    check_horizon(horizon)
    check_open_unit("delta", delta)
    return math.log(8 * arms * horizon / delta)


def fast_slow_stochastic_regret(gaps: Sequence[float], horizon: int, delta: float) -> RegretBound:
    """Theorem 2 without corruption: both layers keep a best arm and delete the others.

    An arm is played at most ``16 L / D^2`` times in the fast layer and
    ``4 L (1 + sqrt(1 + 2D))^2 / D^2 <= 29.9 L / D^2`` in the slow. The paper says
    ``18 L / D^2`` for the latter, which its argument gives only for gaps of at most 0.1286.

    Args:
        gaps: the gap of every arm except one best arm.
        horizon: the number of rounds.
        delta: the failure probability of the race.

    Returns:
        Upper bounds on the pseudo-regret and the regret.

    >>> bound = fast_slow_stochastic_regret([1.0], 1000, 0.1)  # 192 + 358 plays
    >>> bound.pseudo_regret
    550.0
    """
    check_gaps(gaps)
    log_term = fast_slow_log_term(len(gaps) + 1, horizon, delta)
    limits = [
        plays_until_deleted(gap, log_term) + plays_until_deleted(gap, log_term, 2 * log_term)
        for gap in gaps
    ]
    pseudo_regret = regret_of_limits(gaps, limits, horizon)
    return bound_regret(gaps, pseudo_regret, sum(limits), horizon, log_term, 0.0)


def fast_slow_regret(
    gaps: Sequence[float], horizon: int, delta: float, corruption: float
) -> RegretBound:
    """Theorem 2 with corruption of at most ``C``, which the race knows.

    The slow layer's share is ``1/max(C, 1)`` (the paper divides by ``C``, which may be below 1),
    so it meets at most its allowance ``2 L``, except with a probability of order ``exp(-2L)``.
    Arm ``a`` is out of both layers once the slow one has made
    ``M(a) = N(a) + sum over b of min(N(a), N(b))`` moves, ``N(a)`` as without corruption; in every
    round until then (:func:`rounds_until_moves`) the worst arm that is not yet out may be played.
    That is of order ``K C L / D`` for the smallest gap ``D``, and no more than the theorem's
    ``K C L^2 sum 1/D``. Events: sampling ``delta^2/(16KT)``, corruption less than
    ``delta^2/(10 (KT)^2)``, moves ``delta/4``, martingales ``delta/8``.

    Args:
        gaps: the gap of every arm except one best arm.
        horizon: the number of rounds.
        delta: the failure probability of the race.
        corruption: the bound on the corruption that the race is given.

    Returns:
        Upper bounds on the pseudo-regret and the regret.

    >>> bound = fast_slow_regret([1.0], 10**6, 0.1, 5)
    >>> bound.pseudo_regret  # 5 (1130 + h + sqrt(h^2 + 2260 h)), h = ln 80, rounded up
    6170.0
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    arms = len(gaps) + 1
    log_term = fast_slow_log_term(arms, horizon, delta)
    share = 1 / max(corruption, 1.0)
    moves = moves_until_deleted([plays_until_deleted(g, log_term, 2 * log_term) for g in gaps])
    ends = [rounds_until_moves(each, share, delta / (4 * arms)) for each in moves]
    pseudo_regret = regret_of_stages(gaps, ends, horizon)
    return bound_regret(gaps, pseudo_regret, max(ends), horizon, log_term, 2 * corruption)
