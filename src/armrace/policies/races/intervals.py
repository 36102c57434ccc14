"""Confidence intervals for the mean of rewards of which some may have been corrupted.

An interval is computed from the observed mean of ``n`` rewards, a logarithmic term ``t`` that sets
its confidence, and an allowance ``c`` for the sum of all changes to the rewards. If the changes sum
to at most ``c``, the interval covers the true mean whenever its clean form, computed without
allowance from the rewards before corruption, does:

- *paper*: ``mean +- sqrt(t/n) + c/n``, the widths of Lykouris, Mirrokni and Paes Leme;
- *hoeffding*: ``mean +- sqrt(t/2n) + c/n``;
- *bernstein*: Maurer and Pontil's widths, in which the sample's deviation takes the place of the
  worst one, intersected with Hoeffding's;
- *kl*: Chernoff's, the means ``q`` with ``n kl(mean, q) <= t``, its ends moved by ``c/n``;
- *kl-mixture*: ``n kl(mean, q) <= t + ln(n+1)``, which holds for all ``n`` at once;
- *kl-jeffreys*: ``n kl(mean, q) <= t + ln(pi (n + 1/2))/2``, which also holds for all ``n`` at
  once, and is narrower from ``n = 2`` on.

The first four hold at one ``n``, so their logarithmic term must pay for all ``n``. Proofs are in
the theory page of the documentation.

:func:`sharp_rule` sets terms and allowances so that a race's intervals hold together. A layer
*tolerates* a corruption ``C`` if, except with small probability, the random choice of its rounds
lets it meet no more corruption than its allowance. Two events must hold in every layer that
tolerates the actual corruption: its allowance is large enough, and the clean forms of its intervals
cover the means. Each event gets half of the race's failure probability, in equal parts for all
layers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.kernels.compiling import inlined
from armrace.policies.common.divergence import lower_kl, upper_kl
from armrace.theory import corruption_allowance

# The order matters: ``ends`` takes the kinds up to BERNSTEIN to be means with a half-width.
PAPER, HOEFFDING, BERNSTEIN, KL, KL_MIXTURE, KL_JEFFREYS = range(6)


class Rule(NamedTuple):
    """How the intervals of each layer are computed; arrays have one entry per layer."""

    kind: npt.NDArray[np.int64]
    """A single entry: the kind of interval of all layers."""
    log_lower: npt.NDArray[np.float64]
    """Logarithmic terms of the lower ends."""
    log_upper: npt.NDArray[np.float64]
    allowance: npt.NDArray[np.float64]
    """The total change to the rewards that a layer uses for which its intervals make room."""


def make_rule(
    kind: int,
    log_lower: npt.NDArray[np.float64],
    log_upper: npt.NDArray[np.float64],
    allowance: npt.NDArray[np.float64],
) -> Rule:
    """Make a rule for as many layers as the arrays have entries.

    Args:
        kind: the kind of interval of all layers, such as :data:`PAPER`.
        log_lower: logarithmic terms of the lower ends.
        log_upper: logarithmic terms of the upper ends.
        allowance: the total change to the rewards for which intervals make room.

    Returns:
        The rule.
    """
    return Rule(np.array([kind], dtype=np.int64), log_lower, log_upper, allowance)


def paper_rule(log_term: float, allowance: npt.NDArray[np.float64]) -> Rule:
    """Make a rule with the paper's intervals and the same logarithmic term in all layers.

    Args:
        log_term: the logarithmic term of all ends.
        allowance: for each layer, the total change to the rewards for which its intervals make
            room.
    """
    log_terms = np.full(allowance.size, log_term)
    return make_rule(PAPER, log_terms, log_terms.copy(), allowance)


@inlined
def needs_squares(kind: int) -> bool:
    """Whether intervals of this kind depend on the sample variance."""
    return kind == BERNSTEIN


@inlined
def ends(
    kind: int,
    pulls: float,
    total: float,
    squares: float,
    log_lower: float,
    log_upper: float,
    allowance: float,
) -> tuple[float, float]:
    """Return the ends of the interval after ``pulls`` rewards with this sum and sum of squares.

    Args:
        kind: the kind of interval, such as :data:`PAPER`.
        pulls: the number of rewards.
        total: their sum.
        squares: the sum of their squares, which only :data:`BERNSTEIN` needs.
        log_lower: the logarithmic term of the lower end.
        log_upper: the logarithmic term of the upper end.
        allowance: the total change to the rewards for which the interval makes room.
    """
    mean, shift = total / pulls, allowance / pulls
    if kind == PAPER:
        return (
            mean - math.sqrt(log_lower / pulls) - shift,
            mean + math.sqrt(log_upper / pulls) + shift,
        )
    if kind <= BERNSTEIN:
        low, high = _hoeffding(pulls, log_lower), _hoeffding(pulls, log_upper)
        # A sample variance needs two rewards; the allowance enters twice, in the mean and in the
        # variance (Lemma 3 of the theory page).
        if kind == BERNSTEIN and pulls >= 2:
            deviation = _deviation_at_most(pulls, total, squares, allowance)
            low = min(low, _bernstein(pulls, deviation, log_lower))
            high = min(high, _bernstein(pulls, deviation, log_upper))
        return mean - low - shift, mean + high + shift
    extra = for_all_times(kind, pulls)
    # Both ends are increasing in the mean, so it is enough to shift the mean by the allowance.
    return (
        lower_kl(max(0.0, mean - shift), (log_lower + extra) / pulls),
        upper_kl(min(1.0, mean + shift), (log_upper + extra) / pulls),
    )


@inlined
def _hoeffding(pulls: float, log_term: float) -> float:
    return math.sqrt(0.5 * log_term / pulls)


@inlined
def _deviation_at_most(pulls: float, total: float, squares: float, allowance: float) -> float:
    """Return an upper bound on the standard deviation of the rewards before corruption.

    No change exceeds 1, so the sum of squared changes is at most their sum. The changes therefore
    move the vector of rewards by at most the root of the allowance in Euclidean distance.
    """
    # Rounding can make the difference of two nearly equal sums negative.
    spread = max(0.0, squares - total * total / pulls)
    return (math.sqrt(spread) + math.sqrt(allowance)) / math.sqrt(pulls - 1.0)


@inlined
def _bernstein(pulls: float, deviation: float, log_term: float) -> float:
    """Return Maurer and Pontil's width at half the error level of :func:`_hoeffding`."""
    # The theorem has ln(4/d) for two sides, Hoeffding's inequality ln(2/d).
    doubled = log_term + math.log(2.0)
    return deviation * math.sqrt(2.0 * doubled / pulls) + 7.0 * doubled / (3.0 * (pulls - 1.0))


@inlined
def for_all_times(kind: int, pulls: float) -> float:
    """Return what is added to the logarithmic term so that the interval holds for all ``n``."""
    if kind == KL_MIXTURE:
        return math.log(pulls + 1.0)
    if kind == KL_JEFFREYS:
        # Lemma 2 of the theory page: what Jeffreys' mixture loses at most against the best fixed
        # mean.
        return 0.5 * math.log(math.pi * (pulls + 0.5))
    return 0.0


_KINDS: dict[str, int] = {
    "hoeffding": HOEFFDING,
    "bernstein": BERNSTEIN,
    "kl": KL,
    "kl-mixture": KL_MIXTURE,
    "kl-jeffreys": KL_JEFFREYS,
}
"""The kinds of intervals by the names that users give."""

_FOR_ALL_TIMES = ("kl-mixture", "kl-jeffreys")

Floats = npt.NDArray[np.float64]


def sharp_rule(
    kind: str, arms: int, horizon: int, share: Floats, pooled: bool, delta: float
) -> Rule:
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
    return make_rule(
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
