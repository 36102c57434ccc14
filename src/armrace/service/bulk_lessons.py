"""What a learner does in a run of events, in the order of the log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from armrace.errors import DamagedFile, ForeignTicket
from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import Ticket
from armrace.service.experiment import Experiment
from armrace.service.open_decisions import OpenDecision

__all__ = ["Lessons"]

_NOWHERE = (-1, 0, *Ticket(0))
"""The record of a decision that the learner does not know."""


class Lessons:
    """The steps of the learner: it counts decisions, and learns their rewards.

    Args:
        experiment: whose learner it is.
        carried: the decisions that were open before the run.
        new: the tickets of the decisions that are made in it.
    """

    def __init__(
        self, experiment: Experiment, carried: Sequence[OpenDecision], new: np.ndarray
    ) -> None:
        self._learner = experiment.generation.learner
        number = experiment.generation.number
        old = [
            (each.number, 0, *each.ticket)
            if each.ticket is not None and each.generation == number
            else _NOWHERE
            for each in carried
        ]
        self.records = np.concatenate([np.array(old, dtype=DECISION), new])
        """All decisions; the learner completes the tickets of the new ones."""
        experiment.generation.add_inner_arms(self.records[len(old) :])
        self._keys = self._steps = np.empty(0, dtype=np.int64)
        self._rewards = np.empty(0)
        self._done = 0

    def plan(
        self,
        learned: np.ndarray,
        learned_at: np.ndarray,
        settled_at: np.ndarray,
        made_at: np.ndarray,
        made: np.ndarray,
        rewards: np.ndarray,
    ) -> None:
        """Put the steps into their order.

        Args:
            learned: the places of the decisions that are learned in the run.
            learned_at: for each decision the event at which it is learned.
            settled_at: for each decision the event at which it is settled.
            made_at: the events at which decisions are made that the learner counts.
            made: the places of these decisions.
            rewards: for each decision what the learner is given; NaN if it is dropped.
        """
        # An event first settles what is due, in the order of decisions, and is applied then; a
        # reward that is learned at once comes after what its event settles.
        at_once = learned_at[learned] != settled_at[learned]
        keys = np.concatenate([2 * learned_at[learned] + at_once, 2 * made_at + 1])
        # Stable, because decisions that one event settles are learned in their own order.
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self._steps = np.concatenate([-1 - learned, made])[order]
        self._rewards = rewards

    def go_on_until(self, event: int, closed: int) -> None:
        """Take the steps before an event, and of those that it settles some.

        Args:
            event: the place of the event in the run.
            closed: how many decisions are settled by then.
        """
        first, end = np.searchsorted(self._keys, [2 * event, 2 * event + 1])
        settles = -1 - self._steps[first:end]
        self._take(int(first + np.searchsorted(settles, closed)))

    def finish(self) -> None:
        """Take all steps that are left."""
        self._take(self._steps.size)

    def _take(self, end: int) -> None:
        if end <= self._done:
            return
        steps = np.ascontiguousarray(self._steps[self._done : end])
        try:
            self._learner.replay_many(self.records, steps, self._rewards)
        except ForeignTicket as error:
            raise DamagedFile(f"the log holds a decision that was never made: {error}") from error
        self._done = end
