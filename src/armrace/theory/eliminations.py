"""Arm elimination with room for a known corruption: Theorem 1 and its two lemmas.

Intervals have half-width ``w(n) = sqrt(L/n) + c/n`` with ``L`` a logarithmic term and ``c`` an
allowance for corruption; without one, ``c = 0``.

The fast-slow race: Theorem 2, for a corruption that the race knows.

The slow layer's share is so small that, with high probability, it meets no more corruption than its
allowance. It then never deletes a best arm, and deletes every other arm after a known number of its
own plays. The fast layer may be fooled, but loses what the slow one deletes.

Lower bounds for learners of small regret: Theorems 4 and 5. Two Bernoulli arms have the means
``1/2 + D`` and ``1/2``; in the first ``C`` rounds the adversary makes the first arm's mean
``1/2 - D``, which costs at most 1 per round. A learner whose pseudo-regret is small on *every*
stochastic instance hardly plays an arm that looks bad, so it does not notice that the arm has
become the better one. Where the paper's text slips, this is what is meant:
``epsilon < epsilon_prime`` is needed; there are ``(epsilon_prime - epsilon) log_3 T`` intervals;
the first ``C`` steps are false; at the end of step 4 the probabilities on the right are those
without a switch; step 5a counts plays of arm 2; in Theorem 5 it is the complement of the event
``B`` that is unlikely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from armrace.errors import InvalidParameter
from armrace.theory.plays import (
    RegretBound,
    bound_regret,
    check_above_zero,
    check_at_least,
    check_gaps,
    check_horizon,
    check_means,
    check_run,
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


class ForcedRegret(NamedTuple):
    """Regret that is reached with a probability; both are lower bounds, and may say nothing."""

    regret: float
    probability: float


def _check_gap(gap: float) -> None:
    if not 0 < gap < 0.5:
        raise InvalidParameter(f"gap must be in (0, 0.5); got {gap:g}.")


def sparse_interval_plays(
    scale: float,
    gap: float,
    horizon: int,
    epsilon: float,
    epsilon_prime: float,
    power: float = 0.0,
) -> float:
    """Return the mean plays of the bad arm in the interval in which it is played least.

    If the pseudo-regret is at most ``scale ln^(1+power)(T) / gap`` on all stochastic instances,
    the bad arm is played at most ``1/gap`` times as often. Among the
    ``floor((epsilon_prime - epsilon) log_3 T)`` intervals ``[C, 3C)`` between ``T^epsilon`` and
    ``T^epsilon_prime``, at least one has no more than the average.

    >>> round(sparse_interval_plays(8, 0.25, 3**20, 0.25, 0.75), 6)  # 128 * 20 ln 3 / 10
    281.244746
    """
    check_above_zero("scale", scale)
    _check_gap(gap)
    check_horizon(horizon)
    check_at_least("power", power, 0)
    if not 0 < epsilon < epsilon_prime < 1:
        raise InvalidParameter(
            f"epsilon and epsilon_prime must satisfy 0 < epsilon < epsilon_prime < 1; "
            f"got {epsilon:g} and {epsilon_prime:g}."
        )
    intervals = math.floor((epsilon_prime - epsilon) * math.log(horizon, 3) * (1 + 1e-12))
    if intervals < 1:
        raise InvalidParameter(
            f"horizon must leave room for an interval between its powers; got {horizon}."
        )
    return scale * math.pow(math.log(horizon), 1 + power) / (gap**2 * intervals)


def switching_regret(gap: float, rounds: float, horizon: int, plays: float) -> ForcedRegret:
    """Return the regret that a switch after ``rounds = C`` forces if the bad arm is played rarely.

    ``plays`` is how often the learner plays the arm in ``[C, 3C)`` on average if there is no
    switch. By Markov's inequality it does so at most ``2 plays`` times with probability a half;
    with the switch, a sequence of that many rewards is less likely by a factor of no more than
    ``((1/2 - D)/(1/2 + D))^(2 plays)``. Regret against the first arm then is at least

    - ``-1.1 D C`` in the first ``C`` rounds, except with probability ``exp(-D^2 C/200)``;
    - ``1.9 D C - 2 plays`` in ``[C, 3C)``, except with ``exp(-D^2 C/400)``;
    - ``-ln T`` afterwards, except with ``T^(-2D)``,

    by Hoeffding's inequality and its maximal form, for steps within an interval of length 2;
    the last because ``exp(-2D S)`` is a supermartingale for the sum ``S`` of such steps of mean
    ``D``. The regret is that against the best arm in hindsight, which is at least as large. The
    paper takes ``4 plays`` in place of ``2 plays`` and smaller failure probabilities than these
    steps give, and asks that the first arm be the better one in hindsight, which is not needed.

    Args:
        rounds: the number of rounds before the switch, ``C``.
        plays: mean plays of the bad arm in ``[C, 3C)`` without a switch.

    >>> forced = switching_regret(0.25, 10_000, 10**6, 0)  # 2000 - ln 10^6
    >>> round(forced.regret, 2), round(forced.probability, 4)  # 1/2 - e^-3.125 - e^-1.5625 - 0.001
    (1986.18, 0.2455)
    """
    _check_gap(gap)
    check_at_least("rounds", rounds, 1)
    check_horizon(horizon)
    check_at_least("plays", plays, 0)
    if 3 * rounds > horizon:
        raise InvalidParameter(
            f"rounds must be at most a third of the horizon, {horizon / 3:g}; got {rounds:g}."
        )
    odds = (0.5 - gap) / (0.5 + gap)
    failure = (
        math.exp(-(gap**2) * rounds / 200)
        + math.exp(-(gap**2) * rounds / 400)
        + horizon ** (-2 * gap)
    )
    regret = 0.8 * gap * rounds - 2 * plays - math.log(horizon)
    return ForcedRegret(max(0.0, regret), max(0.0, 0.5 * odds ** (2 * plays) - failure))


def forced_regret(
    scale: float, gap: float, horizon: int, epsilon: float, epsilon_prime: float
) -> ForcedRegret:
    """Theorem 4: regret of order ``C`` with constant probability, for some ``C``.

    For a learner with pseudo-regret of at most ``scale ln(T)/gap`` on two stochastic arms; some
    ``C`` from ``T^epsilon`` to ``T^epsilon_prime`` forces at least this, which is the promise for
    the smallest of them. The constant is tiny unless ``scale`` is: it has ``scale/gap^2`` in an
    exponent.

    >>> round(forced_regret(0.01, 0.25, 10**9, 0.6, 0.9).probability, 4)  # 3^-1.326 / 2 - ...
    0.1164
    """
    plays = sparse_interval_plays(scale, gap, horizon, epsilon, epsilon_prime)
    return switching_regret(gap, min(horizon**epsilon, horizon / 3), horizon, plays)


def forced_positive_regret(
    scale: float, gap: float, horizon: int, epsilon: float, epsilon_prime: float, power: float
) -> float:
    """Theorem 5: the positive part of the regret in expectation, also for powers of ``ln T``.

    For a learner with pseudo-regret of at most ``scale ln^(1 + power)(T)/gap``, ``power < 1``:
    regret times probability as in Theorem 4. For large ``T`` it is above ``T^(epsilon - d)`` for
    every ``d > 0``, as ``exp(-O(ln^power T))`` vanishes more slowly than any power of ``T``.

    >>> round(forced_positive_regret(0.01, 0.25, 10**9, 0.6, 0.9, 0.5), 1)  # 50,211 * 0.000626
    31.5
    """
    if not 0 <= power < 1:
        raise InvalidParameter(f"power must be in [0, 1); got {power:g}.")
    plays = sparse_interval_plays(scale, gap, horizon, epsilon, epsilon_prime, power)
    forced = switching_regret(gap, min(horizon**epsilon, horizon / 3), horizon, plays)
    return forced.regret * forced.probability


def clean_switching_regret(gap: float, rounds: float, plays: float) -> float:
    """Return the expected regret on clean rewards that the switch forces before it comes.

    The first ``C`` rounds look exactly like the instance in which the first arm is bad, in which
    it is played ``plays`` times by then. All other rounds lose ``gap`` each: a step of the proof
    of Theorem 4 that needs no small constant.

    Args:
        rounds: the rounds before the switch.
        plays: the mean plays of the bad arm in these rounds.

    >>> clean_switching_regret(0.25, 1000, 200)
    200.0
    """
    _check_gap(gap)
    check_at_least("rounds", rounds, 0)
    check_at_least("plays", plays, 0)
    return max(0.0, gap * (rounds - plays))
