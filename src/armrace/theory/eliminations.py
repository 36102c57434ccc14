"""Arm elimination with room for a known corruption: Theorem 1 and its two lemmas.

Intervals have half-width ``w(n) = sqrt(L/n) + c/n`` with ``L`` a logarithmic term and ``c`` an
allowance for corruption; without one, ``c = 0``.

The fast-slow race: Theorem 2, for a corruption that the race knows.

The slow layer's share is so small that, with high probability, it meets no more corruption than its
allowance. It then never deletes a best arm, and deletes every other arm after a known number of its
own plays. The fast layer may be fooled, but loses what the slow one deletes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.theory.arguments import (
    check_at_least,
    check_gaps,
    check_means,
    check_run,
)
from armrace.theory.plays import (
    RegretBound,
    bound_regret,
    moves_until_deleted,
    regret_of_limits,
    regret_of_stages,
    rounds_until_moves,
)

_ROUNDING = 1 + 1e-12
"""Keeps rounding errors from making a whole count one too small."""


def gaps_of(means: Sequence[float]) -> list[float]:
    """Return the gap of every arm except one best arm; ties leave gaps of 0.

    Args:
        means: the mean rewards of the arms.

    >>> gaps_of([0.25, 0.75, 0.5, 0.75])
    [0.5, 0.25, 0.0]
    """
    check_means(means)
    best = max(means)
    gaps = [best - mean for mean in means]
    gaps.remove(0.0)
    return gaps


def elimination_log_term(arms: int, horizon: int, delta: float) -> float:
    """``L = ln(2KT/delta)`` of Theorem 1.

    >>> f"{elimination_log_term(2, 1000, 0.1):.5f}"
    '10.59663'
    """
    check_run(arms, horizon, delta)
    return math.log(2 * arms * horizon / delta)


def survival_failure(arms: int, horizon: int, log_term: float, layers: int = 1) -> float:
    """The first lemma: an upper bound on the probability that a best arm is ever deleted.

    An arm's clean rewards in a layer are independent in the order of its plays, so the mean of
    ``n`` of them is off by more than ``sqrt(L/n)`` with probability at most ``2 exp(-2L)``, by
    Hoeffding's inequality, and some mean of ``K`` arms, ``T`` counts and all layers with at most
    ``2KT layers exp(-2L)``. If none is, and each layer met at most its allowance, every interval
    holds its mean, and the interval of a best arm never lies below another.

    The paper writes Hoeffding's inequality without its factor 2 in the exponent, which is valid
    and too wide by a factor of ``sqrt(2)``; it says ``delta``, and its widths give
    ``delta^2/(2KT)``.

    >>> f"{survival_failure(2, 1000, elimination_log_term(2, 1000, 0.1)):.2g}"
    '2.5e-06'
    """
    check_run(arms, horizon)
    check_at_least("log_term", log_term, 0)
    check_at_least("layers", layers, 1)
    return min(1.0, 2 * arms * horizon * layers * math.exp(-2 * log_term))


def plays_until_deleted(gap: float, log_term: float, allowance: float = 0.0) -> float:
    """The second lemma: the most plays of a bad arm in a layer while a best arm is active.

    If all intervals hold their means, an arm with the gap ``D`` is deleted once both it and a
    best arm have half-widths below ``D/4``. That is so beyond

        N = 4 (sqrt(L) + sqrt(L + c D))^2 / D^2

    plays, which solves ``w(N) = D/4``. Active arms are played in turn, so both have reached
    ``floor(N) + 1`` plays, which is what is returned, before the bad arm is played once more.

    >>> plays_until_deleted(1.0, 10.59663), plays_until_deleted(1.0, 10.59663, 20)
    (170, 309)
    """
    check_gaps([gap])
    check_at_least("log_term", log_term, 0)
    check_at_least("allowance", allowance, 0)
    if gap == 0:
        return math.inf
    root = math.sqrt(log_term) + math.sqrt(log_term + allowance * gap)
    return math.floor(4 * root**2 / gap**2 * _ROUNDING) + 1


def papers_plays_until_deleted(gap: float, log_term: float, corruption: float = 0.0) -> float:
    """The second lemma as the paper states it: ``(36 L + 6 C) / D^2`` plays.

    The last display of its proof sums to 0 and not to more, and to ``-D/3`` with the deviations
    that it leaves out. The statement is true all the same: it allows more than
    :func:`plays_until_deleted`.

    Args:
        corruption: the corruption for which the intervals leave room.

    >>> f"{papers_plays_until_deleted(1.0, 10.59663, 20):.1f}"
    '501.5'
    """
    check_gaps([gap])
    check_at_least("log_term", log_term, 0)
    check_at_least("corruption", corruption, 0)
    return math.inf if gap == 0 else (36 * log_term + 6 * corruption) / gap**2


def known_corruption_regret(
    gaps: Sequence[float], horizon: int, delta: float, corruption: float = 0.0
) -> RegretBound:
    """Theorem 1: the regret of arm elimination that is given a bound on the corruption.

    With probability ``1 - delta``, by :func:`plays_until_deleted` with ``c = C`` and the regret
    that these plays make. An arm costs at most ``N D <= 16 L / D + 8 C``: the theorem's order
    ``(ln(KT/delta) + C)/D``, and the ``C`` even without the gap below it. The lemmas fail with
    probability ``delta^2/(2KT)``, the martingales with ``delta/2``.

    ``gaps`` has an entry for each arm but one best (see :func:`gaps_of`).

    Args:
        corruption: the bound on the corruption that the policy is given.

    >>> bound = known_corruption_regret([1.0], 1000, 0.1)
    >>> bound.pseudo_regret, round(bound.regret, 2)  # 170 + sqrt(2 * 10.59663 * 170)
    (170.0, 230.02)
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    log_term = elimination_log_term(len(gaps) + 1, horizon, delta)
    limits = [plays_until_deleted(gap, log_term, corruption) for gap in gaps]
    pseudo_regret = regret_of_limits(gaps, limits, horizon)
    return bound_regret(gaps, pseudo_regret, sum(limits), horizon, log_term, 2 * corruption)


def fast_slow_log_term(arms: int, horizon: int, delta: float) -> float:
    """``L = ln(8KT/delta)`` of Theorem 2; the slow layer's allowance is ``2 L``.

    >>> f"{fast_slow_log_term(2, 1000, 0.1):.5f}"
    '11.98293'
    """
    check_run(arms, horizon, delta)
    return math.log(8 * arms * horizon / delta)


def fast_slow_stochastic_regret(gaps: Sequence[float], horizon: int, delta: float) -> RegretBound:
    """Theorem 2 without corruption: both layers keep a best arm and delete the others.

    An arm is played at most ``16 L / D^2`` times in the fast layer and
    ``4 L (1 + sqrt(1 + 2D))^2 / D^2 <= 29.9 L / D^2`` in the slow. The paper says
    ``18 L / D^2`` for the latter, which its argument gives only for gaps of at most 0.1286.

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
        corruption: the bound on the corruption that the race is given.

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
