"""What a log itself says against the assumptions that its replay rests on."""

from __future__ import annotations

import numpy as np

from armrace.formatting import count, figure, percent
from armrace.logs import Log
from armrace.logs.survey import UNLIKELY
from armrace.statistics.chi_square import chi_square_tail

__all__ = ["doubts_of"]

_FACTOR = 1.4
_NAMED = 3


def doubts_of(log: Log, floor: float) -> list[str]:
    """Return a sentence for each doubt about the propensities of a log."""
    found = []
    arms = len(log.arms)
    if not log.has_propensities:
        chance = _chance_if_uniform(log)
        if chance < UNLIKELY:
            fewest, most = int(log.pulls.min()), int(log.pulls.max())
            found.append(
                "No propensities are given, so every arm is taken to have been shown with the same "
                f"probability; but arms have from {count(fewest)} to {count(most)} rows, which "
                f"would happen with a probability of {figure(chance)}. The estimates are then "
                "wrong; give --propensity COLUMN."
            )
        return found
    inverse = log.mean_inverse_propensity
    if not arms / _FACTOR <= inverse <= arms * _FACTOR:
        found.append(
            f"The mean of 1 / propensity is {figure(inverse)}; with {arms} arms that can always be "
            f"shown it would be near {arms}. Some arms could not be shown at times, the "
            "propensities are not those of the arms shown, or a few rows with tiny ones dominate."
        )
    else:
        found += _doubted_arms(log)
    if floor > log.least_propensity:
        found.append(
            f"Propensities below {figure(floor)} are raised to it; the smallest is "
            f"{figure(log.least_propensity)}. This trades bias for variance: arms are "
            "underestimated where they were shown with a smaller propensity."
        )
    elif floor * log.rows < 1.0:
        found.append(
            f"The smallest propensity is {figure(floor)}, so that rejection replay accepts "
            f"{percent(floor)} of the rows, which is none of them; a --floor accepts more, with a "
            "bias against arms of smaller propensities."
        )
    return found


def _doubted_arms(log: Log) -> list[str]:
    """Name the arms that have too few rows for their propensities."""
    doubted = np.flatnonzero((log.chances < UNLIKELY) & (log.announced < 1.0 / _FACTOR))
    worst = sorted(doubted, key=lambda arm: log.announced[arm])
    listed = [f"{log.arms[arm]} could be shown in {percent(log.announced[arm])}" for arm in worst]
    if not listed:
        return []
    more = f" and {count(len(listed) - _NAMED)} more" if len(listed) > _NAMED else ""
    return [
        f"Arms have fewer rows than their propensities announce: {', '.join(listed[:_NAMED])} of "
        f"the rows{more}. They could not be shown at times, or their propensities are too large; "
        "the estimates of what policies earn by them are then wrong."
    ]


def _chance_if_uniform(log: Log) -> float:
    """Return the probability that uniform choices differ at least so much."""
    expected = log.rows / len(log.arms)
    # With fewer rows an arm the statistic does not yet have the chi-square law.
    if expected < 5.0:
        return 1.0
    statistic = float(((log.pulls - expected) ** 2 / expected).sum())
    return chi_square_tail(statistic, len(log.arms) - 1)
