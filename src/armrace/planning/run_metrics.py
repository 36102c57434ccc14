"""Metrics of a run for plans: whether it ended on a good arm, and when it had decided.

The ledger is read at checkpoints, eight a decade. Those beyond three quarters of the horizon are
left out, so that the *last part* of a run, from the last of the others to the end, is at least a
quarter of it and at most 44%.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from armrace.simulation.experiment import checkpoints_for
from armrace.simulation.results import Result
from armrace.statistics import summarise

__all__ = ["NEARLY_ALL", "REQUIRED", "decision_rounds", "ends_right", "read_run", "reading_points"]

REQUIRED = 0.95
"""The share of runs that must end right, and the quantile of the time to a decision."""

NEARLY_ALL = 0.9
"""A policy has decided once an arm gets this share of its plays until the end."""

_LAST_PART_BEGINS = 0.75

Pulls = npt.NDArray[np.int64]
"""Plays so far: replications x checkpoints x arms."""


def reading_points(horizon: int) -> npt.NDArray[np.int64]:
    """The checkpoints up to three quarters of the horizon, and the horizon.

    >>> reading_points(20)
    array([ 1,  2,  3,  4,  6,  7, 10, 13, 20])
    """
    points = checkpoints_for(horizon)
    return np.append(points[points <= _LAST_PART_BEGINS * horizon], horizon)


def ends_right(pulls: Pulls, good: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Whether more than half of the plays of the last part went to arms that are good enough.

    >>> pulls = np.array([[[0, 4], [1, 9]], [[0, 4], [6, 4]]])
    >>> ends_right(pulls, np.array([False, True])).tolist()
    [True, False]
    """
    last = pulls[:, -1] - pulls[:, -2]
    return np.asarray(2 * last[:, good].sum(axis=1) > last.sum(axis=1))


def decision_rounds(
    pulls: Pulls, points: npt.NDArray[np.int64], good: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return the round after which nearly all plays between any two checkpoints went to one arm.

    The arm is the most played one of the last part. If it is good enough, all arms that are good
    enough count together, since the choice among them does not matter. A run without a decision
    has infinity.

    Args:
        pulls: plays so far: replications x checkpoints x arms.
        points: the rounds of the checkpoints.
        good: whether each arm is good enough.

    >>> pulls = np.array([[[5, 5], [6, 14], [7, 33]], [[5, 5], [10, 10], [20, 20]]])
    >>> decision_rounds(pulls, np.array([10, 20, 40]), np.array([False, True])).tolist()
    [10.0, inf]
    """
    plays = np.diff(pulls, axis=1, prepend=0)
    starts = np.append(0, points[:-1])
    found = np.full(pulls.shape[0], math.inf)
    for run, each in enumerate(plays):
        favourite = int(np.argmax(each[-1]))
        chosen = good if good[favourite] else np.arange(good.size) == favourite
        settled = each[:, chosen].sum(axis=1) >= NEARLY_ALL * (points - starts)
        if settled[-1]:
            unsettled = np.flatnonzero(~settled)
            found[run] = starts[unsettled[-1] + 1 if unsettled.size else 0]
    return found


def read_run(result: Result, good: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the metrics of one experiment: runs that ended right, regret, time to a decision."""
    points = reading_points(result.horizon)
    rows = result.rows["pulls"].to_numpy().reshape(result.replications, -1, good.size)
    pulls = rows[:, np.isin(checkpoints_for(result.horizon), points)]
    sample = result.sample("pseudo_regret")
    regret = summarise(sample)
    right = ends_right(pulls, good)
    rounds = decision_rounds(pulls, points, good)
    return {
        "attack": str(result.spec["adversary"]["name"]),
        "budget": float(result.spec["budget"]),
        "runs": result.replications,
        "right": int(right.sum()),
        "regret": regret.mean,
        "regret_p95": regret.p95,
        "regret_max": regret.max,
        "decision": _or_none(np.quantile(rounds, 0.5, method="inverted_cdf")),
        "decision_p95": _or_none(np.quantile(rounds, REQUIRED, method="inverted_cdf")),
        "corruption": result.figure("corruption").mean,
        "regrets": sample.tolist(),
    }


def _or_none(rounds: float) -> float | None:
    """None for infinity: too many runs have not decided."""
    return float(rounds) if math.isfinite(rounds) else None
