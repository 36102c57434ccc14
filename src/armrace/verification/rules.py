"""What the theorems prescribe for every layer of a race: shares, log terms, allowances, leader.

These numbers come from the theorems and the policy's parameters alone, never from its running
state, so that a state that differs is detected. The interval ends are computed here a second time,
in plain Python and by another method than in the compiled code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from armrace import theory

Floats = npt.NDArray[np.float64]

AT_ALL_TIMES = ("kl-mixture", "kl-jeffreys")
"""The kinds of intervals that hold for all numbers of rewards at once."""

_HALVINGS = 100


class Rule(NamedTuple):
    """A race as its theorem prescribes it; arrays have an entry for each layer, fastest first."""

    kind: str
    share: Floats
    log_lower: Floats
    log_upper: Floats
    allowance: Floats
    tolerated: Floats
    """The corruption up to which each layer is guaranteed to keep the best arm."""
    intervals_part: float
    """The failure probability that the intervals of all layers may spend together."""
    allowances_part: float
    """The failure probability that the allowances of all layers may spend together."""
    pooled: bool = False
    lead: int = 0

    @property
    def used_share(self) -> Floats:
        """The share of the rounds whose rewards each layer uses."""
        return used_share(self.share, self.pooled)


def used_share(share: Floats, pooled: bool) -> Floats:
    """The share of the rounds whose rewards each layer uses: its own, or its own and all slower.

    >>> used_share(np.array([0.75, 0.25]), pooled=True).tolist()
    [1.0, 0.25]
    """
    return np.asarray(np.cumsum(share[::-1])[::-1]) if pooled else share


def elimination_rule(policy: Any, arms: int, horizon: int) -> Rule:
    """Arm elimination of Theorem 1, with its corruption as the allowance."""
    log_term = np.array([theory.elimination_log_term(arms, horizon, policy.delta)])
    allowance = np.array([float(getattr(policy, "corruption", 0.0))])
    part = policy.delta / 2
    return Rule(
        "paper", np.ones(1), log_term, log_term, allowance, allowance, part, allowances_part=0.0
    )


def fast_slow_rule(policy: Any, arms: int, horizon: int) -> Rule:
    """The two layers of Theorem 2."""
    log_term = theory.fast_slow_log_term(arms, horizon, policy.delta)
    told = max(policy.corruption, 1.0)
    log_terms, part = np.full(2, log_term), policy.delta / 8
    allowances = [0.0, 2 * log_term]
    return Rule(
        kind="paper",
        share=np.array([1 - 1 / told, 1 / told]),
        log_lower=log_terms,
        log_upper=log_terms,
        allowance=np.array(allowances),
        tolerated=np.array(theory.layer_tolerances([0.0, told], allowances)),
        intervals_part=part,
        allowances_part=part,
    )


def race_rule(policy: Any, arms: int, horizon: int) -> Rule:
    """The layers of Theorem 3, with the paper's intervals or with sharper ones."""
    layers, delta = policy.layer_count(arms, horizon), policy.delta
    share = np.asarray(policy.base ** -np.arange(1.0, layers + 1))
    share[0] = 1 - share[1:].sum()
    if policy.intervals == "paper":
        log_term = theory.race_log_term(arms, horizon, delta, layers)
        allowance = log_terms = np.full(layers, log_term)
        tolerated = theory.race_tolerances(arms, horizon, delta, share.tolist())
        intervals_part = allowances_part = delta / 8
    else:
        log_term = math.log(2 * arms * layers / delta)
        if policy.intervals not in AT_ALL_TIMES:
            log_term += math.log((4 if policy.intervals == "bernstein" else 2) * horizon)
        log_terms = np.full(layers, log_term)
        ratios = used_share(share, policy.pool) / share
        certainty = math.log(2 * layers / delta)
        allowance = np.array([theory.corruption_allowance(r, certainty) for r in ratios.tolist()])
        tolerated = theory.layer_tolerances((1 / share).tolist(), allowance.tolist())
        intervals_part = allowances_part = delta / 2
    return Rule(
        kind=policy.intervals,
        share=share,
        log_lower=log_terms,
        log_upper=log_terms,
        allowance=allowance,
        tolerated=np.array(tolerated),
        intervals_part=intervals_part,
        allowances_part=allowances_part,
        pooled=policy.pool,
    )


def sharp_race_rule(policy: Any, arms: int, horizon: int) -> Rule:
    """The layers of Theorem B."""
    layers = theory.sharp_layers(arms, horizon, policy.delta, policy.first, policy.most_corruption)
    return _pooled_rule(policy, layers)


def guard_rule(policy: Any, arms: int, horizon: int) -> Rule:
    """The layers of Theorem C; the rounds that no layer gets are the base policy's."""
    layers = theory.guard_layers(arms, horizon, policy.delta, policy.share, policy.first)
    return _pooled_rule(policy, layers)


def _pooled_rule(policy: Any, layers: Sequence[theory.SharpLayer]) -> Rule:
    tolerated = theory.layer_tolerances(
        [layer.tolerated for layer in layers], [layer.allowance for layer in layers]
    )
    return Rule(
        kind="kl-jeffreys",
        share=np.array([layer.share for layer in layers]),
        log_lower=np.array([layer.log_lower for layer in layers]),
        log_upper=np.array([layer.log_upper for layer in layers]),
        allowance=np.array([layer.allowance for layer in layers]),
        tolerated=np.array(tolerated),
        intervals_part=policy.delta / 3,
        allowances_part=policy.delta / 3,
        pooled=True,
        lead=policy.lead,
    )


def ends(rule: Rule, layer: int, pulls: float, total: float) -> tuple[float, float]:
    """The prescribed interval of a layer after rewards of 0 and 1 with the given sum."""
    mean, shift = total / pulls, rule.allowance[layer] / pulls
    lower, upper = rule.log_lower[layer], rule.log_upper[layer]
    if rule.kind in ("kl", *AT_ALL_TIMES):
        extra = _extra(rule.kind, pulls)
        return (
            _kl_end(max(0.0, mean - shift), 0.0, (lower + extra) / pulls),
            _kl_end(min(1.0, mean + shift), 1.0, (upper + extra) / pulls),
        )
    width = {"paper": _paper, "hoeffding": _hoeffding, "bernstein": _bernstein}[rule.kind]
    spread = math.sqrt(max(0.0, total - total * total / pulls)) + math.sqrt(rule.allowance[layer])
    return (
        mean - shift - width(pulls, lower, spread),
        mean + shift + width(pulls, upper, spread),
    )


def _paper(pulls: float, log_term: float, spread: float) -> float:
    return math.sqrt(log_term / pulls)


def _hoeffding(pulls: float, log_term: float, spread: float) -> float:
    return math.sqrt(log_term / (2 * pulls))


def _bernstein(pulls: float, log_term: float, spread: float) -> float:
    """The smaller of Hoeffding's width and that of Maurer and Pontil."""
    widest = _hoeffding(pulls, log_term, spread)
    if pulls < 2:
        return widest
    h = log_term + math.log(2)
    return min(widest, spread * math.sqrt(2 * h / pulls / (pulls - 1)) + 7 * h / (3 * (pulls - 1)))


def _extra(kind: str, pulls: float) -> float:
    if kind == "kl-mixture":
        return math.log(pulls + 1)
    return math.log(math.pi * (pulls + 0.5)) / 2 if kind == "kl-jeffreys" else 0.0


def _kl_end(mean: float, end: float, limit: float) -> float:
    """The mean towards ``end`` whose divergence from ``mean`` is ``limit``, by halving."""
    near, far = mean, end
    is_within: Callable[[float], bool] = lambda q: _divergence(mean, q) <= limit  # noqa: E731
    for _ in range(_HALVINGS):
        middle = (near + far) / 2
        if middle in (near, far):
            break
        near, far = (middle, far) if is_within(middle) else (near, middle)
    return near


def _divergence(p: float, q: float) -> float:
    """The divergence of Bernoulli laws; infinite where ``q`` rules out what ``p`` allows."""
    first = 0.0 if p == 0 else math.inf if q == 0 else p * math.log(p / q)
    second = 0.0 if p == 1 else math.inf if q == 1 else (1 - p) * math.log((1 - p) / (1 - q))
    return first + second
