"""The sharp race: its layers, and a bound on its regret.

Layer ``l`` has the share ``2^-l`` (what remains goes to the first) and tolerates a corruption of
``first 2^(l-1)``. It uses the rewards of all slower layers too, so it meets the corruption of a
share of about ``2^-(l-1)`` of the rounds. It may fail with the probability
``f(l) = delta / (3 l (l+1))`` in its intervals and as much in its allowance; a third of ``delta``
is left for the coins. The theory page of the documentation has the proofs.

The guard: a race on a small part of the rounds, around any other policy.

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
from typing import NamedTuple

from armrace.errors import InvalidParameter
from armrace.theory.plays import (
    NO_GUARANTEE,
    RegretBound,
    bound_regret,
    check_above_zero,
    check_at_least,
    check_gaps,
    check_horizon,
    check_open_unit,
    check_run,
    corruption_allowance,
    moves_until_deleted,
    regret_of_limits,
    regret_of_stages,
    rounds_until_moves,
)

_LATE_LOOK = 129 / 128
"""By how much the rewards of an arm may have grown since its interval was computed."""


class SharpLayer(NamedTuple):
    """The parameters of a layer of the sharp race."""

    share: float
    tolerated: float
    """The corruption for which its allowance is computed: ``first 2^(l-1)``."""
    log_lower: float
    log_upper: float
    allowance: float

    @property
    def tolerance(self) -> float:
        """The corruption up to which it keeps the best arm.

        A layer meets no more corruption than there is, so it tolerates its allowance even where
        that is more than ``tolerated``, as in the first layer.

        >>> layer = sharp_layers(10, 10**6, 0.05, first=16)[0]
        >>> layer.tolerated, f"{layer.tolerance:.1f}"
        (16, '29.9')
        """
        return max(self.tolerated, self.allowance)


def sharp_layers(
    arms: int, horizon: int, delta: float, first: float, most_corruption: float | None = None
) -> list[SharpLayer]:
    """Return the layers; the slowest one tolerates the largest possible corruption.

    A lower end that is too high, of any arm, may delete a best arm, and so may a best arm's
    upper end that is too low: the former have ``f/2K`` each, the latter ``f/2``.

    >>> [layer.share for layer in sharp_layers(2, 1000, 0.05, first=16, most_corruption=100)]
    [0.5625, 0.25, 0.125, 0.0625]
    """
    check_run(arms, horizon, delta)
    check_at_least("first", first, 1)
    most = float(horizon) if most_corruption is None else min(horizon, most_corruption)
    count = 1
    while first * 2 ** (count - 1) < most:
        count += 1
    shares = [2.0**-number for number in range(1, count + 1)]
    shares[0] = 1 - sum(shares[1:])
    return [
        make_sharp_layer(
            arms,
            shares[number - 1 :],
            first * 2 ** (number - 1),
            delta / 3 / (number * (number + 1)),
        )
        for number in range(1, count + 1)
    ]


def make_sharp_layer(
    arms: int, shares: Sequence[float], tolerated: float, failure: float
) -> SharpLayer:
    """Return a layer that also uses the rewards of all slower ones."""
    return SharpLayer(
        share=shares[0],
        tolerated=tolerated,
        log_lower=-math.log(failure / 2 / arms),
        log_upper=-math.log(failure / 2),
        allowance=corruption_allowance(sum(shares) * tolerated, -math.log(failure)),
    )


def sharp_plays_until_deleted(gap: float, layer: SharpLayer) -> float:
    """Return after how many turns of every active arm a tolerant layer has deleted an arm.

    On the good event a mean is off by at most ``w(n) + c/n``, where
    ``w(n) = sqrt((log_lower + ln(pi (n + 1/2))/2) / 2n)``, and no end is further from its mean
    than that. So the ends are apart once ``4 (w(n) + c/n)`` is below the gap, and the layer sees
    it at its next look.

    Args:
        layer: the layer, which tolerates the corruption.

    >>> layer = sharp_layers(10, 10**6, 0.05, first=16)[0]
    >>> sharp_plays_until_deleted(0.1, layer), sharp_plays_until_deleted(0, layer)
    (12846, inf)
    """
    if gap == 0:
        return math.inf
    low, high = 0, 1
    while 4 * _deviation(high, layer) >= gap:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if 4 * _deviation(middle, layer) >= gap:
            low = middle
        else:
            high = middle
    return math.ceil(high * _LATE_LOOK) + 1


def _deviation(pulls: float, layer: SharpLayer) -> float:
    return math.sqrt(_log_term(pulls, layer) / (2 * pulls)) + layer.allowance / pulls


def _log_term(pulls: float, layer: SharpLayer) -> float:
    return layer.log_lower + 0.5 * math.log(math.pi * (pulls + 0.5))


def sharp_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruption: float,
    lead: int = 5,
    first: float = 16.0,
    most_corruption: float | None = None,
) -> RegretBound:
    """Theorem B: a bound on the regret of the sharp race that fails with probability ``delta``.

    ``lead``, ``first`` and ``most_corruption`` are the race's parameters. A race that was told
    ``most_corruption`` has only the layers that this much needs. Beyond what its slowest layer
    tolerates nothing is guaranteed, and both bounds are infinite.

    A tolerant layer gives an arm of the gap ``D`` at most ``N`` turns
    (:func:`sharp_plays_until_deleted`). After each turn it follows its leader ``lead`` times;
    after ``n`` turns of every arm, that arm's gap is at most ``2 (w(n) + c/n)``. Faster layers
    than a tolerant one, and the plays of empty layers, may go wrong until it has made
    ``(1 + lead)`` times the moves that :func:`armrace.theory.moves_until_deleted` counts for
    turns alone. This holds for every tolerant layer, and the smallest bound is returned.

    The order is ``sum over arms of (K C + ln T) ln(KT/delta) / D``, as for the literal race; the
    constants differ. The factor ``1 + lead`` on ``C`` meets an ``N`` that is a third of the
    literal one, and each leader adds to the regret without corruption.

    >>> bound = sharp_regret([0.1] * 9, 10**9, 0.05, 0)
    >>> round(bound.pseudo_regret)
    2665319
    >>> sharp_regret([0.1], 10**8, 0.05, 2_000, most_corruption=100)
    RegretBound(pseudo_regret=inf, regret=inf)
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    check_at_least("lead", lead, 0)
    arms, spent = len(gaps) + 1, min(corruption, float(horizon))
    layers = sharp_layers(arms, horizon, delta, first, most_corruption)
    turns = [[sharp_plays_until_deleted(gap, layer) for gap in gaps] for layer in layers]
    own = [_cost_of_layer(*each, gaps, horizon, lead) for each in zip(layers, turns, strict=True)]
    log_term, failure = math.log(12 * arms * horizon / delta), delta / (4 * arms * len(layers))
    return _least_of_layers(layers, turns, own, lead, failure, log_term, gaps, horizon, spent)


def _least_of_layers(
    layers: Sequence[SharpLayer],
    turns: Sequence[Sequence[float]],
    costs: Sequence[tuple[float, float]],
    lead: int,
    failure: float,
    log_term: float,
    gaps: Sequence[float],
    horizon: int,
    spent: float,
    is_guard: bool = False,
) -> RegretBound:
    """Return the least of the bounds that tolerant layers give.

    ``turns`` are those after which a layer has deleted each arm, ``costs`` its pseudo-regret and
    bad plays. Around a guard's tolerant layer the base plays from the first round on.
    """
    found = NO_GUARANTEE
    for number, layer in enumerate(layers):
        if any(spent > each.tolerance for each in layers[number:]):
            continue
        own = costs[number + is_guard :]
        pseudo_regret = sum((cost for cost, _ in own), 0.0)
        bad_plays = sum((plays for _, plays in own), 0.0)
        if number > 0 or is_guard:
            moves = [(1 + lead) * each for each in moves_until_deleted(turns[number])]
            ends = [rounds_until_moves(each, layer.share, failure) for each in moves]
            pseudo_regret += regret_of_stages(gaps, ends, horizon)
            bad_plays += max(ends)
        pseudo_regret = min(pseudo_regret, horizon * max(gaps))
        bound = bound_regret(gaps, pseudo_regret, bad_plays, horizon, log_term, 2 * spent)
        found = RegretBound(*map(min, found, bound))
    return found


def _cost_of_layer(
    layer: SharpLayer, turns: Sequence[float], gaps: Sequence[float], horizon: int, lead: int
) -> tuple[float, float]:
    """Return upper bounds on pseudo-regret and bad plays of a tolerant layer, with its leader."""
    followed = [min(each, float(horizon)) for each in (*turns, max(turns))]
    pseudo_regret = regret_of_limits(gaps, turns, horizon)
    pseudo_regret += lead * sum(_gaps_followed(each, layer, gaps, turns) for each in followed)
    return pseudo_regret, (1 + lead) * sum(followed)


def _gaps_followed(
    turns: float, layer: SharpLayer, gaps: Sequence[float], limits: Sequence[float]
) -> float:
    """Return an upper bound on the sum of the leader's gap over turns.

    From any arm's deletion on, the leader's gap is at most the largest that is left.
    """
    stages = sorted(zip(limits, gaps, strict=True), key=lambda stage: (stage[0], -stage[1]))
    starts = [0.0, *(limit for limit, _ in stages)]
    left = [max(gap for _, gap in stages[number:]) for number in range(len(stages))]
    return min(
        _gaps_at_first(min(turns, start), layer, max(gaps)) + gap * max(0.0, turns - start)
        for start, gap in zip(starts, [*left, 0.0], strict=True)
    )


def _gaps_at_first(turns: float, layer: SharpLayer, largest: float) -> float:
    """Bound that sum by the integral of ``2 (w(n) + c/n)``, which also covers the first turn."""
    if turns < 1:
        return largest * turns
    stochastic = 4 * math.sqrt(0.5 * turns * _log_term(turns, layer))
    corrupted = 2 * layer.allowance * (1 + math.log(turns))
    return min(largest * turns, _LATE_LOOK * (stochastic + corrupted))


def guard_layers(
    arms: int, horizon: int, delta: float, share: int = 4, first: float = 1.0
) -> list[SharpLayer]:
    """Return the guard's layers; the slowest one tolerates any corruption of ``horizon`` rounds.

    Returns:
        The layers, fastest first; their shares sum to ``2^-s``.

    >>> layers = guard_layers(2, 1000, 0.05)
    >>> [layer.share * 1024 for layer in layers]
    [32.5, 16.0, 8.0, 4.0, 2.0, 1.0, 0.5]
    >>> [layer.tolerated for layer in layers]
    [16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0]
    """
    check_run(arms, horizon, delta)
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
    return _least_of_layers(
        layers, limits, own, lead, failure, log_term, gaps, horizon, spent, is_guard=True
    )


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
