"""Proven guarantees: what a policy loses at most, and up to which corruption that says something.

What a policy loses at most says something if it is below all that can be lost, the largest gap in
every round. The largest corruption is that at which it is below the cost of playing in every round
the best arm that is not good enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from armrace.formatting import count
from armrace.planning.question import Question
from armrace.policies import Policy
from armrace.policies.base import Guarantee
from armrace.specification import MAXIMAL_HORIZON
from armrace.theory import agnostic_regret, gaps_of

__all__ = [
    "COVERED",
    "VACUOUS",
    "guaranteed_corruption",
    "proven_guarantee",
    "proven_loss",
    "rounds_until_guarantee",
]

COVERED = "any attack that fixes its answer for every arm before the arm is drawn"
"""Whom the theorems are about: who answers to the drawn arm pays less for the same harm."""


VACUOUS = "more than all that can be lost"


def proven_guarantee(
    policy: Policy, means: Sequence[float], horizon: int, corruption: float
) -> Guarantee | None:
    """Return a policy's guarantee; None if there is none below all that can be lost.

    Args:
        policy: the policy.
        means: the mean rewards of the arms.
        horizon: the number of rounds.
        corruption: the most that an attack spends.
    """
    found = policy.guarantee_at(means, horizon, corruption)
    most = max(gaps_of(means)) * horizon
    return None if found is None or found.pseudo_regret > most * (1 - 1e-9) else found


def proven_loss(policy: Policy, means: Sequence[float], horizon: int, corruption: float) -> str:
    """Say what a policy is proven to lose at most, in rewards.

    Args:
        policy: the policy.
        means: the mean rewards of the arms.
        horizon: the number of rounds.
        corruption: the most that an attack spends.

    >>> from armrace.policies import OptimisticLogBarrier, Thompson
    >>> proven_loss(OptimisticLogBarrier(), [0.6, 0.4], 100_000, 100)
    '733'
    >>> proven_loss(OptimisticLogBarrier(), [0.6, 0.4], 100_000, 10_000)
    'more than all that can be lost'
    >>> proven_loss(Thompson(), [0.6, 0.4], 100_000, 100)
    'no bound'
    """
    found = proven_guarantee(policy, means, horizon, corruption)
    if found is not None:
        return count(round(found.pseudo_regret))
    return VACUOUS if policy.guarantee_at(means, horizon, corruption) else "no bound"


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
