"""The visitors of a log as an environment."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from armrace.environments import Visitors
from armrace.errors import InvalidParameter
from armrace.kernels.replay import usual_reward
from armrace.offline.log import Log, LogRows

Floats = npt.NDArray[np.float64]

_MOST_ROWS, _KINDS = 500_000, 4096


class VisitorsOfLog(NamedTuple):
    """An environment made of a log, and how much of what tells its visitors apart is real."""

    environment: Visitors
    kept: float
    """The share of the fitted differences between visitors that other rows confirm."""


def visitors_of(log: Log, kinds: int = _KINDS) -> VisitorsOfLog:
    """Make an environment of the visitors of a log.

    Every n-th row is a kind of visitor, with its vector and leaf. The mean reward of an arm for it
    is the arm's mean and what a ridge regression on vector and leaf adds. A regression also fits
    chance, so what it adds is scaled: by the slope, within [0, 1], of the rewards of every second
    row on what is fitted to the other rows, less a standard error.

    Args:
        log: a log with a schema.
        kinds: how many kinds of visitors there may be.
    """
    if log.schema is None:
        raise InvalidParameter("the log has no features; give it a schema.")
    rows = log.sample(_MOST_ROWS)
    explained = noise = rest = 0.0
    for part in (0, 1):
        for arm, others in _fitted(log, _every_second(rows, part)):
            judged = _every_second(rows, 1 - part, rows.arms == arm)
            added = _columns(log, judged) @ others.slopes
            left = judged.rewards - others.mean
            explained += float(added @ left)
            noise += float(added @ added)
            rest += float(left @ left)
    error = math.sqrt(noise * rest / rows.arms.size)
    kept = min(max((explained - error) / noise, 0.0), 1.0) if noise > 0.0 else 0.0
    shown = log.sample(kinds)
    columns, means = _columns(log, shown), np.empty((shown.arms.size, len(log.arms)))
    for arm, fitted in _fitted(log, rows):
        means[:, arm] = fitted.mean + kept * (columns @ fitted.slopes)
    vectors = log.schema.vectors(shown.codes)
    return VisitorsOfLog(
        Visitors(vectors=vectors, means=means.clip(0.0, 1.0), leaves=shown.leaves), kept
    )


class _Fitted(NamedTuple):
    mean: float
    slopes: Floats


def _every_second(rows: LogRows, part: int, also: npt.NDArray[np.bool_] | bool = True) -> LogRows:
    chosen = (np.arange(rows.arms.size) % 2 == part) & also
    return _chosen(rows, chosen)


def _chosen(rows: LogRows, chosen: npt.NDArray[np.bool_]) -> LogRows:
    return LogRows._make(column[chosen] if column.size else column for column in rows)


def _columns(log: Log, rows: LogRows) -> Floats:
    """The vector of each row, and which leaf it is in."""
    schema = log.schema
    assert schema is not None
    leaves = np.eye(schema.shape.leaves)[rows.leaves]
    return np.hstack([schema.vectors(rows.codes), leaves])


def _fitted(log: Log, rows: LogRows) -> Iterator[tuple[int, _Fitted]]:
    """Fit each arm: its mean, and a ridge regression of the rest."""
    usual = usual_reward(float(rows.rewards.sum()), rows.arms.size)
    for arm in range(len(log.arms)):
        own = _chosen(rows, rows.arms == arm)
        mean = (float(own.rewards.sum()) + usual) / (own.arms.size + 1.0)
        columns = _columns(log, own)
        matrix = columns.T @ columns + np.eye(columns.shape[1])
        slopes = np.linalg.solve(matrix, columns.T @ (own.rewards - mean))
        yield arm, _Fitted(mean, np.asarray(slopes, dtype=np.float64))
