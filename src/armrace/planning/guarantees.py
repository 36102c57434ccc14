"""Proven guarantees: the largest corruption at which a theorem's bound is not vacuous.

A bound on the pseudo-regret is vacuous unless it lies below ``D T``, the cost of playing in every
round the best arm that is not good enough; ``D`` is the gap of that arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from armrace.planning.question import Question
from armrace.policies import FastSlowRace, Guarded, MultiLayerRace, Policy, SharpRace
from armrace.specification import MAXIMAL_HORIZON
from armrace.theory import (
    agnostic_regret,
    fast_slow_regret,
    gaps_of,
    guarded_regret,
    sharp_regret,
)

__all__ = ["guaranteed_corruption", "rounds_until_guarantee"]


def guaranteed_corruption(question: Question, policy: Policy) -> float | None:
    """Return the largest whole C at which the policy's bound is not vacuous; None if there is none.

    Theorem 3 covers the multi-layer race of the paper, its sharper form covers the sharp race,
    Theorem C a guard around any base, and Theorem 2 the Fast-Slow race up to its parameter
    ``corruption``.

    >>> from armrace.planning import make_question
    >>> question = make_question([0.9, 0.1], traffic=1e6, days=1, policies=["multi-layer-race"])
    >>> guaranteed_corruption(question, question.policies[0])
    4116.0
    """
    if isinstance(policy, MultiLayerRace) and policy == MultiLayerRace(delta=policy.delta):
        return _last(lambda corruption: _race_says(question, policy, corruption), question.horizon)
    if isinstance(policy, SharpRace):
        return _last(lambda corruption: _sharp_says(question, policy, corruption), question.horizon)
    if isinstance(policy, Guarded):
        return _last(lambda corruption: _guard_says(question, policy, corruption), question.horizon)
    if isinstance(policy, FastSlowRace):
        gaps = gaps_of(question.means)
        bound = fast_slow_regret(gaps, question.horizon, policy.delta, policy.corruption)
        says = bound.pseudo_regret < _next_gap(question) * question.horizon
        return policy.corruption if says else None
    return None


def rounds_until_guarantee(question: Question, delta: float) -> float | None:
    """Return the number of decisions from which Theorem 3 is not vacuous without corruption.

    >>> from armrace.planning import make_question
    >>> question = make_question([0.9, 0.1], traffic=100, days=1)
    >>> f"{rounds_until_guarantee(question, 0.05):.0f}"
    '7385'
    """
    gaps, gap = gaps_of(question.means), _next_gap(question)

    def is_silent(horizon: int) -> bool:
        return agnostic_regret(gaps, horizon, delta, 0.0).pseudo_regret >= gap * horizon

    last = _last(is_silent, MAXIMAL_HORIZON, first=1)
    return None if last is None or last >= MAXIMAL_HORIZON else last + 1


def _race_says(question: Question, policy: MultiLayerRace, corruption: float) -> bool:
    bound = agnostic_regret(
        gaps_of(question.means), question.horizon, policy.delta, float(corruption)
    )
    return bound.pseudo_regret < _next_gap(question) * question.horizon


def _sharp_says(question: Question, policy: SharpRace, corruption: float) -> bool:
    gaps, horizon = gaps_of(question.means), question.horizon
    bound = sharp_regret(
        gaps,
        horizon,
        policy.delta,
        float(corruption),
        policy.lead,
        policy.first,
        policy.most_corruption,
    )
    return bound.pseudo_regret < _next_gap(question) * horizon


def _guard_says(question: Question, policy: Guarded, corruption: float) -> bool:
    bound = guarded_regret(
        gaps_of(question.means),
        question.horizon,
        policy.delta,
        float(corruption),
        policy.share,
        policy.lead,
        policy.first,
    )
    return bound.pseudo_regret < _next_gap(question) * question.horizon


def _next_gap(question: Question) -> float:
    """Return the gap of the best arm that is not good enough."""
    means = question.arms()
    return float(means.max() - means[~question.good_enough()].max())


def _last(holds: Callable[[int], bool], largest: int, first: int = 0) -> float | None:
    """Find the largest whole number up to ``largest`` at which a condition holds, by bisection.

    The condition must hold up to some number and fail beyond it.

    >>> _last(lambda number: number < 9, 1000), _last(lambda number: False, 1000)
    (8.0, None)
    """
    low, high = first, largest
    if not holds(low):
        return None
    while low < high:
        middle = low + math.ceil((high - low) / 2)
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return float(low)
