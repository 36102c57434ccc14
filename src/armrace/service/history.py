"""The course of an experiment over time, as part of its fold.

Totals are noted at *marks*, which are a bucket of time apart. When there are too many marks,
buckets become longer and the marks between them are dropped, so that the memory is bounded however
long an experiment runs. Since marks are made by the fold, a log that is folded again without some
rewards yields the course that would have been seen without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from armrace.errors import ArmraceError
from armrace.service.aside import run_aside
from armrace.service.defaults import AUDIT_LEVEL

if TYPE_CHECKING:
    from armrace.online import Learner
    from armrace.service.experiment import Experiment
    from armrace.service.totals import ArmTotals

__all__ = [
    "History",
    "Mark",
    "MarkAudits",
    "RulingNote",
    "current_mark",
    "learned_of",
    "mark_of",
]

_FIRST_BUCKET = 1000
_MOST_MARKS, _LEAST_MARKS, _MOST_COUNTS = 240, 48, 24_000
_MOST_RULINGS = 200
_LONGEST_REASON = 200
_AUDIT_GROWTH, _AUDIT_LEAST = 1.1, 60
"""A mark is audited if the decisions have grown by 10% and by 60 since the last audit. Audits take
milliseconds, and events that are folded at once are folded up to each of them, so that a million
decisions pay for at most 80."""


class Mark(msgspec.Struct, array_like=True):
    """The totals of an experiment at some time; lists have an entry for each arm."""

    time: int
    generation: int
    rounds: int
    """The decisions of the generation."""
    decisions: list[int]
    learned: list[int]
    """Decisions that have taught something, missing rewards that count as a number included."""
    steps: list[int]
    """The sum of what they have earned, on the grid."""
    alarms: int
    certificate: float


class RulingNote(msgspec.Struct, array_like=True):
    """A ruling about rewards, for the trail."""

    time: int
    counts: bool
    rewards: int
    reason: str


MarkAt = Callable[[int], Mark]


class History(msgspec.Struct, array_like=True):
    """The marks and rulings of an experiment."""

    start: int
    due: int
    """When the next mark is due."""
    bucket: int = _FIRST_BUCKET
    marks: list[Mark] = msgspec.field(default_factory=list)
    rulings: list[RulingNote] = msgspec.field(default_factory=list)
    audited: int = 0
    """How many decisions there were at the last audit."""

    @classmethod
    def begin(cls, time: int) -> History:
        """Return the history of an experiment that is created at ``time``."""
        return cls(time, time + _FIRST_BUCKET)

    def catch_up(
        self, time: int, mark_at: MarkAt, audits: MarkAudits, audit: Callable[[Mark], None]
    ) -> None:
        """Make the marks that are due at ``time``, before the event of that time is applied.

        Args:
            time: of the event.
            mark_at: returns a mark of a time, after what is due then is settled.
            audits: the audits that were begun.
            audit: begins an audit, whose findings go into the latest mark.
        """
        self._add(mark_at(self.due), audits, audit)
        reached = time - (time - self.start) % self.bucket
        if reached > self.due:  # nothing happened in between, which the course must show
            self._add(mark_at(reached), audits, audit)
        self.due = self.due_after(time)

    def audited_from(self, generation: int) -> float:
        """Return from how many decisions of a generation on the next mark is audited."""
        begins = bool(self.marks) and self.marks[-1].generation != generation
        return _AUDIT_GROWTH * (0 if begins else self.audited) + _AUDIT_LEAST

    def due_after(self, time: int) -> int:
        """Return the earliest time after ``time`` at which a mark can be due."""
        return time - (time - self.start) % self.bucket + self.bucket

    def _add(self, mark: Mark, audits: MarkAudits, audit: Callable[[Mark], None]) -> None:
        needed = self.audited_from(mark.generation)
        last = self.marks[-1] if self.marks else None
        if last is not None and last.generation == mark.generation:
            audits.follow(last, mark)
        elif last is not None:
            self.audited = 0
        if mark.rounds >= needed:
            self.audited = mark.rounds
            audit(mark)
        self.marks.append(mark)
        most = max(_LEAST_MARKS, min(_MOST_MARKS, _MOST_COUNTS // max(1, len(mark.decisions))))
        if len(self.marks) > most:
            self._thin(most)

    def _thin(self, most: int) -> None:
        """Make buckets longer, and keep marks that are a bucket apart, and the last."""
        span = self.marks[-1].time - self.start
        self.bucket *= 2
        # At most two thirds of the marks are left, so that it is long until the next time.
        while 2 * self.bucket * most < 3 * span:
            self.bucket *= 2
        kept: list[Mark] = []
        for mark in reversed(self.marks):
            if not kept or kept[-1].time - mark.time >= self.bucket:
                kept.append(mark)
        self.marks = kept[::-1]

    def note_ruling(self, time: int, counts: bool, rewards: int, reason: str) -> None:
        """Note that rewards were retracted or released.

        Args:
            time: when.
            counts: whether they were released.
            rewards: how many.
            reason: why.
        """
        note = RulingNote(time, counts, rewards, reason[:_LONGEST_REASON])
        self.rulings = [*self.rulings[1 - _MOST_RULINGS :], note]


class MarkAudits:
    """Audits of an experiment's marks, one at a time, made aside.

    What an audit finds is determined by the mark. So a state is the same whenever the audit ends,
    and is saved only when it has.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: list[Mark] = []
        """What the findings go into: the mark that is audited, and those that follow it."""
        self._audit: Future[None] | None = None

    def begin(self, mark: Mark, learner: Learner) -> None:
        """Audit what a learner knows now; wait if the last audit has not ended yet."""
        self.wait()
        self._marks = [mark]
        self._audit = run_aside(partial(self._run, learner.still()))

    def follow(self, last: Mark, mark: Mark) -> None:
        """Give a mark what the last one has, now or when its audit has ended."""
        with self._lock:
            mark.alarms, mark.certificate = last.alarms, last.certificate
            if self._marks and self._marks[0].generation == mark.generation:
                self._marks.append(mark)

    def _run(self, learner: Learner) -> None:
        found = _findings(learner)
        with self._lock:
            for mark in self._marks:
                mark.alarms, mark.certificate = found
            self._marks = []

    @property
    def is_busy(self) -> bool:
        """Whether an audit has not ended."""
        return self._audit is not None and not self._audit.done()

    def wait(self) -> None:
        """Wait until what was begun has ended."""
        if self._audit is not None:
            audit, self._audit = self._audit, None
            audit.result()


def current_mark(experiment: Experiment, time: int) -> Mark:
    """Return the totals of an experiment now, with a fresh audit."""
    mark = mark_of(experiment, time)
    mark.alarms, mark.certificate = _findings(experiment.generation.learner)
    return mark


def mark_of(experiment: Experiment, time: int) -> Mark:
    """Return the totals of an experiment now, without an audit."""
    arms = experiment.totals.arms
    learned, steps = zip(*(learned_of(experiment, each) for each in arms), strict=True)
    return Mark(
        time,
        experiment.generation.number,
        experiment.generation.learner.decisions,
        [each.decisions for each in arms],
        list(learned),
        list(steps),
        0,
        0.0,
    )


def learned_of(experiment: Experiment, totals: ArmTotals) -> tuple[int, int]:
    """Return how many decisions of an arm taught something, and what they earned on the grid.

    Args:
        experiment: the experiment.
        totals: the totals of the arm.
    """
    missing = experiment.missing
    if missing is None:
        return totals.rewarded, totals.steps
    return totals.closed, totals.steps + missing * (totals.closed - totals.rewarded)


def _findings(learner: Learner) -> tuple[int, float]:
    """Return the number of alarms and the certificate of an audit now."""
    try:
        found = learner.audit(AUDIT_LEVEL)
    except ArmraceError:  # a policy without a trail
        return 0, 0.0
    return len(found.alarms), found.certificate
