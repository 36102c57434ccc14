"""Proven guarantees: the largest corruption at which a theorem's bound is not vacuous.

A bound on the pseudo-regret is vacuous unless it lies below ``D T``, the cost of playing in every
round the best arm that is not good enough; ``D`` is the gap of that arm.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from armrace.planning.question import Question
from armrace.policies import Policy
from armrace.specification import MAXIMAL_HORIZON
from armrace.theory import agnostic_regret, gaps_of

__all__ = ["COVERED", "guaranteed_corruption", "rounds_until_guarantee"]

COVERED = "any attack that fixes its answer for every arm before the arm is drawn"
"""Whom the theorems are about: who answers to the drawn arm pays less for the same harm."""


def guaranteed_corruption(question: Question, policy: Policy) -> float | None:
    """Return the largest whole C at which the policy's bound is not vacuous; None if there is none.

    Only bounds that hold with high probability count; see
    :meth:`armrace.policies.Policy.guarantee`.

    >>> from armrace.planning import make_question
    >>> question = make_question([0.9, 0.1], traffic=1e6, days=1, policies=["multi-layer-race"])
    >>> guaranteed_corruption(question, question.policies[0])
    4116.0
    """
    gaps, least = gaps_of(question.means), _next_gap(question) * question.horizon

    def says(corruption: int) -> bool:
        bound = policy.guarantee(gaps, question.horizon, float(corruption))
        return bound is not None and bound.failure > 0 and bound.pseudo_regret < least

    return _last(says, question.horizon)


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
