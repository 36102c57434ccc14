"""The log as the checker reads it: plain data, with what can be said of each moment."""

from __future__ import annotations

import hashlib
import math
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from torture.world import World

__all__ = ["Contradiction", "Log", "Made", "require"]

_CREATED, _DECIDED, _REWARDED, _RETRACTED, _RELEASED, _ADDED, _CHANGED, _PHASE = range(8)
_CONTRADICTED, _STREAM, _DECIDED_AHEAD = 9, 10, 11


class Contradiction(AssertionError):
    """An answer, the log and the state do not agree."""


def require(kept: bool, words: str) -> None:
    """Name a contradiction unless something is so."""
    if not kept:
        raise Contradiction(words)


class Made(NamedTuple):
    """A decision of the log."""

    time: int
    experiment: int
    arm: int
    ticket: tuple[Any, ...] | None
    taken: int
    probability: float | None
    shares: bytes
    unit: str | None
    request: str | None
    stream: int = 0
    stream_taken: int = 0
    known: int = 0


class Earned(NamedTuple):
    """A reward of the log."""

    time: int
    experiment: int
    decision: int
    steps: int
    source: str | None
    suspicion: float | None


class Ruled(NamedTuple):
    """A ruling of the log."""

    counts: bool
    decisions: list[int]
    reason: str


class Log:
    """What the records of a run say, each by its place, from 1 on.

    Raises:
        Contradiction: the log contradicts itself.
    """

    def __init__(self, world: World) -> None:
        self.events: list[list[Any]] = []
        digest = bytes(16)
        for place, record in enumerate(world.store.records, 1):
            require(record.sequence == place, f"sequence {record.sequence} is at place {place}")
            digest = hashlib.blake2b(digest + record.payload, digest_size=16).digest()
            require(record.digest == digest, f"record {place} breaks the chain")
            self.events.append(msgspec.msgpack.decode(record.payload))
        times = [event[1] for event in self.events]
        require(all(a <= b for a, b in pairwise(times)), "time goes back")
        require(self.events[0][0] == _CREATED, "the log begins with something else")
        self.settings = self.events[0][5]
        self.window = round(1000 * self.settings["window"])
        self.arms: list[str] = list(self.settings["arms"])
        self.decided: dict[int, Made] = {}
        self.rewarded: dict[int, tuple[int, Earned]] = {}
        self.contradicted: dict[int, list[int]] = {}
        self.ruled: list[tuple[int, Ruled]] = []
        self._statuses = [(0, dict.fromkeys(self.arms, "active"))]
        self._phases = [(0, "running")]
        self._streams: dict[int, int] = {}
        for place, event in enumerate(self.events, 1):
            self._read(place, event)
        self._rulings = {each: ruled.counts for _, ruled in self.ruled for each in ruled.decisions}

    def _read(self, place: int, event: list[Any]) -> None:
        kind, _, *rest = event
        if kind in (_DECIDED, _DECIDED_AHEAD):
            self._add_decision(place, Made(*event[1:]))
        elif kind == _REWARDED:
            self._add_reward(place, Earned(*event[1:]))
        elif kind in (_RETRACTED, _RELEASED):
            self.ruled.append((place, Ruled(kind == _RELEASED, rest[1], rest[2])))
        elif kind == _ADDED:
            require(rest[1] not in self.arms, f"the arm {rest[1]} is added twice")
            self.arms.append(rest[1])
            self._statuses.append((place, {**self._statuses[-1][1], rest[1]: "active"}))
        elif kind == _CHANGED:
            self._change_arm(place, self.arms[rest[1]], rest[2])
        elif kind == _PHASE:
            self._phases.append((place, rest[1]))
        elif kind == _CONTRADICTED:
            require(rest[1] in self.rewarded, f"record {place} contradicts nothing")
            self.contradicted.setdefault(rest[1], []).append(place)
        elif kind == _STREAM:
            self._streams[len(self._streams) + 1] = 0

    def _change_arm(self, place: int, arm: str, status: str) -> None:
        now = self._statuses[-1][1]
        require(now[arm] not in ("retired", status), f"record {place} changes {arm} to no purpose")
        self._statuses.append((place, {**now, arm: status}))
        require("active" in self._statuses[-1][1].values(), f"record {place} leaves no active arm")

    # --- decisions ------------------------------------------------------------------------

    def _add_decision(self, place: int, made: Made) -> None:
        words = f"decision {place}"
        require(self._phases[-1][1] == "running", f"{words} was made during a pause")
        now = self._statuses[-1][1]
        require(now[self.arms[made.arm]] == "active", f"{words} shows an arm that is not active")
        self._check_open_ones(words, made)
        self._check_odds(words, made)
        if made.stream:
            taken = self._streams.get(made.stream)
            require(taken is not None, f"{words} has a stream that nobody was given")
            if made.ticket is not None:
                require(taken <= made.stream_taken, f"{words} has random numbers of another")
                self._streams[made.stream] = made.stream_taken
        self.decided[place] = made

    def _check_open_ones(self, words: str, made: Made) -> None:
        """A request has one open decision, and a unit one whose arm may be shown."""
        now, units = self._statuses[-1][1], set()
        for other in reversed(self.decided.values()):
            if other.time + self.window <= made.time:
                break
            again = made.request is not None and other.request == made.request
            require(not again, f"{words}: {made.request} led to several at a time")
            latest = other.unit is not None and other.unit not in units
            again = latest and other.unit == made.unit and now[self.arms[other.arm]] == "active"
            require(not again, f"{words}: {made.unit} has another that is open")
            units.add(other.unit)

    def _check_odds(self, words: str, made: Made) -> None:
        """Probabilities are the policy's, mixed with the floors of arms that may be chosen."""
        now = self._statuses[-1][1]
        floors = {a: f for a, f in self.settings["floors"].items() if now[a] == "active"}
        floor = floors.get(self.arms[made.arm], 0.0)
        if made.ticket is None:
            require(floor > 0, f"{words} was made by the floor of an arm that has none")
        elif made.probability is not None:
            own = (1 - math.fsum(floors.values())) * made.ticket[2]
            right = math.isclose(made.probability, min(1.0, floor + own), rel_tol=1e-12)
            require(right, f"{words} has another probability than its ticket")
        if made.shares:
            shares = struct.unpack(f"<{len(made.shares) // 4}f", made.shares)
            require(math.isclose(sum(shares), 1, abs_tol=1e-5), f"{words}: odds do not add up")
            require(all(s >= -1e-6 for s in shares), f"{words}: odds are negative")
            if made.probability is not None:
                near = math.isclose(shares[made.arm], made.probability, abs_tol=1e-6)
                require(near, f"{words}: odds differ from the probability")

    # --- rewards --------------------------------------------------------------------------

    def _add_reward(self, place: int, earned: Earned) -> None:
        decision = earned.decision
        require(decision in self.decided, f"record {place} rewards what is no decision")
        require(decision not in self.rewarded, f"decision {decision} is rewarded twice")
        made = self.decided[decision].time
        inside = made <= earned.time < made + self.window
        require(inside, f"decision {decision} was rewarded outside its window")
        self.rewarded[decision] = (place, earned)

    def is_suspicious(self, earned: Earned) -> bool:
        """Whether a reward goes into quarantine."""
        return earned.suspicion is not None and earned.suspicion > self.settings["quarantine"]

    def counts(self, decision: int) -> bool:
        """Whether there is a reward that counts, in the end."""
        if decision not in self.rewarded:
            return False
        suspicious = self.is_suspicious(self.rewarded[decision][1])
        return self._rulings.get(decision, not suspicious)

    def concerned(self, end: int, source: str, counts: bool) -> list[int]:
        """Return the decisions whose rewards a ruling after ``end`` records changes."""
        found = {
            decision: not self.is_suspicious(earned)
            for decision, (place, earned) in self.rewarded.items()
            if place <= end and earned.source == source
        }
        for place, ruled in self.ruled:
            if place <= end:
                found.update({each: ruled.counts for each in ruled.decisions if each in found})
        return sorted(each for each, now in found.items() if now != counts)

    # --- arms and phases ------------------------------------------------------------------

    def status_at(self, end: int, arm: str) -> str | None:
        """Return the status of an arm after ``end`` records; ``None`` if there is none."""
        return next(now.get(arm) for place, now in reversed(self._statuses) if place <= end)

    def phase_at(self, end: int) -> str:
        """Return whether the experiment runs or is paused after ``end`` records."""
        return next(phase for place, phase in reversed(self._phases) if place <= end)

    def is_arm_added(self, event: list[Any]) -> bool:
        """Whether an event adds an arm."""
        return bool(event[0] == _ADDED)

    def is_arm_changed(self, event: list[Any]) -> bool:
        """Whether an event pauses, resumes or retires an arm."""
        return bool(event[0] == _CHANGED)
