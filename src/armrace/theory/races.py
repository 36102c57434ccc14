"""The multi-layer race: Theorem 3, for any corruption, and Theorem 6, for that of each arm.

A layer is *tolerant* of the corruption ``C`` if, with high probability, it meets no more of it than
its allowance. The paper shows that for shares of at most ``1/C``; the allowance of Theorem 3
suffices for shares of several times as much (:func:`race_tolerance`). A tolerant layer never
deletes a best arm, and deletes every other arm after a known number of its own plays; how long
that takes is in :mod:`armrace.theory.plays`. Faster layers may be fooled, but lose what a tolerant
layer deletes, and once empty play what it has left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.eliminations import plays_until_deleted, survival_failure
from armrace.theory.plays import (
    NO_GUARANTEE,
    RegretBound,
    allowance_failure,
    bound_regret,
    check_above_zero,
    check_at_least,
    check_gaps,
    check_horizon,
    check_run,
    layer_tolerances,
    moves_until_deleted,
    regret_of_limits,
    regret_of_stages,
    rounds_until_moves,
    tolerated_ratio,
)


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


def tolerant_layer(shares: Sequence[float], corruption: float, tolerance: float = 1.0) -> int:
    """The first layer, from 0, whose share times ``C`` is at most ``tolerance``.

    All slower layers are tolerant too. The paper's tolerance is 1, for which every allowance of
    at least ``ln(layers/failure) + 3`` serves; :func:`race_tolerance` is what the allowance of
    Theorem 3 really covers. The paper calls a layer intolerant if ``2^l > C``; the opposite is
    meant, and as the first layer's share is more than a half, the share itself decides.

    >>> tolerant_layer(layer_shares(1024), 0), tolerant_layer(layer_shares(1024), 5)
    (0, 2)
    """
    check_at_least("corruption", corruption, 0)
    check_above_zero("tolerance", tolerance)
    if not len(shares):
        raise InvalidParameter("shares must have an entry for each layer; got none.")
    for layer, share in enumerate(shares):
        if share * corruption <= tolerance:
            return layer
    raise InvalidParameter(
        f"corruption must be at most {tolerance / shares[-1]:g}, what the slowest layer tolerates; "
        f"got {corruption:g}."
    )


def race_tolerance(
    arms: int, horizon: int, delta: float, layers: int | None = None, per_arm: bool = False
) -> float:
    """The largest share times corruption that the layers of Theorem 3 tolerate together.

    Each layer leaves room for a corruption of ``L``. By Lemma 1 of the theory page a layer whose
    share times ``C`` is ``rho`` meets more with probability at most
    ``exp(-(L ln(L/rho) - L + rho))``. The largest ``rho`` for which that is ``delta/8`` for all
    layers together is returned; the paper uses ``rho = 1``. With ``per_arm``, every arm of every
    layer is an event of its own.

    Args:
        per_arm: whether every arm of every layer is an event of its own.

    >>> f"{race_tolerance(2, 1024, 0.1):.2f} {race_tolerance(10, 10**12, 0.05):.2f}"
    '4.16 17.68'
    """
    log_term = race_log_term(arms, horizon, delta, layers)
    count = len(layer_shares(horizon)) if layers is None else layers
    events = count * arms if per_arm else count
    return tolerated_ratio(log_term, math.log(8 * events / delta))


def race_tolerances(
    arms: int, horizon: int, delta: float, shares: Sequence[float] | None = None
) -> list[float]:
    """Return the corruption up to which each layer of Theorem 3 keeps a best arm.

    Args:
        shares: the probability of each layer, fastest first; by default :func:`layer_shares`.

    Returns:
        A number for each layer: :func:`race_tolerance` divided by its share, and no less than its
        allowance.

    >>> [round(each, 1) for each in race_tolerances(2, 1024, 0.1)][:4]
    [13.6, 16.6, 33.3, 66.6]
    """
    shares = layer_shares(horizon) if shares is None else shares
    log_term = race_log_term(arms, horizon, delta, len(shares))
    ratio = race_tolerance(arms, horizon, delta, len(shares))
    return layer_tolerances([ratio / share for share in shares], [log_term] * len(shares))


def race_log_term(arms: int, horizon: int, delta: float, layers: int | None = None) -> float:
    """``L = ln(4KT layers/delta)`` of Theorem 3, which is also each layer's allowance.

    >>> f"{race_log_term(2, 1024, 0.1):.5f}"
    '13.61608'
    """
    check_run(arms, horizon, delta)
    layers = len(layer_shares(horizon)) if layers is None else layers
    check_at_least("layers", layers, 1)
    return math.log(4 * arms * horizon * layers / delta)


def race_failure(
    arms: int,
    horizon: int,
    delta: float,
    layers: int | None = None,
    tolerance: float | None = None,
) -> float:
    """Return an upper bound on the probability that a tolerant layer loses a best arm.

    Some clean mean is off with probability at most ``delta^2/(8KT layers)``; some tolerant layer
    meets more than ``L`` with at most ``layers exp(-(L ln(L/rho) - L + rho))``, ``rho`` being the
    ``tolerance``. By default that is :func:`race_tolerance`, which makes it ``delta/8``; at the
    paper's 1 it is no more than ``delta/(4eKT)`` where ``L >= e^2``. The paper's proof spends
    ``delta/2`` three times. By these figures Theorem 3 holds at ``1 - delta``: the moves take less
    than ``delta/2 - delta/(2 layers)`` and the martingales ``delta/(4 layers)``.

    >>> f"{race_failure(2, 1024, 0.1):.4g} {race_failure(2, 1024, 0.1, tolerance=1):.2g}"
    '0.0125 6.2e-08'
    """
    log_term = race_log_term(arms, horizon, delta, layers)
    count = len(layer_shares(horizon)) if layers is None else layers
    ratio = race_tolerance(arms, horizon, delta, layers) if tolerance is None else tolerance
    sampling = survival_failure(arms, horizon, log_term, count)
    return min(1.0, sampling + count * allowance_failure(ratio, max(log_term, ratio)))


def agnostic_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruption: float,
    shares: Sequence[float] | None = None,
    tolerance: float | None = None,
) -> RegretBound:
    """Theorem 3: a bound on the regret of the multi-layer race, which does not know ``C``.

    Let ``l`` be a tolerant layer and ``N(a) = 4 L (1 + sqrt(1 + D))^2 / D^2`` the plays that a
    tolerant layer gives to an arm. Layer ``l`` and all slower ones together give it that many
    times their number. Faster layers, and empty ones that play what others have left, may play it
    until layer ``l`` has deleted it, for which ``N(a) + sum over b of min(N(a), N(b))`` moves
    suffice. That takes about as many rounds divided by ``p(l)``
    (:func:`rounds_until_moves`), which is of order ``(K C + ln T) ln(KT/delta) / D``: the
    theorem's without the second logarithm on ``C``. This holds for every tolerant layer, and the
    smallest of the bounds is returned. As the corruption may be chosen on the way, the moves are
    counted for all layers.

    ``shares`` are those of :func:`layer_shares` unless given. ``tolerance`` is the largest share
    times corruption that a layer tolerates, by default :func:`race_tolerance`. The first layer
    also tolerates ``C <= L``, since it cannot meet more than the total. With the sharper intervals
    of the race the tolerance is 1, and the bound holds with probability ``1 - 3 delta/2``, as they
    spend all of ``delta`` themselves. Where the slowest layer tolerates less than ``C``, nothing
    is guaranteed, and both bounds are infinite.

    >>> bound = agnostic_regret([1.0], 10**6, 0.1, 0)  # 20 layers with 495 plays each
    >>> bound.pseudo_regret
    9900.0
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    spent = min(corruption, float(horizon))
    return _race_regret(gaps, horizon, delta, spent, 2 * spent, shares, tolerance)


def _race_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    tolerated: float,
    direct: float,
    shares: Sequence[float] | None,
    tolerance: float | None,
    per_arm: bool = False,
) -> RegretBound:
    """Theorem 3 with what the layers must tolerate and what corruption itself adds to regret."""
    shares = layer_shares(horizon) if shares is None else shares
    arms, layers = len(gaps) + 1, len(shares)
    log_term = race_log_term(arms, horizon, delta, layers)
    if tolerance is None:
        ratio = race_tolerance(arms, horizon, delta, layers, per_arm)
        covered = tolerated <= log_term  # no layer meets more than all there is
    else:
        ratio, covered = tolerance, False
    if not covered and shares[-1] * tolerated > ratio:
        return NO_GUARANTEE
    fastest = 0 if covered else tolerant_layer(shares, tolerated, ratio)
    each = [plays_until_deleted(gap, log_term, log_term) for gap in gaps]
    moves, failure = moves_until_deleted(each), delta / (2 * arms * layers)
    found = NO_GUARANTEE
    for layer in range(fastest, layers):
        limits = [(layers - layer) * plays for plays in each]
        pseudo_regret, bad_plays = regret_of_limits(gaps, limits, horizon), sum(limits)
        if layer > 0:
            ends = [rounds_until_moves(count, shares[layer], failure) for count in moves]
            pseudo_regret += regret_of_stages(gaps, ends, horizon)
            bad_plays += max(ends)
        pseudo_regret = min(pseudo_regret, horizon * max(gaps))
        bound = bound_regret(gaps, pseudo_regret, bad_plays, horizon, log_term, direct)
        found = RegretBound(*map(min, found, bound))
    return found


def per_arm_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruptions: Sequence[float],
    shares: Sequence[float] | None = None,
) -> RegretBound:
    """Theorem 6: Theorem 3 with the corruption of each arm counted by itself.

    The paper replaces ``C`` for arm ``a`` by the larger of ``C(a)`` and the best arm's. That does
    not hold: an arm ``b`` with much corruption may have a best arm deleted from a layer in which
    ``a`` stays; ``a`` then deletes ``b`` there, faster layers run empty and play ``a``, and
    plays of ``a`` grow with ``C(b)`` though ``a`` and the best arm were left alone. What the
    argument gives is the largest ``C(b)`` of all arms in every summand. Each arm's samples in
    each layer are then an event of their own, so that the corruption event fails with ``K``
    times the probability, which the tolerance pays for. The comparator moves by the largest
    ``C(b)``, what is collected by their sum.

    ``corruptions`` has an entry for each of the ``K`` arms, in any order.

    Args:
        corruptions: the corruption of each arm's rewards.

    >>> corrupted = per_arm_regret([0.5, 0.5], 10**6, 0.1, [100, 100, 0])
    >>> corrupted.pseudo_regret >= agnostic_regret([0.5, 0.5], 10**6, 0.1, 100).pseudo_regret
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
    return _race_regret(
        gaps, horizon, delta, largest, largest + collected, shares, tolerance=None, per_arm=True
    )


def inverse_gap(gap: float, horizon: int) -> float:
    """``min(1/gap, sqrt(T))``, which replaces ``1/gap`` in bounds on the regret.

    However often an arm is played, it costs at most ``gap T``; the smaller of that and ``1/gap``
    is at most ``sqrt(T)``, and so is the standard deviation of rewards. The paper says that
    the total is within ``sqrt(T)`` of its expectation, where it is within ``sqrt(2 L T)``; the
    bounds have a factor of ``L`` in front that covers it.

    >>> inverse_gap(0.5, 10_000), inverse_gap(0.001, 10_000), inverse_gap(0, 10_000)
    (2.0, 100.0, 100.0)
    """
    check_gaps([gap])
    check_horizon(horizon)
    return math.sqrt(horizon) if gap == 0 else min(1 / gap, math.sqrt(horizon))


def inverse_gap_for_pseudo_regret(gap: float, horizon: int) -> float:
    """``min(1/gap, gap T)``, which replaces ``1/gap`` in bounds on the pseudo-regret.

    >>> inverse_gap_for_pseudo_regret(0.5, 10_000), inverse_gap_for_pseudo_regret(0.001, 10_000)
    (2.0, 10.0)
    """
    check_gaps([gap])
    check_horizon(horizon)
    return 0.0 if gap == 0 else min(1 / gap, gap * horizon)


def clean_regret_from(regret: float, corruption: float) -> float:
    """A bound on the regret before corruption from one on the regret after it.

    What is collected differs by at most ``C`` between the two, which is what the paper says;
    the total of the best arm in hindsight may change by as much.

    Args:
        regret: the bound on the regret after corruption.

    >>> clean_regret_from(100, 7)
    114
    """
    check_at_least("corruption", corruption, 0)
    return regret + 2 * corruption


def hidden_rounds_regret(corruption: float) -> float:
    """Return the clean regret of every learner while all rewards are hidden: ``C/2``.

    Two arms always pay 1 and 0, or 0 and 1, as a coin decides; in the first ``C`` rounds the
    adversary shows 0 for both. Whatever the learner plays, it is right in half the cases, so its
    expected regret over these rounds is exactly ``C/2``.

    Args:
        corruption: the number of rounds that are hidden.

    >>> hidden_rounds_regret(7)
    3.5
    """
    check_at_least("corruption", corruption, 0)
    return corruption / 2


def best_of_all_worlds_regret(
    gaps: Sequence[float],
    horizon: int,
    delta: float,
    corruption: float,
    alpha: float,
    top_regret: float | None = None,
) -> RegretBound:
    """The race with SAPO on top: Theorem 3 if ``C <= T^alpha``, else ``T^alpha`` times SAPO's.

    SAPO gets a round with probability ``T^-alpha`` in place of all layers that are slower. If
    the corruption is more than ``T^alpha``, an arm costs at most what it costs SAPO in its own
    moves, divided by their share: ``T^alpha top_regret``. The paper sketches this for the
    pseudo-regret only, without constants, which are SAPO's; by default ``top_regret`` is
    ``sqrt(T)``, so that ``T^(1/2 + alpha)`` comes out as the paper has it: an order of magnitude
    and not a proven bound. Up to ``T^alpha``, SAPO's layer is counted as one more elimination,
    which is its order but not its constant.

    Args:
        alpha: SAPO replaces all layers slower than ``T^alpha``.
        top_regret: SAPO's regret; by default ``sqrt(T)``.

    >>> best_of_all_worlds_regret([0.5], 10**8, 0.1, 10**5, 0.25).pseudo_regret
    1000000.0
    """
    check_gaps(gaps)
    check_horizon(horizon)
    check_at_least("corruption", corruption, 0)
    if not 0 < alpha < 0.5:
        raise InvalidParameter(f"alpha must be in (0, 0.5); got {alpha:g}.")
    limit = float(horizon) ** alpha
    if corruption <= limit:
        shares = [2.0**-layer for layer in range(1, math.floor(math.log2(limit)) + 1)]
        shares = [*shares, 1 / limit]
        shares[0] += 1 - sum(shares)
        return agnostic_regret(gaps, horizon, delta, corruption, shares)
    top = math.sqrt(horizon) if top_regret is None else top_regret
    check_at_least("top_regret", top, 0)
    pseudo_regret = min(limit * top, horizon * max(gaps))
    return RegretBound(pseudo_regret, min(pseudo_regret + 2 * corruption, float(horizon)))
