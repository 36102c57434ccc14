"""Bounds for contexts: a barrier leader in each leaf, and one over experts.

The theory page proves both, with the constants of ``optimistic-log-barrier``: ``first_scale`` is
``g``, ``scale_growth`` is ``beta`` and ``optimism`` is ``k``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from armrace.errors import InvalidParameter
from armrace.theory.barriers import barrier_curvature
from armrace.theory.plays import check_at_least, check_gaps, check_horizon

_DIVISIONS = np.geomspace(1e-4, 1e2, 2000)
"""Values of ``theta``, by which squared steps are divided; any one gives a valid bound."""


class Constants(NamedTuple):
    """What the bounds of both theorems are made of, for one ``theta``."""

    plays: float
    """``a_1``, the factor of the roots of plays."""
    best: float
    """``a_2``, that of the best choice."""
    offset: float
    """``G``."""


def constants(
    choices: int, horizon: int, first_scale: float, scale_growth: float, optimism: float,
    theta: float, of_experts: bool,
) -> Constants:  # fmt: skip
    """Return the constants of the leaf theorem, or of the expert theorem, for one ``theta``."""
    curvature, logarithm = barrier_curvature(first_scale, optimism), math.log(horizon)
    others = choices - 1
    # The first round of experts may be rare, which costs a little more in barrier lemma 3.
    spread = 1 + (3 * logarithm + math.log(4 / (1 if of_experts else others))) / 4
    squares = optimism**2 * ((spread + of_experts) / 4 + 1 / horizon)
    second = 2 * (1 + theta) * curvature / math.sqrt(scale_growth)
    offset = others * (first_scale * logarithm + 1 + (2.5 if of_experts else 2) * optimism)
    if optimism:
        offset += (1 + 1 / theta) * curvature * choices * squares / first_scale
    first = math.sqrt(scale_growth) + second + optimism * math.sqrt(spread / logarithm)
    return Constants(first, second, offset)


def leaf_regret(
    gaps: Sequence[Sequence[float]],
    horizon: int,
    corruption: float = 0.0,
    first_scale: float = 2.0,
    scale_growth: float = 0.25,
    optimism: float = 0.5,
) -> float:
    """Bound the expected regret of ``leaf-barrier`` against the best arm of each visited leaf.

    The corruption counts once, however it is spread over leaves; leaves may be forged.

    Args:
        gaps: for each visited leaf, the gap of every arm except its best, all above 0.
        horizon: the number of rounds, of all leaves together.
        corruption: the expected corruption.

    >>> round(leaf_regret([[0.2]], 100_000)), round(leaf_regret([[0.2]] * 4, 100_000))
    (4149, 16595)
    """
    check_at_least("corruption", corruption, 0)
    if not gaps:
        raise InvalidParameter("gaps must have a row for each visited leaf; got none.")
    for row in gaps:
        check_gaps(row)
        if min(row) <= 0:
            raise InvalidParameter("each gap must be above 0; leave out what ties with the best.")
    arms = len(gaps[0]) + 1
    check_horizon(horizon)
    largest = sum(max(row) for row in gaps) and max(max(row) for row in gaps) * horizon
    logarithm = math.log(horizon)
    # For each leaf, Z and z of the theorem.
    sums = [math.sqrt(logarithm * sum(1 / gap for gap in row)) for row in gaps]
    tops = [math.sqrt(logarithm / min(row)) for row in gaps]

    def bound(theta: float) -> float:
        made = constants(arms, horizon, first_scale, scale_growth, optimism, theta, False)
        squares = sum(
            (made.plays * of_all + made.best * of_one) ** 2
            for of_all, of_one in zip(sums, tops, strict=True)
        )
        rest = 2 * corruption + len(gaps) * made.offset
        return (math.sqrt(squares) + math.sqrt(squares + 4 * rest)) ** 2 / 4

    return min(largest, *map(bound, _DIVISIONS))


def expert_regret(
    experts: int,
    horizon: int,
    first_scale: float = 2.0,
    scale_growth: float = 0.25,
    optimism: float = 0.5,
) -> float:
    """Bound the expected regret of ``expert-barrier`` against every single expert.

    For whatever contexts, rewards and experts, forged or learning.

    Args:
        experts: how many experts there are.

    >>> round(expert_regret(9, 100_000)), round(expert_regret(9, 10_000_000))
    (16531, 190106)
    """
    check_at_least("experts", experts, 2)
    check_horizon(horizon)

    def bound(theta: float) -> float:
        made = constants(experts, horizon, first_scale, scale_growth, optimism, theta, True)
        root = math.sqrt(horizon * math.log(horizon))
        return made.offset + (made.plays * math.sqrt(experts - 1) + made.best / 2) * root

    return min(float(horizon), *map(bound, _DIVISIONS))
