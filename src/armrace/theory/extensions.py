"""Section 5 of the paper: small gaps, the clean objective, the best of all worlds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.arguments import check_at_least, check_gaps, check_horizon
from armrace.theory.plays import RegretBound
from armrace.theory.races import agnostic_regret


def inverse_gap(gap: float, horizon: int) -> float:
    """``min(1/gap, sqrt(T))``, which replaces ``1/gap`` in bounds on the regret.

    However often an arm is played, it costs at most ``gap T``; the smaller of that and ``1/gap``
    is at most ``sqrt(T)``, and so is the standard deviation of rewards. The paper says that
    the total is within ``sqrt(T)`` of its expectation, where it is within ``sqrt(2 L T)``; the
    bounds have a factor of ``L`` in front that covers it.

    Args:
        gap: the gap of the arm.
        horizon: the number of rounds.

    >>> inverse_gap(0.5, 10_000), inverse_gap(0.001, 10_000), inverse_gap(0, 10_000)
    (2.0, 100.0, 100.0)
    """
    check_gaps([gap])
    check_horizon(horizon)
    return math.sqrt(horizon) if gap == 0 else min(1 / gap, math.sqrt(horizon))


def inverse_gap_for_pseudo_regret(gap: float, horizon: int) -> float:
    """``min(1/gap, gap T)``, which replaces ``1/gap`` in bounds on the pseudo-regret.

    Args:
        gap: the gap of the arm.
        horizon: the number of rounds.

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
        corruption: the corruption that is spent.

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
        gaps: the gap of every arm except one best arm.
        horizon: the number of rounds.
        delta: the failure probability of the race.
        corruption: the corruption that is spent.
        alpha: SAPO replaces all layers slower than ``T^alpha``.
        top_regret: SAPO's regret; by default ``sqrt(T)``.

    Returns:
        Upper bounds on the pseudo-regret and the regret.

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
