"""The bound of leaders with a logarithmic barrier, in expectation; the proof is in the theory page.

It covers ``optimistic-log-barrier`` with ``first_scale > 1 + optimism/2``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from armrace.errors import InvalidParameter
from armrace.theory.arguments import (
    check_above_zero,
    check_arms,
    check_at_least,
    check_gaps,
)

__all__ = [
    "barrier_any_rewards_regret",
    "barrier_curvature",
    "barrier_factor",
    "barrier_regret",
    "most_growth",
]


def barrier_curvature(first_scale: float, optimism: float = 0.0) -> float:
    """The least ``q`` with ``y - ln(1+y) <= q y^2`` for the steps that the barrier allows.

    These are ``y >= -(1 + optimism/2)/first_scale``.

    Args:
        first_scale: the scale of the barrier at first; more than ``1 + optimism/2``.
        optimism: how many deviations are subtracted from an estimated loss.

    >>> round(barrier_curvature(2.0), 4), round(barrier_curvature(100.0), 2)
    (0.7726, 0.5)
    """
    check_at_least("optimism", optimism, 0)
    check_above_zero("first_scale", first_scale)
    step = (1 + optimism / 2) / first_scale
    if step >= 1:
        raise InvalidParameter(
            f"first_scale must be above 1 + optimism/2, {1 + optimism / 2:g}; got {first_scale:g}."
        )
    return (-step - math.log1p(-step)) / (step * step)


def most_growth(horizon: int, first_scale: float) -> float:
    """The fastest growth of the scales that the proof covers, ``first_scale^2 ln T``.

    Args:
        horizon: the number of rounds.
        first_scale: the scale of the barrier at first.
    """
    return first_scale**2 * math.log(horizon)


def barrier_factor(
    horizon: int, first_scale: float = 2.0, scale_growth: float = 1.0, optimism: float = 0.0
) -> float:
    """The factor ``a`` of ``sqrt(ln T) * sum sqrt(plays)`` in the bound.

    It is the least over all ways to divide a squared step between its two parts, with weights
    ``1 + theta`` and ``1 + 1/theta``.

    Args:
        horizon: the number of rounds.
        first_scale: the scale of the barrier at first.
        scale_growth: how fast scales grow; at most ``first_scale^2 ln T``.
        optimism: how many deviations are subtracted from an estimated loss.

    >>> round(barrier_factor(10**6), 2), round(barrier_factor(10**6, optimism=0.5), 2)
    (4.09, 12.45)
    """
    check_at_least("horizon", horizon, 4)
    check_above_zero("scale_growth", scale_growth)
    curvature, logarithm = barrier_curvature(first_scale, optimism), math.log(horizon)
    most = most_growth(horizon, first_scale)
    if scale_growth > most:
        raise InvalidParameter(
            f"scale_growth must be at most first_scale^2 ln T, {most:g}; got {scale_growth:g}."
        )
    root = math.sqrt(scale_growth)
    spread = math.log(8 * math.e * horizon) / math.sqrt(logarithm)
    stability = 4 * curvature / root
    bias = 2 * optimism * (1 + curvature * optimism / (2 * first_scale)) * spread
    # theta * stability + mixed / theta is least where both are equal.
    mixed = curvature * optimism**2 * spread / first_scale
    return root + stability + bias + 2 * math.sqrt(stability * mixed)


def barrier_any_rewards_regret(
    arms: int,
    horizon: int,
    first_scale: float = 2.0,
    scale_growth: float = 1.0,
    optimism: float = 0.0,
) -> float:
    """Bound the expected regret against a fixed arm, for any rewards.

    Args:
        arms: the number of arms.
        horizon: the number of rounds, at least twice the number of arms.
        first_scale: the scale of the barrier at first.
        scale_growth: how fast scales grow.
        optimism: how many deviations are subtracted from an estimated loss.

    >>> f"{barrier_any_rewards_regret(2, 10**6):.0f}"
    '15232'
    """
    check_arms(arms)
    check_at_least("horizon", horizon, 2 * arms)
    factor = barrier_factor(horizon, first_scale, scale_growth, optimism)
    logarithm, others = math.log(horizon), arms - 1
    return others * (first_scale * logarithm + 1) + factor * math.sqrt(others * horizon * logarithm)


def barrier_regret(
    gaps: Sequence[float],
    horizon: int,
    corruption: float = 0.0,
    first_scale: float = 2.0,
    scale_growth: float = 1.0,
    optimism: float = 0.0,
) -> float:
    """Bound the expected pseudo-regret.

    Args:
        gaps: the gap of each arm except the best; the bound without gaps applies if one is 0.
        horizon: the number of rounds, at least twice the number of arms.
        corruption: the expected corruption.
        first_scale: the scale of the barrier at first.
        scale_growth: how fast scales grow.
        optimism: how many deviations are subtracted from an estimated loss.

    >>> f"{barrier_regret([0.5], 10**6):.0f}", f"{barrier_regret([0.5], 10**6, 1000):.0f}"
    ('518', '3255')
    """
    check_gaps(gaps)
    check_at_least("corruption", corruption, 0)
    parameters = first_scale, scale_growth, optimism
    bound = 2 * corruption + barrier_any_rewards_regret(len(gaps) + 1, horizon, *parameters)
    if min(gaps) > 0:
        factor, logarithm = barrier_factor(horizon, *parameters), math.log(horizon)
        offset = 2 * corruption + len(gaps) * (first_scale * logarithm + 1)
        plays = factor * factor * sum(logarithm / gap for gap in gaps)
        # The largest X with X <= offset + sqrt(plays X).
        bound = min(bound, (math.sqrt(plays) + math.sqrt(plays + 4 * offset)) ** 2 / 4)
    return min(bound, max(gaps) * horizon)
