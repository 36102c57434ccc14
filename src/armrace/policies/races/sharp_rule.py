"""Which logarithmic terms and allowances make the sharper intervals hold.

A layer *tolerates* a corruption ``C`` if the coin that gives it its rounds lets it meet no more
than its allowance, but for a small probability. Two events must hold in every layer that
tolerates the corruption there is: its allowance suffices, and the clean forms of its intervals
cover the means. Each has half of what the race may fail with, in equal parts for all layers;
the theory page of the documentation has the proofs.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from armrace.policies.races import intervals
from armrace.theory import corruption_allowance

__all__ = ["sharp_rule"]

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
    """Intervals of which all that matter hold together with probability ``1 - delta``.

    Those that hold for one number of rewards at a time are asked to hold for each up to the
    horizon; Bernstein's share what there is with Hoeffding's.

    >>> rule = sharp_rule("hoeffding", 2, 1024, np.array([0.75, 0.25]), pooled=False, delta=0.1)
    >>> math.isclose(rule.log_upper[0], math.log(4 * 2 * 2 * 1024 / 0.1))
    True
    """
    layers = share.size
    failures = 0.5 * delta / (arms * layers)
    log_term = -math.log(failures)
    if kind not in _FOR_ALL_TIMES:
        log_term += math.log(2 * horizon * (2 if kind == "bernstein" else 1))
    log_terms = np.full(layers, log_term)
    return intervals.make_rule(
        _KINDS[kind],
        log_terms,
        log_terms.copy(),
        _allowances(share, pooled, 2 * layers / delta),
    )


def _allowances(share: Floats, pooled: bool, certainty: float) -> Floats:
    """What each layer meets at most while the corruption is at most one over its share.

    A layer that uses the rewards of all slower layers too meets what they meet.
    """
    used = np.cumsum(share[::-1])[::-1] if pooled else share
    ratios = (used / share).tolist()
    return np.array([corruption_allowance(ratio, math.log(certainty)) for ratio in ratios])
