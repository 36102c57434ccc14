"""Applying many events of an experiment at once, with the same result as one by one.

Nearly all events of a log are decisions and rewards. What a decision teaches is known once its
window has closed, and where it is settled follows from times alone. So a run of such events is
kept in arrays, the learner's steps are put into their order, and compiled code takes them up to
each audit of the course. Only decisions that are open at the end become objects.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from armrace.errors import DamagedFile
from armrace.kernels.generics import Ticket
from armrace.kernels.packed_events import CONTRADICTED, DECIDED, REWARDED, UNREAD
from armrace.service.bulk_counts import RunCounts
from armrace.service.bulk_lessons import Lessons
from armrace.service.columns import Columns
from armrace.service.events import Decided
from armrace.service.experiment import Experiment
from armrace.service.history import Mark, mark_of
from armrace.service.open_decisions import OpenDecision, OpenDecisions
from armrace.service.sources import DAY, DELAY_BINS, Standing

__all__ = ["apply_many", "is_long"]

_LEAST = 1000
"""A shorter run is applied one by one: compiled code would not pay."""

_OPEN = np.dtype(
    [
        ("sequence", np.int64),
        ("time", np.int64),
        ("arm", np.int64),
        ("known", np.bool_),  # whether the present learner has made it
        ("rewarded", np.bool_),
        ("steps", np.int64),
        ("suspicious", np.bool_),
        ("ruling", np.int8),  # -1 if there is none
        ("learned", np.bool_),
    ]
)
"""A decision that is open in a run, as a record."""

_NO_RULING = -1
_STANDINGS: tuple[Standing, ...] = ("counted", "quarantined", "retracted")


def is_long(events: int) -> bool:
    """Return whether ``events`` events are enough to convert to columns."""
    return events >= _LEAST


def apply_many(experiment: Experiment, events: Columns) -> None:
    """Apply events of an experiment in order."""
    plain = events.events["kind"] != UNREAD
    changes = np.flatnonzero(plain[1:] != plain[:-1]) + 1
    for begin, end in pairwise([0, *changes.tolist(), events.size]):
        run = events.select(slice(begin, end))
        while run.size:
            taken = _until_a_fresh_start(experiment, run) if plain[begin] else run.size
            part, run = run.select(slice(taken)), run.select(slice(taken, None))
            if plain[begin] and _pays(experiment, part.size):
                _Run(experiment, part).apply()
            else:
                _one_by_one(experiment, part)


def _pays(experiment: Experiment, events: int) -> bool:
    """Return whether a run of this length is faster applied in bulk."""
    # The open decisions are turned into arrays too, which many short runs would repeat.
    return events >= max(_LEAST, len(experiment.open) // 4)


def _one_by_one(experiment: Experiment, events: Columns) -> None:
    found = events.decode(np.arange(events.size))
    for sequence, event in zip(events.sequences.tolist(), found, strict=True):
        experiment.apply(sequence, event)


def _until_a_fresh_start(experiment: Experiment, run: Columns) -> int:
    """Return how many events there are until a new generation starts."""
    generation = experiment.generation
    if not experiment.may_start_afresh:
        return run.size
    left = max(1, generation.horizon - generation.learner.decisions)
    made = np.flatnonzero(run.events["has_ticket"])
    return int(made[left - 1]) + 1 if left <= made.size else run.size


class _Run:
    """A run of decisions, rewards, conflicts and ticks."""

    def __init__(self, experiment: Experiment, run: Columns) -> None:
        self._experiment = experiment
        self._run = run
        self._events = run.events
        self._times = np.ascontiguousarray(run.events["time"])
        self._carried = list(experiment.open)
        """The decisions that were open before the run; they come first."""
        self._made_at = np.flatnonzero(self._events["kind"] == DECIDED)
        """The place in the run of each new decision."""
        self._rewarded_at = np.flatnonzero(self._events["kind"] == REWARDED)
        """The place in the run of each reward."""
        self._open = np.concatenate([self._columns_of_carried(), self._columns_of_new()])
        # Times never decrease along a log: a decision is settled by the first event at which its
        # window has closed.
        self._settled_at = np.searchsorted(
            self._times, self._open["time"] + experiment.window, side="left"
        )

    def _columns_of_carried(self) -> np.ndarray:
        number = self._experiment.generation.number
        return np.array(
            [
                (
                    each.sequence,
                    each.time,
                    each.arm,
                    each.ticket is not None and each.generation == number,
                    each.steps is not None,
                    each.steps or 0,
                    each.suspicious,
                    _NO_RULING if each.ruling is None else each.ruling,
                    each.learned,
                )
                for each in self._carried
            ],
            dtype=_OPEN,
        )

    def _columns_of_new(self) -> np.ndarray:
        new = np.zeros(self._made_at.size, dtype=_OPEN)
        made = self._events[self._made_at]
        new["sequence"] = self._run.sequences[self._made_at]
        new["time"], new["arm"] = made["time"], made["arm"]
        new["known"] = made["has_ticket"]
        new["ruling"] = _NO_RULING
        if rulings := self._experiment.rulings:
            found = [rulings.get(sequence, _NO_RULING) for sequence in new["sequence"].tolist()]
            new["ruling"] = found
        return new

    def apply(self) -> None:
        """Apply all events."""
        experiment, events = self._experiment, self._events
        # Rewards first: whether a decision counts must be known for all of them before the learner
        # takes its first step. The totals before the run are noted, since they are changed below.
        before, rewarded = mark_of(experiment, 0), self._take_rewards()
        self._count_decisions()
        self._count_sources(rewarded)
        experiment.conflicts += int(np.count_nonzero(events["kind"] == CONTRADICTED))
        counts = RunCounts(experiment, before, self._open, self._is_counted(), len(self._carried))
        lessons = Lessons(experiment, self._carried, self._run.tickets[self._made_at])
        self._plan(lessons, counts, rewarded)
        self._note_course(counts, lessons)
        lessons.finish()
        # All windows have the same length, so that the settled decisions are the first ones.
        settled = int(np.searchsorted(self._settled_at, events.size, side="left"))
        counts.close(settled)
        self._keep_open(settled, rewarded, lessons)
        experiment.start_afresh_if_over()

    def _take_rewards(self) -> np.ndarray:
        """Give each decision its reward; return the place of the decision of each reward."""
        rewards = self._events[self._rewarded_at]
        sequences = np.ascontiguousarray(self._open["sequence"])
        named = rewards["decision"]
        places = np.searchsorted(sequences, named)
        missing = places == sequences.size
        places[missing] = 0
        wrong = missing | (sequences[places] != named) if sequences.size else missing
        # The arrays hold all decisions of the run, so that a reward could name a later one.
        wrong |= named > self._run.sequences[self._rewarded_at]
        if not wrong.any():
            # The first reward of a decision is allowed, unless it came before the run or too late.
            repeated = np.ones(places.size, dtype=np.bool_)
            repeated[np.unique(places, return_index=True)[1]] = False
            wrong |= repeated | self._open["rewarded"][places]
            wrong |= self._settled_at[places] <= self._rewarded_at
        if wrong.any():
            decision = int(named[int(np.argmax(wrong))])
            raise DamagedFile(f"the log rewards decision {decision}, which is not open.")
        self._open["rewarded"][places] = True
        self._open["steps"][places] = rewards["steps"]
        threshold = self._experiment.settings.quarantine
        if threshold is not None:
            # Without a suspicion it is NaN, which is not above any threshold.
            self._open["suspicious"][places] = rewards["suspicion"] > threshold
        return places

    def _is_counted(self) -> np.ndarray:
        """Return for each decision whether it has a reward that counts."""
        ruling = self._open["ruling"]
        counts = np.where(ruling == _NO_RULING, ~self._open["suspicious"], ruling == 1)
        return self._open["rewarded"] & counts

    def _count_decisions(self) -> None:
        experiment, made = self._experiment, self._events[self._made_at]
        if ((made["arm"] < 0) | (made["arm"] >= len(experiment.arms))).any():
            raise DamagedFile("the log has a decision for an arm that the experiment has not.")
        comparable = made["shares_end"] > made["shares_at"]
        shares = self._run.shares(self._made_at[comparable])
        experiment.decisions += made.size
        experiment.totals.count_decisions(made["arm"], comparable, shares)
        if made["has_ticket"].any():
            experiment.generation.note_taken(int(made["taken"].max()))

    def _count_sources(self, rewarded: np.ndarray) -> None:
        decisions = self._open[rewarded]
        delays = self._times[self._rewarded_at] - decisions["time"]
        # The exponent of a whole number below 2^53 is its length in bits.
        bins = np.minimum(np.frexp(delays.astype(np.float64))[1], DELAY_BINS - 1)
        standings = np.where(decisions["suspicious"], 1, 0)
        standings[decisions["ruling"] == 1] = 0
        standings[decisions["ruling"] == 0] = 2
        self._experiment.sources.count_many(
            zip(
                self._run.sources(self._rewarded_at),
                (decisions["time"] // DAY).tolist(),
                map(_STANDINGS.__getitem__, standings.tolist()),
                bins.tolist(),
                decisions["steps"].tolist(),
                strict=True,
            )
        )

    def _plan(self, lessons: Lessons, counts: RunCounts, rewarded: np.ndarray) -> None:
        """Put the learner's steps into their order."""
        learned_at = self._settled_at.copy()
        learns = self._open["known"] & ~self._open["learned"]
        if self._experiment.is_immediate:
            at_once = counts.is_counted[rewarded]
            learned_at[rewarded[at_once]] = self._rewarded_at[at_once]
            self._open["learned"][rewarded[at_once]] = True
        learns &= learned_at < self._events.size
        lessons.plan(
            np.flatnonzero(learns),
            learned_at,
            self._settled_at,
            self._made_at[self._open["known"][len(self._carried) :]],
            len(self._carried) + np.flatnonzero(self._open["known"][len(self._carried) :]),
            counts.rewards(),
        )

    def _note_course(self, counts: RunCounts, lessons: Lessons) -> None:
        """Make the marks that are due within the run."""
        experiment, history = self._experiment, self._experiment.history
        made, carried = np.ascontiguousarray(self._open["time"]), len(self._carried)
        # Each mark is due before some event; there it must see what a fold event by event would
        # see, although the learner runs ahead in large steps. ``at`` and ``there`` are bound as
        # defaults, since the functions are called after the loop has moved on.
        while (at := int(np.searchsorted(self._times, history.due))) < self._times.size:
            there = carried + int(np.searchsorted(self._made_at, at))

            def closed_at(time: int, there: int = there) -> int:
                closed = np.searchsorted(made, time - experiment.window, side="right")
                return min(int(closed), there)

            def mark_at(time: int, there: int = there) -> Mark:
                return counts.mark(time, there, closed_at(time))

            def audit(mark: Mark, at: int = at) -> None:
                lessons.go_on_until(at, closed_at(mark.time))
                experiment.begin_audit(mark)

            history.catch_up(int(self._times[at]), mark_at, experiment.audits, audit)

    def _keep_open(self, settled: int, rewarded: np.ndarray, lessons: Lessons) -> None:
        """Keep the decisions that are not settled, which are the last ones, as objects."""
        experiment, carried = self._experiment, len(self._carried)
        if settled:
            experiment.settled_through = int(self._open["sequence"][settled - 1])
        open_now = self._carried[settled:] + self._new_objects(max(settled, carried), lessons)
        still = rewarded >= settled
        places, rewards = rewarded[still], self._rewarded_at[still]
        found = self._open[places]
        for place, source, steps, suspicious, learned in zip(
            (places - settled).tolist(),
            self._run.sources(rewards),
            found["steps"].tolist(),
            found["suspicious"].tolist(),
            found["learned"].tolist(),
            strict=True,
        ):
            decision = open_now[place]
            decision.steps, decision.source = steps, source
            decision.suspicious, decision.learned = suspicious, learned
        experiment.open = OpenDecisions(open_now)

    def _new_objects(self, begin: int, lessons: Lessons) -> list[OpenDecision]:
        """Return the new decisions from a place on, without their rewards."""
        number, rulings = self._experiment.generation.number, self._experiment.rulings
        places = self._made_at[begin - len(self._carried) :]
        made: list[OpenDecision] = []
        for sequence, event, record in zip(
            self._run.sequences[places].tolist(),
            self._run.decode(places),
            lessons.records[begin:].tolist(),
            strict=True,
        ):
            assert isinstance(event, Decided)
            known = event.ticket is not None
            made.append(
                OpenDecision(
                    sequence,
                    event.time,
                    event.arm,
                    event.probability,
                    number,
                    record[0] if known else -1,
                    Ticket(*record[2:]) if known else None,
                    event.unit,
                    event.request,
                    ruling=rulings.get(sequence),
                )
            )
        return made
