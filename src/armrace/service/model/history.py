"""The time series of an experiment, as part of its state.

Totals are noted at *points*, which are a bucket of time apart. When there are too many points,
buckets become longer and the points between them are dropped, so that the memory is bounded however
long an experiment runs. Since points are made by the replay, a log that is replayed without some
visits yields the history that would have been seen without them.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from armrace.errors import ArmraceError
from armrace.service.background import run_in_background
from armrace_client.answers import RulingView
from armrace_client.operations import AUDIT_LEVEL

if TYPE_CHECKING:
    from armrace.learner import Learner
    from armrace.service.model.events import Ruled
    from armrace.service.model.experiment import ExperimentState

FIRST_BUCKET = 1000
_MOST_POINTS, _LEAST_POINTS, _MOST_COUNTS = 240, 48, 24_000
_MOST_RULINGS = 200
_LONGEST_REASON = 200
_AUDIT_GROWTH, _AUDIT_LEAST = 1.1, 60
"""A point is audited if the decisions have grown by 10% and by 60 since the last audit. Audits take
milliseconds: a million decisions pay for at most 80."""


class HistoryPoint(msgspec.Struct, array_like=True):
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
    trust: list[float] = []
    """The weight of each expert that learns and of all single arms together, if there are some."""


class History(msgspec.Struct, array_like=True):
    """The points and rulings of an experiment."""

    start: int
    due: int
    """When the next point is due."""
    bucket: int = FIRST_BUCKET
    points: list[HistoryPoint] = msgspec.field(default_factory=list)
    rulings: list[RulingView] = msgspec.field(default_factory=list)
    audited: int = 0
    """How many decisions there were at the last audit."""

    def catch_up(self, experiment: ExperimentState, time: int) -> None:
        """Make the points that are due at ``time``, before the event of that time is applied."""
        self._add_point(experiment, self.due)
        reached = time - (time - self.start) % self.bucket
        if reached > self.due:  # nothing happened in between, which the history must show
            self._add_point(experiment, reached)
        # Buckets may have become longer meanwhile.
        self.due = time - (time - self.start) % self.bucket + self.bucket

    def _add_point(self, experiment: ExperimentState, time: int) -> None:
        experiment.settle_until(time)
        point = point_of(experiment, time)
        last = self.points[-1] if self.points else None
        if last is not None and last.generation == point.generation:
            experiment.audits.follow(last, point)
        else:
            self.audited = 0
        if point.rounds >= _AUDIT_GROWTH * self.audited + _AUDIT_LEAST:
            self.audited = point.rounds
            experiment.audits.begin(point, experiment.generation.learner)
        self.points.append(point)
        most = max(_LEAST_POINTS, min(_MOST_POINTS, _MOST_COUNTS // max(1, len(point.decisions))))
        if len(self.points) > most:
            self._thin(most)

    def _thin(self, most: int) -> None:
        """Make buckets longer, and keep points that are a bucket apart, and the last."""
        span = self.points[-1].time - self.start
        self.bucket *= 2
        # At most two thirds of the points are left, so that it is long until the next time.
        while 2 * self.bucket * most < 3 * span:
            self.bucket *= 2
        kept: list[HistoryPoint] = []
        for point in reversed(self.points):
            if not kept or kept[-1].time - point.time >= self.bucket:
                kept.append(point)
        self.points = kept[::-1]

    def note_ruling(self, event: Ruled) -> None:
        """Note a ruling, for the pages that show the history."""
        reason = event.reason[:_LONGEST_REASON]
        note = RulingView(event.time, event.verdict, len(event.decisions), reason)
        self.rulings = [*self.rulings[1 - _MOST_RULINGS :], note]


class Audits:
    """Audits of an experiment's points, one at a time, made in the background.

    What an audit finds is determined by the point. So a state is the same whenever the audit ends,
    and is saved only when it has.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: list[HistoryPoint] = []
        """What the findings go into: the point that is audited, and those that follow it."""
        self._audit: Future[None] | None = None

    def begin(self, point: HistoryPoint, learner: Learner) -> None:
        """Audit what a learner knows now; wait if the last audit has not ended yet."""
        self.wait()
        self._points = [point]
        self._audit = run_in_background(partial(self._run, learner.still()))

    def follow(self, last: HistoryPoint, point: HistoryPoint) -> None:
        """Give a point what the last one has, now or when its audit has ended."""
        with self._lock:
            point.alarms, point.certificate = last.alarms, last.certificate
            if self._points and self._points[0].generation == point.generation:
                self._points.append(point)

    def _run(self, learner: Learner) -> None:
        found = _findings(learner)
        with self._lock:
            for point in self._points:
                point.alarms, point.certificate = found
            self._points = []

    @property
    def is_busy(self) -> bool:
        """Whether an audit has not ended."""
        return self._audit is not None and not self._audit.done()

    def wait(self) -> None:
        """Wait until what was begun has ended."""
        if self._audit is not None:
            audit, self._audit = self._audit, None
            audit.result()


def point_of(experiment: ExperimentState, time: int, is_audited: bool = False) -> HistoryPoint:
    """Return the totals of an experiment now, if wanted with a fresh audit."""
    arms, learner = experiment.totals.arms, experiment.generation.learner
    learned, steps = zip(*(each.learned(experiment.missing) for each in arms), strict=True)
    return HistoryPoint(
        time,
        experiment.generation.number,
        learner.decisions,
        [each.decisions for each in arms],
        list(learned),
        list(steps),
        *(_findings(learner) if is_audited else (0, 0.0)),
        _trust(experiment),
    )


def _trust(experiment: ExperimentState) -> list[float]:
    """Return the weights of experts with those of single arms, which come last, put together."""
    weights = experiment.generation.trust
    found = experiment.generation.learner.experts() if weights else None
    if found is None:
        return []
    learning = len(found[0])
    return [*weights[:learning], sum(weights[learning:])]


def _findings(learner: Learner) -> tuple[int, float]:
    """Return the number of alarms and the certificate of an audit now."""
    try:
        found = learner.audit(AUDIT_LEVEL)
    except ArmraceError:  # a policy without a trail
        return 0, 0.0
    return len(found.alarms), found.certificate
