"""A demonstration: simulated visitors, and bots that begin to cheat after a while.

Visitors of a help page rate the answer that they were shown. After a minute, a fleet of bots rates
the best answer badly and another one well, until it is chosen. Once the bots' ratings are
retracted, they give up.

The clock of the service runs fast, so that a minute is a day of the experiment.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from armrace.errors import ArmraceError
from armrace.service.answers import Decision
from armrace.service.service import Service

__all__ = ["BOTS", "EXPERIMENT", "NOTE", "fast_clock", "simulated_visitors", "temporary_store"]

EXPERIMENT = "help-answers"
BOTS = "HeadlessChrome"
NOTE = (
    "A demonstration with simulated visitors, in which a minute is a day. After the first minute, "
    "bots begin to cheat."
)
_ANSWERS = {"step by step": 0.78, "short answer": 0.60, "video": 0.50, "link to the forum": 0.35}
_BEST, _PUSHED = "step by step", "link to the forum"
_SOURCES = {"Chrome": 0.46, "Safari": 0.27, "Firefox": 0.12, "Android app": 0.10, "iOS app": 0.05}
_POLICY = {"name": "sharp-race", "first": 8, "most_corruption": 1000}
_SUBJECTS = {"plain subject": 0.31, "with a question": 0.36, "with a number": 0.28}

_SPEED = 1440
"""Milliseconds of the service's clock in a millisecond."""
_VISITORS, _BOTS, _MAILS = 80, 160, 12
"""How many come in a second."""
_BOTS_AFTER = 60.0
_STEP = 0.1
_WINDOW = 7200.0
"""Five seconds of the demonstration."""


def fast_clock(speed: float) -> Callable[[], int]:
    """Return a clock that starts at the last midnight and runs fast."""
    start = int(time.time()) // 86_400 * 86_400_000
    began = time.monotonic()
    return lambda: start + int((time.monotonic() - began) * 1000 * _SPEED * speed)


@contextmanager
def temporary_store() -> Iterator[Path]:
    """Give a place for a store and its keys that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="armrace-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextmanager
def simulated_visitors(service: Service, speed: float = 1.0) -> Iterator[None]:
    """Let visitors come while the block runs.

    Args:
        service: the service that they use.
        speed: how many times as fast as usual everything goes.
    """
    _create(service)
    stop = threading.Event()
    thread = threading.Thread(target=_Visitors(service, speed, stop).run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=10)


def _create(service: Service) -> None:
    service.create(
        EXPERIMENT,
        list(_ANSWERS),
        "drop",
        policy=_POLICY,
        horizon=100_000,
        window=_WINDOW,
        quarantine=0.9,
        seed=1,
    )
    service.create("mail-subject", list(_SUBJECTS), 0.0, window=_WINDOW, horizon=20_000, seed=1)


class _Visitors:
    def __init__(self, service: Service, speed: float, stop: threading.Event) -> None:
        self._service = service
        self._speed = speed
        self._stop = stop
        self._random = random.Random(1)  # visitors of the demonstration, not decisions
        self._late: list[tuple[float, Decision, float, str, float]] = []
        """Rewards that are on their way, with the time at which they come."""
        self._done = {"visitors": 0, "bots": 0, "mails": 0}

    def run(self) -> None:
        began = time.monotonic()
        try:
            while not self._stop.wait(_STEP):
                self._step((time.monotonic() - began) * self._speed)
        except ArmraceError:
            pass  # the service is closing

    def _step(self, now: float) -> None:
        """Let those come who are due after ``now`` seconds of the demonstration."""
        visitors = self._due("visitors", now * _VISITORS)
        bots = self._due("bots", max(0.0, now - _BOTS_AFTER) * _BOTS)
        if bots and self._are_found_out():
            bots = 0
        decisions = self._service.decide_many(EXPERIMENT, visitors + bots)
        self._random.shuffle(decisions)
        for decision in decisions[:bots]:
            value = 1.0 if decision.arm == _PUSHED else 0.0
            self._late.append((now, decision, value, BOTS, 0.3))  # at once, as no human does
        for decision in decisions[bots:]:
            self._visit(now, decision)
        for decision in self._service.decide_many("mail-subject", self._due("mails", now * _MAILS)):
            if self._random.random() < _SUBJECTS[decision.arm]:
                self._late.append(
                    (now + self._random.uniform(0.1, 3.0), decision, 1.0, "mail", 0.0)
                )
        self._deliver(now)

    def _are_found_out(self) -> bool:
        sources = self._service.sources(EXPERIMENT)
        own = [each for each in sources if each.source == BOTS]
        return any(day.retracted for each in own for day in each.days)

    def _due(self, who: str, by_now: float) -> int:
        count = min(int(by_now) - self._done[who], 1000)
        self._done[who] += count
        return count

    def _visit(self, now: float, decision: Decision) -> None:
        chance = self._random
        if chance.random() < 0.08:
            return  # leaves without a rating
        value = float(chance.random() < _ANSWERS[decision.arm])
        (source,) = chance.choices(list(_SOURCES), list(_SOURCES.values()))
        delay = min(chance.lognormvariate(-0.9, 0.8), 3.0)
        suspicion = 0.95 if source == "Firefox" and chance.random() < 0.02 else 0.1
        self._late.append((now + delay, decision, value, source, suspicion))

    def _deliver(self, now: float) -> None:
        came = [each for each in self._late if each[0] <= now]
        self._late = [each for each in self._late if each[0] > now]
        groups: dict[tuple[str, float], list[tuple[Decision | str, float]]] = {}
        for _, decision, value, source, suspicion in came:
            groups.setdefault((source, suspicion), []).append((decision, value))
        for (source, suspicion), rewards in groups.items():
            self._service.reward_many(rewards, source, suspicion)
