"""Applying many events of an experiment at once, with the same result as one by one.

Nearly all events of a log are decisions and rewards. What a decision teaches is known once its
window has closed, and where it is settled follows from times alone. So a run of such events is
turned into arrays, the learner's steps are put into their order, and compiled code takes them.
Marks of the course are counted from the arrays too. Only an audit needs the learner as it was, so
that runs end there.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

import numpy as np

from armrace.errors import DamagedFile, ForeignTicket
from armrace.kernels.event_log import DECISION
from armrace.kernels.generics import Ticket
from armrace.service.events import Contradicted, Decided, DecidedAhead, Event, Rewarded, Ticked
from armrace.service.experiment import Experiment
from armrace.service.history import Mark, mark_of
from armrace.service.open_decisions import OpenDecision, OpenDecisions
from armrace.service.rewards import RewardScale

__all__ = ["PLAIN", "Numbered", "apply_many", "uncollected"]

_LEAST = 1000
"""A shorter run is applied one by one: compiled code would not pay."""
_NOWHERE = (-1, 0, 0, 0, 0.0, 0, 0.0, 0, 0.0)
"""The record of a decision of which the learner does not know."""

PLAIN = frozenset((Decided, DecidedAhead, Rewarded, Ticked, Contradicted))
"""The events that nearly all of a log consists of; the others change arms, phases or rulings."""

Numbered = tuple[int, Event]


@contextmanager
def uncollected() -> Iterator[None]:
    """Do not look for cyclic garbage, of which many records and events have none.

    To look takes a third of the time in which they are read and applied.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def apply_many(experiment: Experiment, events: Sequence[Numbered]) -> None:
    """Apply events of an experiment in order, each with its sequence number."""
    for plain, found in groupby(events, _is_plain):
        run = list(found)
        if not plain:
            _one_by_one(experiment, run)
            continue
        while run:
            experiment.advance(run[0][1].time)
            taken = _until_an_interruption(experiment, run)
            part, run = run[:taken], run[taken:]
            # The open decisions are turned into arrays too, which many short runs would repeat.
            if len(part) < max(_LEAST, len(experiment.open) // 4):
                _one_by_one(experiment, part)
            else:
                _Run(experiment, part).apply()


def _is_plain(numbered: Numbered) -> bool:
    return type(numbered[1]) in PLAIN


def _one_by_one(experiment: Experiment, events: Sequence[Numbered]) -> None:
    for sequence, event in events:
        experiment.apply(sequence, event)


def _until_an_interruption(experiment: Experiment, run: Sequence[Numbered]) -> int:
    """Return how many events there are before a mark is audited or a new generation starts."""
    generation, history = experiment.generation, experiment.history
    made = generation.learner.decisions
    over = generation.horizon if experiment.settings.horizon is None else math.inf
    audited = history.audited_from(generation.number)
    due = history.due if made >= audited else math.inf
    for place, (_, event) in enumerate(run):
        if event.time >= due:
            return place
        if isinstance(event, Decided) and event.ticket is not None:
            made += 1
            if made >= over:
                return place + 1
            if made >= audited and due == math.inf:
                due = max(history.due, history.due_after(event.time))
    return len(run)


class _Run:
    """A run of decisions, rewards, conflicts and ticks."""

    def __init__(self, experiment: Experiment, events: Sequence[Numbered]) -> None:
        self._experiment = experiment
        self._events = events
        self._decisions: list[OpenDecision] = list(experiment.open)
        self._carried = len(self._decisions)
        """So many decisions were open before the run; they come first."""
        self._made_at: list[int] = []
        """The place in the run of each new decision."""
        self._rewarded_at: dict[int, int] = {}
        """The place in the run of the reward of a decision, by the place of the decision."""
        self._counted: list[int | None] = []
        """The reward of each decision that counts, on the grid."""
        self._before = mark_of(experiment, 0)

    def apply(self) -> None:
        """Apply all events."""
        self._collect()
        times = np.array([event.time for _, event in self._events], dtype=np.int64)
        made = np.array([decision.time for decision in self._decisions], dtype=np.int64)
        settled_at = np.searchsorted(times, made + self._experiment.window, side="left")
        self._counted = [decision.counted_steps for decision in self._decisions]
        for place, at in self._rewarded_at.items():
            if settled_at[place] <= at:
                raise _not_open(self._decisions[place].sequence)
        settled = int(np.searchsorted(settled_at, len(self._events), side="left"))
        counts = _Counts(self._experiment, self._decisions, self._counted, self._before)
        self._note_course(times, made, counts)
        self._learn(settled_at, counts)
        counts.close(settled)
        self._settle(settled)
        self._experiment.start_afresh_if_over()

    def _collect(self) -> None:
        """Make an open decision of every decision, and give each its reward."""
        experiment, decisions = self._experiment, self._decisions
        number, rulings = experiment.generation.number, experiment.rulings
        arms: list[int] = []
        rewarded: list[tuple[OpenDecision, int]] = []
        shares: list[bytes] = []
        places = {decision.sequence: place for place, decision in enumerate(decisions)}
        for at, (sequence, event) in enumerate(self._events):
            if isinstance(event, Decided):
                places[sequence] = len(decisions)
                self._made_at.append(at)
                arms.append(event.arm)
                shares.append(event.shares)
                decisions.append(
                    OpenDecision(
                        sequence,
                        event.time,
                        event.arm,
                        event.probability,
                        number,
                        -1,
                        event.ticket,
                        event.unit,
                        event.request,
                        ruling=rulings.get(sequence),
                    )
                )
                if event.ticket is not None:
                    experiment.generation.note_taken(event.taken)
            elif isinstance(event, Rewarded):
                place = places.get(event.decision, -1)
                if place < 0 or decisions[place].steps is not None:
                    raise _not_open(event.decision)
                decision = decisions[place]
                decision.steps, decision.source = event.steps, event.source
                decision.suspicious = experiment.is_suspicious(event.suspicion)
                rewarded.append((decision, event.time))
                self._rewarded_at[place] = at
            elif isinstance(event, Contradicted):
                experiment.conflicts += 1
        experiment.decisions += len(self._made_at)
        experiment.totals.count_decisions(arms, shares)
        experiment.sources.count_many(rewarded)

    def _note_course(self, times: np.ndarray, made: np.ndarray, counts: _Counts) -> None:
        """Make the marks that are due within the run; none of them is audited."""
        history = self._experiment.history
        made_at = np.array(self._made_at, dtype=np.int64)
        while (at := int(np.searchsorted(times, history.due, side="left"))) < times.size:
            there = self._carried + int(np.searchsorted(made_at, at, side="left"))

            def mark_at(time: int, there: int = there) -> Mark:
                closed = np.searchsorted(made, time - self._experiment.window, side="right")
                return counts.mark(time, self._carried, there, min(int(closed), there))

            history.catch_up(int(times[at]), mark_at, _refuse_audit)

    def _learn(self, settled_at: np.ndarray, counts: _Counts) -> None:
        """Let the learner take its steps in the order of the log."""
        experiment, decisions = self._experiment, self._decisions
        generation = experiment.generation
        known = [d.ticket is not None and d.generation == generation.number for d in decisions]
        records = np.array(
            [
                (d.number, 0, *d.ticket) if knows and d.ticket is not None else _NOWHERE
                for d, knows in zip(decisions, known, strict=True)
            ],
            dtype=DECISION,
        )
        rewards = counts.rewards()
        learned_at = settled_at.copy()
        learns = np.array(known)
        if experiment.is_immediate:
            learns &= ~np.array([decision.learned for decision in decisions])
            for place, at in self._rewarded_at.items():
                if self._counted[place] is not None and not decisions[place].learned:
                    decisions[place].learned = True
                    learned_at[place] = at
        learns &= learned_at < len(self._events)
        new = np.arange(self._carried, len(decisions))
        new, made_at = new[known[self._carried :]], np.array(self._made_at, dtype=np.int64)
        old = np.flatnonzero(learns)
        # An event first settles what is due, in the order of decisions, and is applied then; a
        # reward that is learned at once comes after what its event settles.
        settles = learned_at[old] == settled_at[old]
        keys = np.concatenate(
            [2 * learned_at[old] + ~settles, 2 * made_at[new - self._carried] + 1]
        )
        order = np.argsort(keys, kind="stable")
        sequence = np.ascontiguousarray(np.concatenate([-1 - old, new])[order])
        try:
            generation.learner.replay_many(records, sequence, rewards)
        except ForeignTicket as error:
            raise DamagedFile(f"the log holds a decision that was never made: {error}") from error
        still = new[settled_at[new] >= len(self._events)]
        for place, record in zip(still.tolist(), records[still].tolist(), strict=True):
            decisions[place].number, decisions[place].ticket = record[0], Ticket(*record[2:])

    def _settle(self, settled: int) -> None:
        """Keep the decisions that are not settled, which are the last ones."""
        experiment = self._experiment
        if settled:
            experiment.settled_through = self._decisions[settled - 1].sequence
        experiment.open = OpenDecisions(self._decisions[settled:])


class _Counts:
    """Totals at any time of a run, from the totals before it and its decisions."""

    def __init__(
        self,
        experiment: Experiment,
        decisions: Sequence[OpenDecision],
        counted: Sequence[int | None],
        before: Mark,
    ) -> None:
        self._totals = experiment.totals
        self._before = before
        self._arms = np.array([each.arm for each in decisions], dtype=np.int64)
        number = experiment.generation.number
        new = [each.ticket is not None and each.generation == number for each in decisions]
        self._known = np.concatenate([[0], np.cumsum(new)])
        self._is_counted = np.array([each is not None for each in counted])
        self._is_withheld = ~self._is_counted & np.array(
            [each.steps is not None for each in decisions]
        )
        self._counted = np.array([each or 0 for each in counted], dtype=np.int64)
        self._missing = experiment.missing

    def rewards(self) -> np.ndarray:
        """Return what a learner is given for each decision once it is settled; NaN if nothing."""
        missing = np.nan if self._missing is None else RewardScale.learned(self._missing)
        return np.where(self._is_counted, RewardScale.learned(self._counted), missing)

    def close(self, settled: int) -> None:
        """Count the first decisions as closed."""
        self._totals.count_all_closed(
            self._arms[:settled],
            self._is_counted[:settled],
            self._is_withheld[:settled],
            self._counted[:settled],
        )

    def mark(self, time: int, carried: int, there: int, closed: int) -> Mark:
        """Return a mark.

        Args:
            time: its time.
            carried: how many decisions were open before the run.
            there: how many decisions there are by then, those included.
            closed: how many of them are settled.
        """
        before, size = self._before, len(self._before.decisions)
        decisions = np.bincount(self._arms[carried:there], minlength=size)
        arms, is_counted = self._arms[:closed], self._is_counted[:closed]
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


def _refuse_audit(mark: Mark) -> None:
    raise AssertionError("a run must end before a mark that is audited")


def _not_open(decision: int) -> DamagedFile:
    return DamagedFile(f"the log rewards decision {decision}, which is not open.")
