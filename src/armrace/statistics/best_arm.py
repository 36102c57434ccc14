"""Which arm is the best, and how many forged visits that withstands.

Each arm has an interval that holds for all numbers of its own rewards at once, so that it does not
matter who chose the arms, by what, and when somebody looked. If at most ``C`` visits were forged,
the sum of an arm's rewards is within ``C`` of that of the honest ones: a visit that nobody honest
made stands for one that would have earned what the arm pays. Both ends of an interval grow with the
sum, so that the arm is the best if its interval for the sum less ``C`` lies above those of all
others for their sums and ``C``. The intervals share the level, and so does whatever they say of
any ``C`` at any time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from armrace.statistics.bounded_means import interval_for_all_times, means_for_all_times

_LATER = 0.05
"""The part of the level that is kept for arms that are added later."""


class Evidence(NamedTuple):
    """What is known of the rewards of one arm, in [0, 1]."""

    low: float
    high: float
    """What they sum to, at least and at most: some may be in doubt."""
    rewards: int
    """How many there are."""


class BestArm(NamedTuple):
    """An arm that is the best as long as no more than this many visits were forged."""

    place: int
    forged: int


def level_of(place: int, declared: int, level: float) -> float:
    """Return the part of a level that belongs to an arm, by its place among all that ever come.

    The first ``declared`` arms share nearly all of it, and those that are added later the rest.

    >>> [round(level_of(place, 2, 0.1), 6) for place in range(4)]
    [0.0475, 0.0475, 0.0025, 0.000833]
    """
    if place < declared:
        return (1.0 - _LATER) * level / declared
    later = place - declared + 1
    return _LATER * level / (later * (later + 1))


def best_arm(arms: Sequence[Evidence], levels: Sequence[float]) -> BestArm | None:
    """Return the arm that is the best, except with a probability of the sum of the levels.

    ``None`` if that cannot be said of any arm, even if no visit was forged.

    >>> best_arm([Evidence(90, 90, 100), Evidence(20, 20, 100)], [0.025, 0.025])
    BestArm(place=0, forged=17)
    """
    if len(arms) < 2 or not all(each.rewards for each in arms):
        return None  # an arm without rewards may pay anything
    leader = max(range(len(arms)), key=lambda place: arms[place].low / arms[place].rewards)
    rivals = [place for place in range(len(arms)) if place != leader]

    def is_best(forged: int) -> bool:
        own = arms[leader]
        if own.low <= forged:
            return False
        least = interval_for_all_times(own.low - forged, own.rewards, levels[leader]).low
        return all(_is_below(arms[each], levels[each], forged, least) for each in rivals)

    if not is_best(0):
        return None
    inside, outside = 0, 1
    while is_best(outside):
        inside, outside = outside, 2 * outside
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if is_best(middle) else (inside, middle)
    return BestArm(leader, inside)


def _is_below(arm: Evidence, level: float, forged: int, mean: float) -> bool:
    """Whether the interval of an arm lies below a mean if so many of its visits were forged."""
    total = arm.high + forged
    if total >= arm.rewards * mean:
        return False
    return not means_for_all_times(total, arm.rewards, level)(mean)
