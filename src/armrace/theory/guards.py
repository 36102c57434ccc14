"""The guard: a race on a small part of the rounds, around any other policy.

A round is labelled ``l > s`` with probability ``2^-l`` and feeds layer ``l`` of a race; what is
left of ``2^-s`` goes to the first layer, and all other rounds have no label. Layer ``l``, which
also uses the rewards of all slower layers, tolerates a corruption of ``first 2^(l-1)``. It may fail
with the probability ``f(l) = delta 4^-(l-s)`` in its intervals and as much in its allowance, which
sums to less than ``delta/3`` each; a quarter of ``delta`` is spent on the labels and a twelfth on
the deviation of rewards from their means. The theory page of the documentation has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.arguments import (
    check_above_zero,
    check_arms,
    check_at_least,
    check_gaps,
    check_horizon,
    check_open_unit,
)
from armrace.theory.moves import moves_until_deleted, rounds_until_moves
from armrace.theory.plays import (
    NO_GUARANTEE,
    RegretBound,
    bound_regret,
    regret_of_limits,
    regret_of_stages,
)
from armrace.theory.sharp import SharpLayer, make_sharp_layer, sharp_plays_until_deleted


def guard_layers(
    arms: int, horizon: int, delta: float, share: int = 4, first: float = 1.0
) -> list[SharpLayer]:
    """Return the guard's layers; the slowest one tolerates any corruption of ``horizon`` rounds.

    Args:
        arms: the number of arms.
        horizon: the number of rounds.
        delta: the failure probability of the guard.
        share: the number ``s``: a part ``2^-s`` of the rounds is labelled.
        first: the corruption ``rho`` that a layer expects to meet at most; the fastest layer
            tolerates ``rho 2^s`` in all.

    Returns:
        The layers, fastest first; their shares sum to ``2^-s``.

    >>> layers = guard_layers(2, 1000, 0.05)
    >>> [layer.share * 1024 for layer in layers]
    [32.5, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5]
    >>> [layer.tolerated for layer in layers]
    [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]
    """
    check_arms(arms)
    check_horizon(horizon)
    check_open_unit("delta", delta)
    check_at_least("share", share, 0)
    check_above_zero("first", first)
    count = 1
    while _tolerated(first, share, count) < horizon:
        count += 1
    shares = [2.0 ** -(share + place) for place in range(1, count + 1)]
    shares[0] = 2.0**-share - sum(shares[1:])
    return [
        make_sharp_layer(
            arms, shares[place - 1 :], _tolerated(first, share, place), delta * 4.0**-place
        )
        for place in range(1, count + 1)
    ]


def _tolerated(first: float, share: int, place: int) -> float:
    return first * 2.0 ** (share + place - 1)


def most_labelled_rounds(share: float, horizon: int, failure: float) -> float:
    """Return how often a label is drawn at most, except with probability ``failure``.

    With ``m = T p`` and ``h = ln(1/failure)`` that is ``m + h/3 + sqrt(h^2/9 + 2 m h)``, where
    Bernstein's bound ``exp(-x^2 / 2(m + x/3))`` on an excess of ``x`` equals ``failure``.

    Args:
        share: the probability of the label.
        horizon: the number of rounds.
        failure: the failure probability.

    >>> f"{most_labelled_rounds(0.01, 1000, 0.05):.3f}"
    '18.803'
    """
    expected, log_term = horizon * share, math.log(1 / failure)
    excess = log_term / 3 + math.sqrt(log_term**2 / 9 + 2 * expected * log_term)
    return min(float(horizon), expected + excess)


def guarded_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruption: float,
    share: int = 4,
    lead: int = 1,
    first: float = 1.0,
) -> RegretBound:
    """Theorem C (i): a bound for any base policy that fails with probability ``delta``.

    A tolerant layer ``l`` deletes an arm after ``(1 + lead)`` times the moves that
    :func:`armrace.theory.moves_until_deleted` counts. From then on neither the base nor any layer
    up to ``l`` plays the arm; before, the base may play the worst arm that is left in every round.
    Slower layers go on with their turns, at most as many as delete the arm there and at most one
    in ``1 + lead`` of their labelled rounds. This holds for every tolerant layer, and the smallest
    bound is returned.

    The order is ``K (ln T + (1 + lead) max(2^s, C/first)) ln(KT/delta) / gap``, with the least gap.

    Args:
        gaps: the gap of every arm except one best arm.
        horizon: the number of rounds.
        delta: the failure probability of the guard.
        corruption: the corruption that is spent.
        share: the number ``s``: a part ``2^-s`` of the rounds is labelled.
        lead: plays of the base before each turn of a layer.
        first: the corruption that a layer expects to meet at most.

    Returns:
        Upper bounds on the pseudo-regret and the regret.

    >>> round(guarded_regret([0.1] * 9, 10**9, 0.05, 100).pseudo_regret)
    7407430
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    check_at_least("lead", lead, 0)
    arms, spent = len(gaps) + 1, min(corruption, float(horizon))
    layers = guard_layers(arms, horizon, delta, share, first)
    failure = delta / (4 * arms * len(layers))
    limits = [[sharp_plays_until_deleted(gap, layer) for gap in gaps] for layer in layers]
    turns = [
        int(most_labelled_rounds(layer.share, horizon, failure) / (1 + lead)) for layer in layers
    ]
    own = [
        (regret_of_limits(gaps, each, most), min(sum(each), float(most)))
        for each, most in zip(limits, turns, strict=True)
    ]
    log_term = math.log(12 * arms * horizon / delta)
    found = NO_GUARANTEE
    for number, layer in enumerate(layers):
        if any(spent > each.tolerance for each in layers[number:]):
            continue
        moves = [(1 + lead) * each for each in moves_until_deleted(limits[number])]
        ends = [rounds_until_moves(each, layer.share, failure) for each in moves]
        pseudo_regret = regret_of_stages(gaps, ends, horizon)
        pseudo_regret += sum((cost for cost, _ in own[number + 1 :]), 0.0)
        bad_plays = max(ends) + sum((plays for _, plays in own[number + 1 :]), 0.0)
        pseudo_regret = min(pseudo_regret, horizon * max(gaps))
        bound = bound_regret(gaps, pseudo_regret, bad_plays, horizon, log_term, 2 * spent)
        found = RegretBound(*map(min, found, bound))
    return found


def guard_overhead(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    share: int = 4,
    lead: int = 1,
    first: float = 1.0,
) -> float:
    """Theorem C (ii): the expected pseudo-regret without corruption, beyond that of the base.

    Two parts are added: what the turns of all layers cost, at most as many as delete an arm and
    in expectation at most one in ``1 + lead`` labelled rounds; and what is lost if a layer's
    intervals fail, with probability ``f(l)``, until the next slower layer has deleted the arms.

    Args:
        gaps: the gap of every arm except one best arm.
        horizon: the number of rounds.
        delta: the failure probability of the guard.
        share: the number ``s``: a part ``2^-s`` of the rounds is labelled.
        lead: plays of the base before each turn of a layer.
        first: the corruption that a layer expects to meet at most.

    Returns:
        An upper bound on what is to be added to the base's own bound.

    >>> round(guard_overhead([0.1] * 9, 10**9, 0.05))
    154860
    """
    check_gaps(gaps)
    check_at_least("lead", lead, 0)
    arms = len(gaps) + 1
    layers = guard_layers(arms, horizon, delta, share, first)
    limits = [[sharp_plays_until_deleted(gap, layer) for gap in gaps] for layer in layers]
    total = sum(
        regret_of_limits(gaps, each, layer.share * horizon / (1 + lead))
        for layer, each in zip(layers, limits, strict=True)
    )
    for place in range(1, len(layers) + 1):
        lost = max(gaps) * horizon
        if place < len(layers):
            slower = layers[place]
            moves = moves_until_deleted(limits[place])
            lost = regret_of_stages(gaps, [(1 + lead) * n / slower.share for n in moves], horizon)
        total += delta * 4.0**-place * lost
    return total


def price_of_high_probability(
    gap: float, horizon: int, delta: float, factor: float, least: float = 0.0
) -> float:
    """Return the least expected plays of the bad one of two arms, without corruption.

    Proposition L: if for every corruption ``C`` from ``C0`` to ``T/factor`` a policy's
    pseudo-regret is below ``gap (factor - 1) C/2`` by round ``factor C`` with probability
    ``1 - delta``, on all pairs of Bernoulli arms with this gap, then with the means
    ``1/2 - gap`` and ``1/2`` it plays the bad arm at least
    ``floor(log(T/C0) / log(factor)) ln(1/4 delta) / kl(1/2 - gap, 1/2 + gap)`` times.
    ``C0`` is the larger of ``least`` and ``2 ln(1/4 delta) / (kl delta (factor - 1))``, rounded up.
    A bound ``A + s C`` with high probability has a ``factor`` of ``1 + ceil(4 s/gap)`` and a
    ``least`` above ``A/s``.

    Args:
        gap: the gap of the arms.
        horizon: the number of rounds.
        delta: the probability with which the policy's bound may fail.
        factor: a whole number.
        least: the smallest corruption for which the policy has its bound.

    >>> f"{price_of_high_probability(0.1, 10**9, 0.01, 10):.1f}"
    '238.2'
    """
    check_open_unit("gap", 2 * gap)
    check_horizon(horizon)
    check_open_unit("delta", 4 * delta)
    check_at_least("factor", factor, 1)
    check_at_least("least", least, 0)
    if factor != math.floor(factor):
        raise InvalidParameter(f"factor must be a whole number; got {factor:g}.")
    if factor == 1:
        return 0.0
    divergence = 2 * gap * math.log((0.5 + gap) / (0.5 - gap))
    evidence = math.log(1 / (4 * delta)) / divergence
    smallest = math.ceil(max(least, 2 * evidence / (delta * (factor - 1))))
    windows = math.floor(math.log(horizon / smallest) / math.log(factor) + 1e-12)
    return max(0, windows) * evidence
