"""A demonstration in three acts: honest visitors, a few bots, a flood of bots.

Visitors of a help page rate the answer that they were shown. On the second day, a few bots rate the
best answer badly and another one well: an alarm goes up, and the traffic stays where it is. On the
third day a flood of bots, three of four visits, moves the traffic. Once their visits are voided, or
their ratings retracted, they give up.

The clock of the service runs fast: a minute is a day of the experiment.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from armrace.errors import ArmraceError
from armrace.formatting import count
from armrace.service.service import Service
from armrace_client.answers import DecisionAnswer
from armrace_client.operations import Reward, Visit

EXPERIMENT = "help-answers"
BOTS = "HeadlessChrome"
DAY = 60.0
"""Seconds of the demonstration in a day of the experiment."""

_ANSWERS = {"step by step": 0.78, "short answer": 0.60, "video": 0.50, "link to the forum": 0.35}
_PUSHED = "link to the forum"
_SOURCES = {"Chrome": 0.46, "Safari": 0.27, "Firefox": 0.12, "Android app": 0.10, "iOS app": 0.05}
_OTHER = "mail-subject"
_SUBJECTS = {"plain subject": 0.31, "with a question": 0.36, "with a number": 0.28}
_RACE = {"name": "sharp-race", "first": 8, "most_corruption": 1000}
"""What decides about mails, so that the pages of a race can be seen too."""

_VISITORS, _FEW_BOTS, _MANY_BOTS, _MAILS = 80, 14, 240, 12
"""How many come in a second."""
_STEP, _LONGEST_STEP = 0.1, 0.25
"""Seconds of the demonstration from one step to the next, at the usual speed and at most."""
_WINDOW, _MAIL_WINDOW = 720.0, 7200.0
"""Time for a rating and for a click: half a second of the demonstration, and five seconds."""


class _Act(NamedTuple):
    """A part of the story, which lasts until the next one begins."""

    begins: float
    bots: int
    """How many come in a second."""
    words: str


_ACTS = (
    _Act(0.0, 0, "Day 1: all ratings are honest."),
    _Act(DAY, _FEW_BOTS, "Day 2: one rating in seven comes from a bot. The traffic should stay."),
    _Act(
        2 * DAY,
        _MANY_BOTS,
        "From day 3 on, three ratings in four come from bots, until somebody voids them.",
    ),
)


def _act_at(seconds: float) -> _Act:
    return max((act for act in _ACTS if act.begins <= seconds), key=lambda act: act.begins)


class DemoClock:
    """A clock that starts at the last midnight, and that the visitors move.

    So nothing depends on how fast the machine is: on a slow one, the demonstration takes longer.
    """

    def __init__(self, speed: float = 1.0) -> None:
        self._pace = "a day" if speed == 1 else f"{count(speed)} days"
        self.seconds = 0.0
        """How long the demonstration has been going on."""
        self._start = int(time.time()) // 86_400 * 86_400_000

    def __call__(self) -> int:
        """Return the time of the service in milliseconds."""
        return self.time_of(self.seconds)

    def time_of(self, seconds: float) -> int:
        """Return the time of the service at a moment of the demonstration."""
        return self._start + int(seconds / DAY * 86_400_000)

    def note(self) -> str:
        """Return what the pages say of the story at this moment."""
        return f"Simulated visitors; a minute is {self._pace}. {_act_at(self.seconds).words}"


@contextmanager
def temporary_store() -> Iterator[Path]:
    """Give a place for a store and its keys that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="armrace-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def simulated_visitors(service: Service, clock: DemoClock, speed: float = 1.0) -> Iterator[None]:
    """Let visitors come while the block runs."""
    create_experiments(service)
    stop = threading.Event()
    visitors = DemoVisitors(service, clock)
    thread = threading.Thread(target=_run, args=(visitors, speed, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)


def _run(visitors: DemoVisitors, speed: float, stop: threading.Event) -> None:
    step = min(_STEP * max(1.0, speed), _LONGEST_STEP)
    due = time.monotonic()
    try:
        while not stop.wait(max(0.0, due - time.monotonic())):
            visitors.step(step)
            due = max(due + step / speed, time.monotonic() - step)
    except ArmraceError:
        pass  # the service is closing


def create_experiments(service: Service) -> None:
    """Create what the visitors use: answers that bots will attack, and a test of subjects."""
    service.create(
        EXPERIMENT,
        list(_ANSWERS),
        "drop",
        horizon=100_000,
        window=_WINDOW,
        quarantine=0.9,
        seed=1,
    )
    service.create(
        _OTHER, list(_SUBJECTS), 0.0, policy=_RACE, window=_MAIL_WINDOW, horizon=20_000, seed=1
    )


class _Late(NamedTuple):
    """A reward that is on its way."""

    comes: float
    decision: DecisionAnswer
    value: float
    suspicion: float


class DemoVisitors:
    """The simulated people: readers of help pages, bots, and receivers of mails."""

    def __init__(self, service: Service, clock: DemoClock) -> None:
        self._service = service
        self._clock = clock
        self._random = random.Random(1)
        self._late: list[_Late] = []
        self._came = {"visitors": 0, "bots": 0, "mails": 0}
        self._bots_by_now = 0.0

    def step(self, seconds: float) -> None:
        """Simulate the visits of the next seconds, and move the clock by them."""
        now = self._clock.seconds + seconds
        humans, bots = self._due("visitors", now * _VISITORS), self._due_bots(seconds)
        sources = self._random.choices(list(_SOURCES), list(_SOURCES.values()), k=humans)
        sources += [BOTS] * bots
        self._random.shuffle(sources)
        for source, decision in zip(sources, self._decide(EXPERIMENT, sources), strict=True):
            if source == BOTS:
                value = 1.0 if decision.arm == _PUSHED else 0.0
                self._late.append(_Late(now, decision, value, 0.3))  # sooner than any human
            else:
                self._rate(now, decision, source)
        for decision in self._decide(_OTHER, ["mail"] * self._due("mails", now * _MAILS)):
            if self._random.random() < _SUBJECTS[decision.arm]:
                comes = now + self._random.uniform(0.1, 3.0)
                self._late.append(_Late(comes, decision, 1.0, 0.0))
        self._clock.seconds += seconds / 100
        self._deliver(now)
        self._clock.seconds = now

    def _decide(self, name: str, sources: list[str]) -> list[DecisionAnswer]:
        if not sources:
            return []
        made = self._service.decide_batch(name, [Visit(source=each) for each in sources])
        for refused in made.refusals:
            raise ArmraceError(refused.message)
        return made.made()

    def _due(self, who: str, by_now: float) -> int:
        count = int(by_now) - self._came[who]
        self._came[who] += count
        return count

    def _due_bots(self, seconds: float) -> int:
        act = _act_at(self._clock.seconds)
        self._bots_by_now += act.bots * seconds
        due = self._due("bots", self._bots_by_now)
        return 0 if due and self._are_found_out(act) else due

    def _are_found_out(self, act: _Act) -> bool:
        """Whether somebody has taken back what bots did, since this act began."""
        first = self._clock.time_of(act.begins)
        return any(
            each.time >= first and each.action in ("void", "retract") and BOTS in each.detail
            for each in self._service.actions(EXPERIMENT, most=20)
        )

    def _rate(self, now: float, decision: DecisionAnswer, source: str) -> None:
        chance = self._random
        value = float(chance.random() < _ANSWERS[decision.arm])
        delay = min(chance.lognormvariate(-2.5, 0.6), 0.2)
        suspicion = 0.95 if source == "Firefox" and chance.random() < 0.02 else 0.1
        self._late.append(_Late(now + delay, decision, value, suspicion))

    def _deliver(self, now: float) -> None:
        """Send all rewards that come by now, in one batch."""
        came = [each for each in self._late if each.comes <= now]
        self._late = [each for each in self._late if each.comes > now]
        self._service.reward_batch(
            [Reward(each.decision.decision, each.value, suspicion=each.suspicion) for each in came]
        )
