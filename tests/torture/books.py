"""A log as the checker reads it: plain data, with what can be said of each moment."""

import hashlib
import math
import struct
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec

from armrace_client.operations import Hold, Release, Retract, Ruling, Void
from torture.world import Commit

(
    _CREATED,
    _DECIDED,
    _REWARDED,
    _RULED,
    _HOLD,
    ARM_ADDED,
    ARM_CHANGED,
    _PHASE,
    _TICKED,
    _CONTRADICTED,
    AFRESH,
    _LEASED,
    _DELETED,
    _DECIDED_IN,
) = range(14)
_DECISIONS = (_DECIDED, _DECIDED_IN)
_VERDICTS = {Retract: "retract", Void: "void", Hold: "hold", Release: "release"}
_UNIT = 2**32


class Contradiction(AssertionError):
    """An answer, the log and the state do not agree."""


def require(kept: bool, words: str) -> None:
    """Name a contradiction unless something is so."""
    if not kept:
        raise Contradiction(words)


class Made(NamedTuple):
    """A decision of the log."""

    time: int
    arm: int
    ticket: tuple[Any, ...] | None
    taken: int
    probability: float | None
    shares: bytes
    unit: bytes | None
    request: bytes | None
    source: str | None
    labels: dict[str, str] | None
    by: str
    lease: int
    draw: int
    code: tuple[bytes, int] | None = None
    """The features of the visitor, and the leaf."""

    @property
    def leaf(self) -> int:
        """The leaf of the visitor."""
        return 0 if self.code is None else self.code[1]


class Earned(NamedTuple):
    """A reward of the log."""

    time: int
    decision: int
    steps: int
    source: str | None
    suspicion: float | None
    labels: dict[str, str] | None
    metrics: dict[str, int] | None
    part: bytes | None


class Ruled(NamedTuple):
    """A ruling of the log."""

    time: int
    verdict: str
    decisions: list[int]
    selection: str
    reason: str
    actor: Any


class Granted(NamedTuple):
    """A lease of the log."""

    time: int
    seed: bytes
    weights: list[int]
    visits: int
    expires: int
    actor: Any

    def weights_in(self, leaf: int, leaves: int) -> list[int]:
        """Return the weights of a leaf."""
        width = len(self.weights) // leaves
        return self.weights[leaf * width :][:width]

    def arm(self, stream: int, number: int, weights: list[int]) -> int:
        """Return the arm of a draw, from its definition."""
        block = struct.pack("<QQ", stream, number // 16)
        words = struct.unpack("<16I", hashlib.sha512(self.seed + block).digest())
        left = words[number % 16]
        for arm, weight in enumerate(weights):
            if left < weight:
                return arm
            left -= weight
        raise Contradiction("a lease has weights that do not sum to 2^32")


class Standing(NamedTuple):
    """A standing hold that begins or ends."""

    begins: bool
    source: str | None
    labels: dict[str, str]
    reason: str


class Log:
    """What the records of an experiment say, each by its place, from 1 on.

    Raises:
        Contradiction: the log contradicts itself.
    """

    def __init__(self, number: int, name: str) -> None:
        self.number, self.name = number, name
        self.events: list[list[Any]] = []
        self.commits: list[int] = []
        """For each record, the number of the transaction that kept it."""
        self.decided: dict[int, Made] = {}
        self.rewarded: dict[int, tuple[int, Earned]] = {}
        self.contradicted: dict[int, list[int]] = {}
        self.ruled: list[tuple[int, Ruled]] = []
        self.standing: list[tuple[int, Standing]] = []
        self.leases: dict[int, Granted] = {}
        self.drawn: dict[tuple[int, int], int] = {}
        """Decisions by their lease and the number of the draw."""
        self.verdicts: dict[int, str] = {}
        """What was ruled about each decision, up to the last record that was read."""
        self._digest = bytes(16)

    def add(self, record: Any, commit: int, chain: Any) -> None:
        """Take the next record."""
        place = len(self.events) + 1
        require(record.sequence == place, f"sequence {record.sequence} is at place {place}")
        keyed = chain.copy()
        keyed.update(self._digest + record.payload)
        self._digest = keyed.digest()
        require(record.digest == self._digest, f"record {place} breaks the chain")
        event = msgspec.msgpack.decode(record.payload)
        self.events.append(event)
        self.commits.append(commit)
        if place == 1:
            self._begin(event)
        require(all(a[1] <= b[1] for a, b in pairwise(self.events[-2:])), "time goes back")
        self._read(place, event)

    def _begin(self, event: list[Any]) -> None:
        require(event[0] == _CREATED, "the log begins with something else")
        require(event[3] == self.name, "the log is another experiment's")
        self.settings = event[4]
        self.window = round(1000 * self.settings["window"])
        self.arms: list[str] = list(self.settings["arms"])
        # One feature makes leaves: a category, whose buckets they are.
        schema = self.settings.get("schema")
        self.leaves = schema["features"]["device"]["buckets"] if schema else 1
        self._statuses = [(0, dict.fromkeys(self.arms, "active"))]
        self._phases = [(0, "running")]

    def _read(self, place: int, event: list[Any]) -> None:
        kind, *rest = event
        if kind in _DECISIONS:
            self._add_decision(place, Made(*rest))
        elif kind == _REWARDED:
            self._add_reward(place, Earned(*rest))
        elif kind == _RULED:
            ruled = Ruled(*rest)
            self.ruled.append((place, ruled))
            self.verdicts.update(dict.fromkeys(ruled.decisions, ruled.verdict))
        elif kind == _HOLD:
            self.standing.append((place, Standing(*rest[1:5])))
        elif kind == ARM_ADDED:
            require(rest[1] not in self.arms, f"the arm {rest[1]} is added twice")
            self.arms.append(rest[1])
            self._statuses.append((place, {**self._statuses[-1][1], rest[1]: "active"}))
        elif kind == ARM_CHANGED:
            self._change_arm(place, self.arms[rest[1]], rest[2])
        elif kind == _PHASE:
            self._phases.append((place, rest[1]))
        elif kind == _CONTRADICTED:
            require(rest[1] in self.rewarded, f"record {place} contradicts nothing")
            self.contradicted.setdefault(rest[1], []).append(place)
        elif kind == _LEASED:
            self._add_lease(place, Granted(*rest))

    def _change_arm(self, place: int, arm: str, status: str) -> None:
        now = self._statuses[-1][1]
        require(now[arm] not in ("retired", status), f"record {place} changes {arm} to no purpose")
        self._statuses.append((place, {**now, arm: status}))
        require("active" in self._statuses[-1][1].values(), f"record {place} leaves no active arm")

    def _floors(self) -> dict[str, float]:
        now = self._statuses[-1][1]
        return {a: f for a, f in (self.settings["floors"] or {}).items() if now[a] == "active"}

    def _held_out(self) -> dict[str, float]:
        """The probability of each arm that the holdout shows: one, or all alike without it."""
        share, arm = self.settings.get("holdout", 0.0), self.settings.get("holdout_arm")
        active = [each for each, now in self._statuses[-1][1].items() if now == "active"]
        shown = [arm] if arm in active else active
        return {each: share / len(shown) for each in shown if share}

    def _without_policy(self) -> dict[str, float]:
        held_out, rest = self._held_out(), 1 - self.settings.get("holdout", 0.0)
        floors = {arm: rest * floor for arm, floor in self._floors().items()}
        return {a: held_out.get(a, 0.0) + floors.get(a, 0.0) for a in {**held_out, **floors}}

    # --- decisions and leases -------------------------------------------------------------

    def _add_lease(self, place: int, granted: Granted) -> None:
        for leaf in range(self.leaves):
            self._check_weights(f"lease {place}", granted.weights_in(leaf, self.leaves))
        self.leases[place] = granted

    def _check_weights(self, words: str, weights: list[int]) -> None:
        require(sum(weights) == _UNIT, f"{words}: weights do not add up")
        floors, now = self._without_policy(), self._statuses[-1][1]
        for arm, weight in zip(self.arms, weights, strict=True):
            right = weight >= floors.get(arm, 0) * _UNIT - 1 if now[arm] == "active" else not weight
            require(right, f"{words}: the weight of {arm} is wrong")

    def _add_decision(self, place: int, made: Made) -> None:
        words = f"decision {place}"
        require(self._phases[-1][1] == "running", f"{words} was made during a pause")
        if made.lease:
            require(made.by in ("lease", "holdout"), f"{words} is by {made.by}")
            self._check_draw(place, made, words)
        elif made.by != "editor":
            now = self._statuses[-1][1]
            require(now[self.arms[made.arm]] == "active", f"{words} shows an inactive arm")
            self._check_open_ones(words, made)
            self._check_odds(words, made)
        self.decided[place] = made

    def _check_draw(self, place: int, made: Made, words: str) -> None:
        """A lease's draw is its own function, counted once, while the lease lasts."""
        lease = self.leases.get(made.lease)
        require(lease is not None, f"{words} is of a lease that nobody was given")
        require((made.lease, made.draw) not in self.drawn, f"{words} counts a draw again")
        require(made.draw < lease.visits, f"{words} is beyond its lease")
        require(made.time < lease.expires, f"{words} came after its lease")
        weights = lease.weights_in(made.leaf, self.leaves)
        arm = lease.arm(made.lease, made.draw, weights)
        require(made.arm == arm, f"{words}: the edge chose its arm")
        require(made.probability == weights[made.arm] / _UNIT, f"{words} has other odds")
        self.drawn[made.lease, made.draw] = place

    def _check_open_ones(self, words: str, made: Made) -> None:
        """A request has one open decision, and a unit one whose arm may be shown."""
        now, units = self._statuses[-1][1], set()
        for place, other in reversed(self.decided.items()):
            if other.time + self.window <= made.time:
                break
            if self.verdicts.get(place) == "void":
                continue
            again = made.request is not None and other.request == made.request
            require(not again, f"{words}: a request led to several at a time")
            latest = other.unit is not None and other.unit not in units
            again = latest and other.unit == made.unit and now[self.arms[other.arm]] == "active"
            require(not again, f"{words}: its unit has another that is open")
            units.add(other.unit)

    def _check_odds(self, words: str, made: Made) -> None:
        """Probabilities are the policy's, mixed with floors and holdout."""
        floors, arm = self._without_policy(), self.arms[made.arm]
        floor = floors.get(arm, 0.0)
        if made.by == "holdout":
            require(self._held_out().get(arm, 0.0) > 0, f"{words} is of no holdout")
        elif made.ticket is None:
            require(self._floors().get(arm, 0.0) > 0, f"{words} was made by no floor of its arm")
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

    def source(self, decision: int) -> str | None:
        """Return where a reward came from, or else its visit."""
        return self.rewarded[decision][1].source or self.decided[decision].source

    def _labels(self, decision: int) -> dict[str, str]:
        earned = self.rewarded[decision][1] if decision in self.rewarded else None
        return {**(self.decided[decision].labels or {}), **((earned and earned.labels) or {})}

    def is_held(self, decision: int) -> bool:
        """Whether a reward was held when it came."""
        place, earned = self.rewarded[decision]
        if earned.suspicion is not None and earned.suspicion > self.settings["quarantine"]:
            return True
        now: dict[str, Standing] = {}
        for each, hold in self.standing:
            if each < place:
                now[f"{hold.source} {hold.labels}"] = hold
        source, labels = self.source(decision), self._labels(decision)
        return any(
            hold.begins and hold.source in (None, source) and hold.labels.items() <= labels.items()
            for hold in now.values()
        )

    def standing_of(self, decision: int, verdicts: Mapping[int, str] | None = None) -> str:
        """Return the last ruling about a decision, or what held its reward when it came."""
        ruled = (self.verdicts if verdicts is None else verdicts).get(decision)
        held = decision in self.rewarded and self.is_held(decision)
        return ruled or ("hold" if held else "release")

    def counts(self, decision: int) -> bool:
        """Whether there is a reward that counts, in the end."""
        return decision in self.rewarded and self.standing_of(decision) == "release"

    def is_void(self, decision: int) -> bool:
        """Whether a decision counts as never made, in the end."""
        return self.verdicts.get(decision) == "void"

    def is_of_void(self, place: int) -> bool:
        """Whether a record is about a decision that counts as never made, in the end."""
        event = self.events[place - 1]
        if event[0] in _DECISIONS:
            return self.is_void(place)
        return event[0] in (_REWARDED, _CONTRADICTED) and self.is_void(event[2])

    @property
    def visits(self) -> dict[int, Made]:
        """The decisions that count as made, in the end."""
        return {d: made for d, made in self.decided.items() if not self.is_void(d)}

    # --- rulings --------------------------------------------------------------------------

    def verdicts_at(self, end: int) -> dict[int, str]:
        """Return what was ruled about each decision by ``end`` records."""
        found: dict[int, str] = {}
        for place, ruled in self.ruled:
            if place <= end:
                found.update(dict.fromkeys(ruled.decisions, ruled.verdict))
        return found

    def selected(self, end: int, asked: Ruling) -> list[int]:
        """Return the decisions that a ruling after ``end`` records is about."""
        return [each for each in self.decided if each <= end and self._fits(each, end, asked)]

    def _fits(self, decision: int, end: int, asked: Ruling) -> bool:
        made = self.decided[decision]
        if asked.until is not None and made.time >= asked.until:
            return False
        wanted, sources = (asked.labels or {}).items(), set(asked.sources or ())
        if _is_from({made.source}, sources) and wanted <= (made.labels or {}).items():
            return True
        place, earned = self.rewarded.get(decision, (math.inf, None))
        if earned is None or place > end:
            return False
        origins = {made.source, earned.source}
        return _is_from(origins, sources) and wanted <= self._labels(decision).items()

    def concerned(self, end: int, asked: Ruling) -> list[int]:
        """Return the decisions whose standing a ruling after ``end`` records changes."""
        verdict, before = _VERDICTS[type(asked)], self.verdicts_at(end)
        found = []
        for each in self.selected(end, asked):
            is_rewarded = each in self.rewarded and self.rewarded[each][0] <= end
            now = self.standing_of(each, before) if is_rewarded else before.get(each, "release")
            if now == "void":
                changes = verdict == "release"
            else:
                changes = verdict != now and (verdict == "void" or is_rewarded)
            if changes:
                found.append(each)
        return found

    # --- moments --------------------------------------------------------------------------

    def end_at(self, commit: int) -> int:
        """Return how many records there were after a number of transactions."""
        return sum(each <= commit for each in self.commits)

    def status_at(self, end: int, arm: str) -> str | None:
        """Return the status of an arm after ``end`` records; ``None`` if there is none."""
        return next(now.get(arm) for place, now in reversed(self._statuses) if place <= end)

    def unretired_at(self, end: int) -> int:
        """Return how many arms were not retired after ``end`` records."""
        statuses = next(now for place, now in reversed(self._statuses) if place <= end)
        return sum(status != "retired" for status in statuses.values())

    def is_changed(self, begin: int, end: int) -> bool:
        """Whether somebody did something, beside visits, between ``begin`` and ``end`` records."""
        plain = (*_DECISIONS, _REWARDED, _TICKED, _CONTRADICTED, _LEASED)
        return any(event[0] not in plain for event in self.events[begin:end])

    def phases(self, begin: int, end: int) -> set[str]:
        """Return the phases between ``begin`` and ``end`` records."""
        last = next(phase for place, phase in reversed(self._phases) if place <= begin)
        return {last} | {phase for place, phase in self._phases if begin < place <= end}


def _is_from(given: set[str | None], wanted: set[str]) -> bool:
    return not wanted or bool(given & wanted)


class Books:
    """All logs of a run, those that were deleted too."""

    def __init__(self, commits: list[Commit], secret: bytes) -> None:
        self.logs: dict[int, Log] = {}
        self._named: dict[int, tuple[str, int, float]] = {}
        for number, commit in enumerate(commits, 1):
            for log, name in commit.created.items():
                self.logs[log] = Log(log, name)
                self._named[log] = name, number, math.inf
            for log, records in commit.records.items():
                key = hashlib.blake2b(b"log %d" % log, key=secret).digest()
                for record in records:
                    self.logs[log].add(record, number, hashlib.blake2b(key=key, digest_size=16))
            for log in commit.deleted:
                self._named[log] = (*self._named[log][:2], number)

    def named(self, name: str, before: int, after: int) -> list[Log]:
        """Return the logs of a name that were there at some time between transactions."""
        return [
            self.logs[log]
            for log, (each, begins, ends) in self._named.items()
            if each == name and begins <= after and ends > before
        ]

    def can_be_missing(self, name: str, before: int, after: int) -> bool:
        """Whether there was no log of this name at some time between transactions."""
        spans = sorted((b, e) for each, b, e in self._named.values() if each == name)
        gaps = [(0, spans[0][0]), *((a[1], b[0]) for a, b in pairwise(spans))]
        gaps.append((spans[-1][1], math.inf))
        return any(begins <= after and ends > before for begins, ends in gaps if begins < ends)

    def was_deleted(self, log: int, after: int) -> bool:
        """Whether a log had been deleted after a number of transactions."""
        return log in self._named and self._named[log][2] <= after
