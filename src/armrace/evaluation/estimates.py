"""Estimates of what a policy would have earned, out of the tallies of its runs over a log."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from armrace.formatting import figure
from armrace.kernels.replay import (
    ACCEPTED,
    DOUBLY,
    GAIN,
    PAID_SQUARE,
    REPLAYED,
    SQUARES,
    TERMS,
    TOTAL,
    WEIGHT,
    WEIGHT_SQUARE,
    WEIGHTED,
    Tally,
)
from armrace.statistics.bernstein import bernstein_interval
from armrace.statistics.proportions import Interval
from armrace.statistics.scales import Scale

__all__ = ["ESTIMATORS", "Estimate", "estimate_gain", "estimates_of"]

ESTIMATORS = {
    "replay": "rejection replay",
    "ips": "inverse propensity",
    "snips": "self-normalised",
    "dr": "doubly robust",
}
"""The estimators by their short names."""

_LEAST_ROWS = 100
_LEAST_REWARDS = 10
_RESAMPLES = 1000
Method = Literal["exact", "bootstrap"]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of a policy's mean reward a round."""

    estimator: str
    value: float | None
    """``None`` if no row bears on it."""
    low: float
    high: float
    """The ends of the interval, within the range of rewards."""
    method: Method
    """How the interval was made: ``exact`` holds for any number of rows, ``bootstrap`` for many."""
    rows: float
    """The effective number of rows: as many equally weighted rows are as informative."""
    rewards: float
    """The effective number of rewards that were paid."""
    warning: str = ""
    """Why nothing can be concluded, if so."""

    @property
    def is_enough(self) -> bool:
        """Whether there is enough data to conclude anything."""
        return not self.warning


def estimates_of(
    tallies: Sequence[Tally],
    scale: Scale,
    largest_weight: float,
    level: float,
    weighs: bool,
    generator: np.random.Generator,
) -> list[Estimate]:
    """Return all estimates of a policy from its runs over one log.

    Args:
        tallies: what was counted in each run.
        scale: the range of the log's rewards.
        largest_weight: an upper bound on all importance weights.
        level: the probability with which an interval may be wrong.
        weighs: whether the runs have weighed all rows.
        generator: what the bootstrap draws with.

    Returns:
        One estimate for each of :data:`ESTIMATORS`, or rejection replay alone.
    """
    # Averaged over runs, dependent as they are: Jensen's inequality allows it (docs/decisions/025).
    sums = np.mean([tally.sums for tally in tallies], axis=0)
    accepted = float(np.mean([tally.counts[ACCEPTED] for tally in tallies]))
    found = [
        _exact("replay", sums[REPLAYED], 1.0, 1.0, level, scale, accepted, sums[REPLAYED, TOTAL])
    ]
    if not weighs:
        return found
    moments = np.mean([tally.moments for tally in tallies], axis=0)
    rows = _effective(moments[WEIGHT], moments[WEIGHT_SQUARE])
    rewards = _effective(sums[WEIGHTED, TOTAL], moments[PAID_SQUARE])
    wide = largest_weight + 1.0  # an estimated mean, plus or minus a weighted difference
    # All runs have met the same rows, so that a block is drawn for all of them at once.
    blocks = np.sum([tally.blocks for tally in tallies], axis=0)
    return [
        *found,
        _exact("ips", sums[WEIGHTED], largest_weight, 1.0, level, scale, rows, rewards),
        _self_normalised(blocks, level, scale, rows, rewards, generator),
        _exact("dr", sums[DOUBLY], wide, wide, level, scale, rows, rewards),
    ]


def estimate_gain(
    tallies: Sequence[Tally], scale: Scale, largest_weight: float, level: float
) -> tuple[float, Interval]:
    """Return how much more than the logging system a policy earns a round, and its interval.

    Args:
        tallies: what was counted in each run.
        scale: the range of the log's rewards.
        largest_weight: an upper bound on all importance weights.
        level: the probability with which the interval may be wrong.
    """
    total, squares, terms = np.mean([tally.sums[GAIN] for tally in tallies], axis=0).tolist()
    # A term is a doubly robust one, of at most weight + 1, less a logged reward of at most 1.
    wide = largest_weight + 2.0
    low, high = bernstein_interval(total, squares, terms, wide, wide, level)
    ends = Interval(scale.difference(max(low, -1.0)), scale.difference(min(high, 1.0)))
    return scale.difference(total / terms), ends


def _effective(total: float, squares: float) -> float:
    """Return how many equal terms have this sum and this sum of squares."""
    return float(total**2 / squares) if squares > 0.0 else 0.0


def _exact(
    name: str,
    sums: npt.NDArray[np.float64],
    above: float,
    below: float,
    level: float,
    scale: Scale,
    rows: float,
    rewards: float,
) -> Estimate:
    total, squares, terms = (float(sums[at]) for at in (TOTAL, SQUARES, TERMS))
    ends = bernstein_interval(total, squares, terms, above, below, level)
    value = total / terms if terms else math.nan
    return _estimate(name, "exact", value, ends, scale, rows, float(rewards))


def _self_normalised(
    blocks: npt.NDArray[np.float64],
    level: float,
    scale: Scale,
    rows: float,
    rewards: float,
    generator: np.random.Generator,
) -> Estimate:
    """Return the ratio of weighted rewards to weights, with a bootstrap over blocks of rows."""
    weights, paid = blocks.sum(axis=0)
    if weights <= 0.0:
        nothing = Interval(-math.inf, math.inf)
        return _estimate("snips", "bootstrap", math.nan, nothing, scale, rows, rewards)
    count = len(blocks)
    drawn = generator.multinomial(count, np.full(count, 1.0 / count), size=_RESAMPLES)
    resampled = drawn @ blocks
    # A resample may consist of blocks without any weight.
    ratios = resampled[:, 1] / np.maximum(resampled[:, 0], np.finfo(np.float64).tiny)
    low, high = np.quantile(ratios, [level / 2, 1 - level / 2]).tolist()
    ends = Interval(low, high)
    return _estimate("snips", "bootstrap", float(paid / weights), ends, scale, rows, rewards)


def _estimate(
    name: str,
    method: Method,
    value: float,
    ends: Interval,
    scale: Scale,
    rows: float,
    rewards: float,
) -> Estimate:
    """Return an estimate with its interval within the range of rewards."""
    low, high = max(ends.low, 0.0), min(ends.high, 1.0)
    known = math.isfinite(value)
    return Estimate(
        estimator=name,
        value=scale.reward(value) if known else None,
        low=scale.reward(min(low, 1.0)),
        high=scale.reward(max(high, 0.0)),
        method=method,
        rows=float(rows),
        rewards=float(rewards),
        warning=_warning(rows, rewards),
    )


def _warning(rows: float, rewards: float) -> str:
    if rows < _LEAST_ROWS:
        return (
            f"not enough data: it rests on the equivalent of {figure(rows)} rows, and nothing can "
            f"be concluded from fewer than {_LEAST_ROWS}"
        )
    if rewards < _LEAST_REWARDS:
        return (
            f"not enough data: it rests on the equivalent of {figure(rewards)} rewards that were "
            f"paid, and nothing can be concluded from fewer than {_LEAST_REWARDS}"
        )
    return ""
