"""Totals at any time of a run of events, from the totals before it and its decisions."""

from __future__ import annotations

import numpy as np

from armrace.service.experiment import Experiment
from armrace.service.history import Mark
from armrace.service.rewards import RewardScale

__all__ = ["RunCounts"]


class RunCounts:
    """Counts of decisions and rewards in a run.

    Args:
        experiment: the experiment.
        before: its totals before the run.
        decisions: its open decisions as records: those from before the run, then those made in it.
        is_counted: for each of them whether it has a reward that counts.
        carried: how many were open before the run.
    """

    def __init__(
        self,
        experiment: Experiment,
        before: Mark,
        decisions: np.ndarray,
        is_counted: np.ndarray,
        carried: int,
    ) -> None:
        self.is_counted = is_counted
        self._totals = experiment.totals
        self._before = before
        self._carried = carried
        self._arms = np.ascontiguousarray(decisions["arm"])
        self._known = np.concatenate([[0], np.cumsum(decisions["known"])])
        self._is_withheld = decisions["rewarded"] & ~is_counted
        self._counted = np.where(is_counted, decisions["steps"], 0)
        self._missing = experiment.missing

    def rewards(self) -> np.ndarray:
        """Return what a learner is given for each decision once it is settled; NaN if nothing."""
        missing = np.nan if self._missing is None else RewardScale.learned(self._missing)
        return np.where(self.is_counted, RewardScale.learned(self._counted), missing)

    def close(self, settled: int) -> None:
        """Count the first decisions as closed."""
        self._totals.count_all_closed(
            self._arms[:settled],
            self.is_counted[:settled],
            self._is_withheld[:settled],
            self._counted[:settled],
        )

    def mark(self, time: int, there: int, closed: int) -> Mark:
        """Return a mark.

        Args:
            time: its time.
            there: how many decisions there are by then, those from before the run included.
            closed: how many of them are settled.
        """
        before, size, carried = self._before, len(self._before.decisions), self._carried
        decisions = np.bincount(self._arms[carried:there], minlength=size)
        arms, is_counted = self._arms[:closed], self.is_counted[:closed]
        taught = np.bincount(arms[is_counted], minlength=size)
        # Sums of whole numbers below 2^53 are exact.
        steps = np.bincount(arms, self._counted[:closed], minlength=size).astype(np.int64)
        if self._missing is not None:
            ended = np.bincount(arms, minlength=size)
            steps, taught = steps + self._missing * (ended - taught), ended
        return Mark(
            time,
            before.generation,
            before.rounds + int(self._known[there] - self._known[carried]),
            (decisions + before.decisions).tolist(),
            (taught + before.learned).tolist(),
            (steps + before.steps).tolist(),
            0,
            0.0,
        )
