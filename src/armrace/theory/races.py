"""The two races: Theorem 2 for a known corruption, Theorem 3 for any.

A layer is *tolerant* of the corruption ``C`` if its share of the rounds is at most ``1/C``. But
for the failure probability, a tolerant layer meets no more corruption than its allowance, never
deletes a best arm, and deletes every other after so many plays of its own. Faster layers may be
fooled, but lose what a tolerant layer deletes, and once they are empty play what it has left.

How long that takes: active arms are played in turn, so a layer of ``K`` arms has deleted an arm
by its move ``M = K N``. The number of moves in ``R`` rounds is binomial, and below ``M`` with
probability at most ``exp(-R p/8)`` if ``R p >= 2 M`` (Chernoff). The paper waits for each move
singly, ``ln(1/failure)(1 - p)/p`` rounds where its argument needs ``ln(1/failure)/p``, which
costs another logarithm on ``C``; counting the moves together does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.allowance import allowance_failure
from armrace.theory.arguments import (
    check_arms,
    check_at_least,
    check_gaps,
    check_horizon,
    check_open_unit,
    check_share,
)
from armrace.theory.eliminations import plays_until_deleted, survival_failure
from armrace.theory.plays import RegretBound, bound_regret, regret_of_limits, regret_of_stages

__all__ = [
    "agnostic_regret",
    "fast_slow_log_term",
    "fast_slow_regret",
    "fast_slow_stochastic_regret",
    "layer_shares",
    "per_arm_regret",
    "race_failure",
    "race_log_term",
    "rounds_until_moves",
    "tolerant_layer",
]


def rounds_until_moves(moves: float, share: float, failure: float) -> float:
    """After how many rounds a layer has made so many moves, but for the failure probability.

    >>> rounds_until_moves(1000, 0.25, 0.1), rounds_until_moves(10, 1, 0.1)
    (8000.0, 10)
    """
    if moves != math.inf:  # an arm of no gap is never deleted
        check_at_least("moves", moves, 0)
    check_share("share", share)
    check_open_unit("failure", failure)
    if share == 1:
        return moves
    return max(2 * moves, 8 * math.log(1 / failure)) / share


def fast_slow_log_term(arms: int, horizon: int, delta: float) -> float:
    """``L = ln(8KT/delta)`` of Theorem 2; the slow layer's allowance is ``2 L``.

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
    """Theorem 2 with corruption of at most ``C``, which the race was told.

    The slow layer's share is ``1/max(C, 1)`` (the paper divides by ``C``, which may be below 1),
    so it meets at most its allowance ``2 L`` but for a probability of order ``exp(-2L)``. Arm
    ``a`` is out of both layers after ``R(a) = max(2 K N(a), 8 ln(4K/delta)) max(C, 1)`` rounds,
    ``N(a)`` as without corruption; in every round the worst arm that is not yet out may be
    played. That is of order ``K C L / D`` for the smallest gap ``D``, and no more than the
    theorem's ``K C L^2 sum 1/D``. Events: sampling ``delta^2/(16KT)``, corruption less than
    ``delta^2/(10 (KT)^2)``, moves ``delta/4``, martingales ``delta/8``.

    >>> bound = fast_slow_regret([1.0], 10**6, 0.1, 5)
    >>> bound.pseudo_regret  # 2 * 2 * 565 * 5
    11300.0
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    arms = len(gaps) + 1
    log_term = fast_slow_log_term(arms, horizon, delta)
    share = 1 / max(corruption, 1.0)
    ends = [
        rounds_until_moves(
            arms * plays_until_deleted(gap, log_term, 2 * log_term), share, delta / (4 * arms)
        )
        for gap in gaps
    ]
    pseudo_regret = regret_of_stages(gaps, ends, horizon)
    return bound_regret(gaps, pseudo_regret, max(ends), horizon, log_term, 2 * corruption)


def layer_shares(horizon: int) -> list[float]:
    """The shares of the multi-layer race: ``2^-l``, and what remains to the first layer.

    There are ``ceil(lg T)`` layers, at least one: the paper's ``log T`` is to base 2 for the
    layers, and the probability that remains is ``2^-layers``.

    >>> layer_shares(8)
    [0.625, 0.25, 0.125]
    """
    check_horizon(horizon)
    layers = max(1, math.ceil(math.log2(horizon)))
    shares = [2.0**-layer for layer in range(1, layers + 1)]
    shares[0] = 1 - sum(shares[1:])
    return shares


def tolerant_layer(shares: Sequence[float], corruption: float) -> int:
    """The first layer, from 0, whose share is at most ``1/C``; all slower are tolerant too.

    The paper calls a layer intolerant if ``2^l > C``; the opposite is meant, and as the first
    layer's share is more than a half, the share itself decides.

    >>> tolerant_layer(layer_shares(1024), 0), tolerant_layer(layer_shares(1024), 5)
    (0, 2)
    """
    check_at_least("corruption", corruption, 0)
    if not len(shares):
        raise InvalidParameter("shares must have an entry for each layer; got none.")
    for layer, share in enumerate(shares):
        if share * corruption <= 1:
            return layer
    raise InvalidParameter(
        f"corruption must be at most {1 / shares[-1]:g}, what the slowest layer tolerates; "
        f"got {corruption:g}."
    )


def race_log_term(arms: int, horizon: int, delta: float, layers: int | None = None) -> float:
    """``L = ln(4KT layers/delta)`` of Theorem 3, which is also each layer's allowance.

    >>> f"{race_log_term(2, 1024, 0.1):.5f}"
    '13.61608'
    """
    check_arms(arms)
    check_horizon(horizon)
    check_open_unit("delta", delta)
    layers = len(layer_shares(horizon)) if layers is None else layers
    check_at_least("layers", layers, 1)
    return math.log(4 * arms * horizon * layers / delta)


def race_failure(arms: int, horizon: int, delta: float, layers: int | None = None) -> float:
    """The probability with which a tolerant layer of the race loses a best arm, at most.

    Some clean mean is off with probability at most ``delta^2/(8KT layers)``; some tolerant layer
    meets more than ``L`` with at most ``layers exp(-(L ln L - L + 1))``, which is no more than
    ``delta/(4eKT)`` where ``L >= e^2``. The paper's proof spends ``delta/2`` three times; by these
    figures Theorem 3 holds at ``1 - delta`` all the same, with ``delta/2`` left for the moves and
    ``delta/(4 layers)`` for the martingales.

    >>> f"{race_failure(2, 1024, 0.1):.2g}"
    '6.2e-08'
    """
    log_term = race_log_term(arms, horizon, delta, layers)
    count = len(layer_shares(horizon)) if layers is None else layers
    sampling = survival_failure(arms, horizon, log_term, count)
    return min(1.0, sampling + count * allowance_failure(1.0, max(log_term, 1.0)))


def agnostic_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruption: float,
    shares: Sequence[float] | None = None,
) -> RegretBound:
    """Theorem 3: the regret of the multi-layer race, which is told nothing.

    Let ``l`` be the fastest tolerant layer and ``N(a) = 4 L (1 + sqrt(1 + D))^2 / D^2`` the plays
    that a tolerant layer gives to an arm. The tolerant layers together give it so many times
    their number. Intolerant ones, and empty ones that play what others have left, may play it
    until layer ``l`` has deleted it: ``R(a) = max(2 K N(a), 8 ln(2K layers/delta)) / p(l)``
    rounds. With ``1/p(l) < 2C`` beyond the first two layers that is of order
    ``(K C + ln T) ln(KT/delta) / D``: the theorem's without the second logarithm on ``C``. As
    the corruption may be chosen on the way, the moves are counted for all layers.

    ``shares`` are those of :func:`layer_shares` unless given. The bound also holds with the sharper
    intervals of the race, with probability ``1 - 3 delta/2``: they spend all of delta themselves.

    >>> bound = agnostic_regret([1.0], 10**6, 0.1, 0)  # 20 layers with 495 plays each
    >>> bound.pseudo_regret
    9900.0
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    spent = min(corruption, float(horizon))
    return _race_regret(gaps, horizon, delta, spent, 2 * spent, shares)


def _race_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    tolerated: float,
    direct: float,
    shares: Sequence[float] | None,
) -> RegretBound:
    """Theorem 3 with what the layers must tolerate and what corruption itself adds to regret."""
    shares = layer_shares(horizon) if shares is None else shares
    arms, layers = len(gaps) + 1, len(shares)
    log_term = race_log_term(arms, horizon, delta, layers)
    first = tolerant_layer(shares, tolerated)
    each = [plays_until_deleted(gap, log_term, log_term) for gap in gaps]
    limits = [(layers - first) * plays for plays in each]
    pseudo_regret, bad_plays = regret_of_limits(gaps, limits, horizon), sum(limits)
    if first > 0:
        failure = delta / (2 * arms * layers)
        ends = [rounds_until_moves(arms * plays, shares[first], failure) for plays in each]
        pseudo_regret += regret_of_stages(gaps, ends, horizon)
        bad_plays += max(ends)
    pseudo_regret = min(pseudo_regret, horizon * max(gaps))
    return bound_regret(gaps, pseudo_regret, bad_plays, horizon, log_term, direct)


def per_arm_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruptions: Sequence[float],
    shares: Sequence[float] | None = None,
) -> RegretBound:
    """Theorem 6: Theorem 3 with the corruption of each arm counted by itself.

    The paper replaces ``C`` for arm ``a`` by the larger of ``C(a)`` and the best arm's. That is
    not so: an arm ``b`` with much corruption may have a best arm deleted from a layer in which
    ``a`` stays; ``a`` then deletes ``b`` there, faster layers run empty and play ``a``, and
    plays of ``a`` grow with ``C(b)`` though ``a`` and the best arm were left alone. What the
    argument gives is the largest ``C(b)`` of all arms in every summand. Each arm's samples in
    each layer are then an event of their own, so that the corruption event fails with ``K``
    times the probability: ``delta/(4eT)``. The comparator moves by the largest ``C(b)``, what is
    collected by their sum.

    ``corruptions`` has an entry for each of the ``K`` arms, in any order.

    >>> corrupted = per_arm_regret([0.5, 0.5], 10**6, 0.1, [100, 100, 0])
    >>> corrupted.pseudo_regret == agnostic_regret([0.5, 0.5], 10**6, 0.1, 100).pseudo_regret
    True
    """
    check_gaps(gaps)
    if len(corruptions) != len(gaps) + 1:
        raise InvalidParameter(
            f"corruptions must have an entry for each of the {len(gaps) + 1} arms; "
            f"got {len(corruptions)}."
        )
    for corruption in corruptions:
        check_at_least("each of corruptions", corruption, 0)
    largest = min(max(corruptions), float(horizon))
    collected = min(sum(corruptions), float(horizon))
    return _race_regret(gaps, horizon, delta, largest, largest + collected, shares)
