"""What a policy is proven to lose at most, in one setting."""

from __future__ import annotations

from collections.abc import Sequence

from armrace.formatting import count
from armrace.policies import Policy
from armrace.policies.base import Guarantee
from armrace.theory import gaps_of

__all__ = ["COVERED", "NO_BOUND", "VACUOUS", "proven_guarantee", "proven_loss"]

COVERED = "any attack that fixes its answer for every arm before the arm is drawn"
"""Whom the theorems are about: who answers to the drawn arm pays less for the same harm."""


VACUOUS = "more than all that can be lost"
NO_BOUND = "no bound"


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
    return VACUOUS if policy.guarantee_at(means, horizon, corruption) else NO_BOUND
