"""Logarithmic terms and allowances with which the sharper intervals hold.

A layer *tolerates* a corruption ``C`` if, except with small probability, the random choice of its
rounds lets it meet no more corruption than its allowance. Two events must hold in every layer that
tolerates the actual corruption: its allowance is large enough, and the clean forms of its intervals
cover the means. Each event gets half of the race's failure probability, in equal parts for all
layers; the theory page of the documentation has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from armrace.policies.races import intervals
from armrace.policies.races.state import Race, make_race
from armrace.theory import SharpLayer, corruption_allowance, layer_tolerances

_KINDS: dict[str, int] = {
    "hoeffding": intervals.HOEFFDING,
    "bernstein": intervals.BERNSTEIN,
    "kl": intervals.KL,
    "kl-mixture": intervals.KL_MIXTURE,
    "kl-jeffreys": intervals.KL_JEFFREYS,
}
"""The kinds of intervals by the names that users give."""

_FOR_ALL_TIMES = ("kl-mixture", "kl-jeffreys")

Floats = npt.NDArray[np.float64]


def sharp_rule(
    kind: str, arms: int, horizon: int, share: Floats, pooled: bool, delta: float
) -> intervals.Rule:
    """Make the rule whose intervals, in all tolerant layers, hold with probability ``1 - delta``.

    For kinds that hold at one number of rewards only, a union bound over all numbers up to the
    horizon is taken; Bernstein intervals share their probability with Hoeffding's.

    Args:
        kind: ``hoeffding``, ``bernstein``, ``kl``, ``kl-mixture`` or ``kl-jeffreys``.
        arms: the number of arms.
        horizon: the number of rounds.
        share: the probability of each layer, fastest first.
        pooled: whether a layer also uses the rewards of all slower layers.
        delta: the probability with which some interval may fail.

    >>> rule = sharp_rule("hoeffding", 2, 1024, np.array([0.75, 0.25]), pooled=False, delta=0.1)
    >>> math.isclose(rule.log_upper[0], math.log(4 * 2 * 2 * 1024 / 0.1))
    True
    """
    layers = share.size
    # The other half of delta pays for the allowances below.
    failures = 0.5 * delta / (arms * layers)
    log_term = -math.log(failures)
    if kind not in _FOR_ALL_TIMES:
        # Two ends at each number of rewards; mixtures hold for both ends and all numbers at once.
        log_term += math.log(2 * horizon * (2 if kind == "bernstein" else 1))
    log_terms = np.full(layers, log_term)
    return intervals.make_rule(
        _KINDS[kind],
        log_terms,
        log_terms.copy(),
        _allowances(share, pooled, 2 * layers / delta),
    )


def _allowances(share: Floats, pooled: bool, certainty: float) -> Floats:
    """Return the most that each layer meets while the corruption is at most one over its share.

    A layer that also uses the rewards of all slower layers meets their corruption too.
    """
    # Lemma 1 of the theory page with C = 1/share: what a layer uses meets used/share on average.
    used = np.cumsum(share[::-1])[::-1] if pooled else share
    ratios = (used / share).tolist()
    return np.array([corruption_allowance(ratio, math.log(certainty)) for ratio in ratios])


def make_pooled_race(arms: int, layers: Sequence[SharpLayer], lead: int) -> Race:
    """Make the race of Theorems B and C: Jeffreys' intervals, pooled layers, a leader in each."""
    # Copied, because rows of a transposed array are not contiguous, and compiled code has another
    # type for such arrays.
    share, designed, log_lower, log_upper, allowance = np.array(layers).T.copy()
    rule = intervals.make_rule(intervals.KL_JEFFREYS, log_lower, log_upper, allowance)
    tolerated = np.array(layer_tolerances(designed.tolist(), allowance.tolist()))
    return make_race(arms, share, rule, pooled=True, leading=lead, tolerated=tolerated)
