"""Sources that differ from the usual one, in the mean of their rewards or in their delays.

A hint where to look first, and no test: sources differ for honest reasons too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from armrace.dashboard.verdicts import median_bin

__all__ = ["Habits", "describe_differences"]

_LEAST_SOURCES, _LEAST_REWARDS = 3, 50
_LEAST_SHARE = 0.15
"""Of the range of rewards: the least difference of means that is mentioned."""
_ERRORS = 4.0
"""The least difference of means in standard errors, of which none is larger than range / (2 n)."""
_DOUBLINGS = 3
"""The least difference of delays: eight times as fast or as slow."""


class Habits(NamedTuple):
    """What is compared of a source."""

    rewards: int
    mean: float | None
    delays: Sequence[int]
    """Counts, each of delays twice as long as those before."""


def describe_differences(sources: Sequence[Habits], span: float) -> list[str]:
    """Say of each source in which way it differs from the median of all; empty if it does not.

    >>> usual = [Habits(100, 0.6, [0, 0, 0, 0, 9]), Habits(100, 0.7, [0, 0, 0, 1, 9])]
    >>> describe_differences([*usual, Habits(400, 0.2, [9, 0, 0, 0, 0])], span=1.0)
    ['', '', 'lower mean, faster']

    Args:
        sources: all of them.
        span: the width of the range of rewards.
    """
    means = [each.mean for each in sources if each.mean is not None]
    bins = [found for each in sources if (found := median_bin(each.delays)) is not None]
    if min(len(means), len(bins)) < _LEAST_SOURCES:
        return [""] * len(sources)
    usual, usual_bin = median(means), median(bins)
    return [", ".join(_differences(each, usual, usual_bin, span)) for each in sources]


def _differences(source: Habits, usual: float, usual_bin: float, span: float) -> list[str]:
    own_bin = median_bin(source.delays)
    if source.rewards < _LEAST_REWARDS or source.mean is None or own_bin is None:
        return []
    words, away = [], source.mean - usual
    if abs(away) > span * max(_LEAST_SHARE, _ERRORS / 2 / math.sqrt(source.rewards)):
        words.append("higher mean" if away > 0 else "lower mean")
    if abs(own_bin - usual_bin) >= _DOUBLINGS:
        words.append("slower" if own_bin > usual_bin else "faster")
    return words
