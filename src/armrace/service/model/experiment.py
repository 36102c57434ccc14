"""An experiment: the replay of its events.

``apply`` takes the events of the log in order and nothing else changes the state. Time is part of
the events: before an event is applied, all visits whose window has closed by then are settled, in
the order in which they began. So the state depends on what was said of each visit and not on when
it was said. With ``settle="immediate"`` a reward is learned when it comes, and only missing ones
are settled when the window closes.

A ruling concerns visits that may have been learned already. The replay therefore takes *verdicts*
in advance: what later events of the log say about a visit. They are collected before a log is
replayed. :meth:`ExperimentState.needs_replay` tells whether a new ruling contradicts the state, in
which case the log must be replayed from a snapshot that it leaves valid.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any

import msgspec

from armrace.contexts import Code
from armrace.errors import DamagedFile, InvalidParameter
from armrace.kernels.generics import is_restrictable
from armrace.service.log.chain import BEGINNING, Head, LogRecord, head_of
from armrace.service.model import events
from armrace.service.model.generation import DrawnArm, Generation, GenerationData, uniform_at
from armrace.service.model.history import FIRST_BUCKET, Audits, History
from armrace.service.model.settings import (
    FIRST_HORIZON,
    Settings,
    check_arm_values,
    read_settings,
)
from armrace.service.model.visits import (
    ArmTotals,
    HoldoutComparison,
    Holds,
    MetricTotals,
    OpenVisits,
    SourceCounts,
    SourceDay,
    Sources,
    Totals,
    VisitState,
)
from armrace_client.answers import ArmStatus, Phase, StandingHold, Verdict

_FORMAT = 2
_MEMOS = 0x3D0
"""Added to the seed for numbers that have nothing to do with who chooses an arm."""
_DIGEST_SIZE = 16


class LeaseState(msgspec.Struct, array_like=True):
    """A lease under which decisions are drawn elsewhere."""

    seed: bytes
    weights: list[int]
    visits: int
    expires: int
    generation: int
    drawn: dict[int, int] = msgspec.field(default_factory=dict)
    """The visits that were reported: their sequence numbers by the numbers of the draws."""


class _Data(msgspec.Struct, frozen=True, array_like=True):
    """An experiment as plain data."""

    format: int
    head: Head
    tenant: str
    name: str
    created: int
    time: int
    settings: Settings
    phase: Phase
    arms: list[tuple[str, ArmStatus]]
    generation: GenerationData
    decisions: int
    conflicts: int
    totals: list[ArmTotals]
    open: list[VisitState]
    voided: list[VisitState]
    leases: dict[int, LeaseState]
    holds: list[StandingHold]
    history: History
    sources: Sources
    leaves: dict[int, list[ArmTotals]] = {}
    arm_codes: list[bytes] = []
    comparison: HoldoutComparison | None = None
    guardrails: dict[str, list[MetricTotals]] = {}


class ExperimentState:
    """The state of one experiment, and the end of the log up to which it is replayed."""

    def __init__(
        self, event: events.Created, verdicts: Mapping[int, Verdict] | None = None
    ) -> None:
        self.head = BEGINNING
        self.tenant, self.name = event.tenant, event.name
        self.created = self.time = event.time
        self.rewarded_at = event.time
        """When the last reward came, at the latest: snapshots do not hold it."""
        self.settings: Settings = read_settings(event.settings)
        self.phase: Phase = "running"
        self.arms: list[str] = list(self.settings.arms)
        self.statuses: list[ArmStatus] = ["active"] * len(self.arms)
        self.arm_codes = self.settings.arm_codes
        self.decisions = 0
        self.is_deleted = False
        self.conflicts = 0
        """How many rewards were refused because their visit had another one."""
        self.open = OpenVisits()
        self.voided: dict[int, VisitState] = {}
        """Visits that count as never made; while their window is open, rewards may still come."""
        self.leases: dict[int, LeaseState] = {}
        self.holds = Holds(self.settings.quarantine)
        self.totals = Totals([ArmTotals() for _ in self.arms])
        self.leaves: dict[int, Totals] = {}
        """What was counted in each leaf that had a visitor."""
        self.comparison = HoldoutComparison() if self.settings.holdout else None
        """What visits of the holdout and all others have earned."""
        self.guardrails = {
            name: [MetricTotals() for _ in self.arms] for name in self.settings.guardrails
        }
        """What was counted of each guardrail, by arm."""
        self.history = History(event.time, due=event.time + FIRST_BUCKET)
        self.sources = Sources()
        horizon = self.settings.horizon or FIRST_HORIZON
        self.generation = self._started(0, range(len(self.arms)), horizon)
        self.verdicts: Mapping[int, Verdict] = verdicts or {}
        self._prepare()

    def _prepare(self) -> None:
        self.audits = Audits()
        self.index_of = {arm: index for index, arm in enumerate(self.arms)}
        self.scale = self.settings.scale()
        self.window = self.settings.window_milliseconds()
        self.restrictable = is_restrictable(self.settings.make_policy().start(2, 1000))
        """Whether decisions of the policy can be restricted to some arms."""
        self.missing = self.settings.missing_steps()
        """What a missing reward counts as, on the grid; ``None`` if the visit is dropped."""
        self.is_immediate = self.settings.settle == "immediate"
        schema = self.settings.schema
        self.leaf_names = [] if schema is None else schema.leaf_names()

    @classmethod
    def replay(
        cls,
        records: Iterable[tuple[LogRecord, events.Event]],
        experiment: ExperimentState | None = None,
        verdicts: Mapping[int, Verdict] | None = None,
    ) -> ExperimentState | None:
        """Apply verified records, from the beginning of a log or to an experiment; return it.

        The verdicts are what is ruled about visits in these records or later.
        """
        for record, event in records:
            if experiment is None:
                if not isinstance(event, events.Created):
                    raise DamagedFile("the log does not begin with the creation of an experiment.")
                experiment = cls(event, verdicts)
                experiment.head = head_of(record)
            else:
                experiment.apply(record, event)
        return experiment

    # --- applying events ------------------------------------------------------------------

    def apply(self, record: LogRecord, event: events.Event) -> None:
        """Apply the next event of the log."""
        time = event.time
        if time < self.time:
            raise DamagedFile(f"the log goes back in time at record {record.sequence}.")
        self.time = time
        is_due = time >= self.history.due or self.is_due(time)
        if is_due and not self._is_of_void(record.sequence, event):
            self.advance(time)
        if isinstance(event, events.Decided):  # these two first: nearly all are like that
            self._decided(record.sequence, event)
        elif type(event) is events.Rewarded:
            self._rewarded(event)
        else:
            self._change(record.sequence, event)
        self.head = head_of(record)

    def _change(self, sequence: int, event: events.Event) -> None:
        match event:
            case events.Ruled():
                self._ruled(event)
            case events.HoldChanged():
                self.holds.take(event)
            case events.ArmCreated():
                self._arm_added(event)
            case events.ArmChanged():
                self._arm_changed(event)
            case events.PhaseChanged():
                self.phase = event.phase
            case events.Contradicted():
                if not self._is_of_void(sequence, event):
                    self.conflicts += 1
            case events.StartedAfresh():
                self._start_again(event.horizon)
            case events.LeaseGranted():
                self._lease_granted(sequence, event)
            case events.Deleted():
                self.is_deleted = True
            case events.Created():
                raise DamagedFile(f"the log creates the experiment {self.name} twice.")
            case events.Ticked():
                pass

    def _is_of_void(self, sequence: int, event: events.Event) -> bool:
        """Whether an event is of a visit that counts as never made: no time passes by it."""
        visit = getattr(event, "decision", sequence)
        return visit in self.voided or self.verdicts.get(visit) == "void"

    def advance(self, time: int) -> None:
        """Settle all visits whose window has closed by ``time``, the time of the next event."""
        # Points of the history first: each must see the state of its own time, before what is due
        # later is settled (docs/decisions/023).
        if time >= self.history.due:
            self.history.catch_up(self, time)
        self.settle_until(time)

    def settle_until(self, time: int) -> None:
        """Settle all visits whose window has closed by ``time``, in their order."""
        before = time - self.window
        while (visit := self.open.pop_before(before)) is not None:
            self.totals.count_closed(visit)
            if visit.code is not None:
                self._totals_of(visit.code).count_closed(visit)
            if visit.held_out is not None:
                self._compare(visit)
            if visit.metrics is not None and visit.standing == "counted":
                for name, value in visit.metrics.items():
                    self.guardrails[name][visit.arm].add(value)
            if not visit.learned:
                steps = visit.counted_steps
                self.generation.learn(visit, self.missing if steps is None else steps)
        if self.voided:
            self.voided = {s: visit for s, visit in self.voided.items() if visit.time > before}

    def _compare(self, visit: VisitState) -> None:
        assert self.comparison is not None
        assert visit.held_out is not None
        steps = self.missing if visit.counted_steps is None else visit.counted_steps
        if steps is not None:
            self.comparison.count(visit.held_out, steps, self.settings.holdout)

    def _totals_of(self, code: Code) -> Totals:
        found = self.leaves.get(code.leaf)
        if found is None:
            found = self.leaves[code.leaf] = Totals([ArmTotals() for _ in self.arms])
        return found

    def is_due(self, time: int) -> bool:
        """Whether there are visits to settle by ``time``."""
        return self.open.oldest_time + self.window <= time

    def is_closed(self, visit: VisitState, time: int) -> bool:
        """Whether the window of a visit has closed by ``time``."""
        return visit.time + self.window <= time

    def find(self, sequence: int) -> VisitState | None:
        """Return a visit whose window may be open, voided or not."""
        return self.open.get(sequence) or self.voided.get(sequence)

    def _decided(self, sequence: int, event: events.Decided) -> None:
        verdict = self.verdicts.get(sequence) if self.verdicts else None
        generation, ticket, number = self.generation, event.ticket, -1
        code = event.code if isinstance(event, events.DecidedIn) else None
        if event.lease and (lease := self.leases.get(event.lease)) is not None:
            lease.drawn[event.draw] = sequence
            if lease.generation != generation.number:  # recorded, but it teaches nothing
                ticket = None
        if verdict == "void":
            # Random numbers are never used twice, even if nothing else is left of the draw.
            generation.note_taken(event.taken)
        elif ticket is not None:
            number, ticket = generation.assign(ticket, event.taken, event.lease > 0, code)
        visit = VisitState(
            sequence,
            event.time,
            event.arm,
            event.probability,
            generation.number,
            number,
            ticket,
            event.unit,
            event.request,
            event.source,
            event.labels,
            event.lease,
            event.draw,
            verdict=verdict,
            code=code,
        )
        if self.comparison is not None and event.by != "editor":
            visit.held_out = event.by == "holdout"
        if verdict == "void":
            self.voided[sequence] = visit
            return
        self.decisions += 1
        self.totals.count_decision(event.arm, event.shares)
        if code is not None:
            self._totals_of(code).count_decision(event.arm, b"")
        if event.source is not None:
            self.sources.count_visit(event.source, event.time)
        self.open.add(visit)

    def _rewarded(self, event: events.Rewarded) -> None:
        visit = self.find(event.decision)
        before = None if visit is None else visit.steps
        if visit is None or not visit.take(event):
            raise DamagedFile(f"the log rewards decision {event.decision}, which is not open.")
        self.rewarded_at = event.time
        if visit.verdict == "void":
            return
        if before is not None:  # another part: its visit keeps source and labels of the first
            assert visit.steps is not None
            origin = event.source or visit.source, {**(visit.labels or {}), **(event.labels or {})}
            standing = visit.standing
            visit.is_held = visit.is_held or self.holds.hold_back(*origin, event.suspicion)
            self.sources.add(visit, visit.steps - before, standing)
            return
        visit.source = event.source or visit.source
        if event.labels:
            visit.labels = {**(visit.labels or {}), **event.labels}
        visit.is_held = self.holds.hold_back(visit.source, visit.labels, event.suspicion)
        self.sources.count(visit, event.time)
        # A reward that is held counts if it is released before the window closes.
        if self.is_immediate and visit.counted_steps is not None:
            visit.learned = True
            self.generation.learn(visit, event.steps)

    def _ruled(self, event: events.Ruled) -> None:
        # What the replay was told in advance includes all that the log says later.
        new = (each for each in event.decisions if each not in self.verdicts)
        self._rule(dict.fromkeys(new, event.verdict))
        self.history.note_ruling(event)

    def preload(self, verdicts: Mapping[int, Verdict]) -> None:
        """Take verdicts in advance: what events of the log that follow say about visits."""
        self.verdicts = verdicts
        self._rule(verdicts)

    def _rule(self, verdicts: Mapping[int, Verdict]) -> None:
        for sequence, verdict in verdicts.items():
            visit = self.open.get(sequence)
            if visit is not None:
                before, visit.verdict = visit.standing, verdict
                self.sources.move(visit, before)

    def needs_replay(self, verdicts: Mapping[int, Verdict]) -> bool:
        """Whether rulings contradict the state, so that the log must be replayed."""
        return any(self._contradicts(sequence, each) for sequence, each in verdicts.items())

    def _contradicts(self, sequence: int, verdict: Verdict) -> bool:
        if verdict == "void":
            return sequence not in self.voided
        visit = self.open.get(sequence)
        if visit is None:
            return True
        learns = verdict == "release"
        return self.is_immediate and visit.steps is not None and visit.learned != learns

    def _arm_added(self, event: events.ArmCreated) -> None:
        self.index_of[event.arm] = len(self.arms)
        self.arms.append(event.arm)
        self.statuses.append("active")
        if self.arm_codes:
            self.arm_codes = [*self.arm_codes, event.features]
        for totals in (self.totals, *self.leaves.values()):
            totals.arms.append(ArmTotals())
        for metric in self.guardrails.values():
            metric.append(MetricTotals())
        if self.generation.learner.policy.takes_new_arms:
            self.generation.add_arm(len(self.arms) - 1, self.arm_codes)
        else:
            self._start_again(self.generation.horizon)

    def _arm_changed(self, event: events.ArmChanged) -> None:
        self.statuses[event.arm] = event.status
        if event.told and self.loses_arms:
            self.generation.set_arm(event.arm, event.status == "active")
        elif event.status == "retired" and (
            not self.restrictable or (event.told and len(self._unretired()) > 1)
        ):
            self._start_again(self.generation.horizon)

    def _lease_granted(self, sequence: int, event: events.LeaseGranted) -> None:
        self.leases = {s: each for s, each in self.leases.items() if each.expires > event.time}
        self.leases[sequence] = LeaseState(
            event.seed, event.weights, event.visits, event.expires, self.generation.number
        )

    def _start_again(self, horizon: int) -> None:
        last, unretired = self.generation, self._unretired()
        self.generation = self._started(last.number + 1, unretired, horizon)
        for place in last.learner.paused:
            self.generation.set_arm(int(place), is_active=False)

    def _started(self, number: int, places: Sequence[int], horizon: int) -> Generation:
        return Generation.start(self.settings, number, places, horizon, self.arm_codes)

    def _unretired(self) -> list[int]:
        return [index for index, status in enumerate(self.statuses) if status != "retired"]

    # --- what operations ask --------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether a guessed horizon has been reached, so that a new generation has to begin.

        A horizon that was given is kept. With one arm left there is nothing to learn: the
        generation stays, and goes on to choose that arm.
        """
        if self.settings.horizon is not None:  # first: this is asked at every decision
            return False
        reached = self.generation.learner.decisions >= self.generation.horizon
        return reached and len(self._unretired()) > 1

    @property
    def loses_arms(self) -> bool:
        """Whether the policy goes on without an arm."""
        return self.generation.learner.policy.loses_arms

    def encoded(self, context: Mapping[str, Any] | None, arms: Any = None) -> Code | None:
        """Return the features of a visitor, and of arms, as the log keeps them, or refuse them."""
        settings = self.settings
        of_arms = self._encoded_arms(arms)
        if context is not None and not isinstance(context, dict):
            raise InvalidParameter(f"context must give features by name; got {context!r:.100}.")
        if settings.schema is not None:
            code = settings.schema.encode(context or {}, settings.feature_key)
            return code._replace(features=code.features + of_arms) if of_arms else code
        if context:
            raise InvalidParameter(
                f"the experiment {self.name} declares no features; leave out the context, or create"
                " another experiment that declares them."
            )
        return None

    def encoded_arm(self, given: Any) -> bytes:
        """Return the code of a new arm's features, or refuse them."""
        schema = self.settings.schema
        if schema is not None and schema.arm_features:
            check_arm_values("features", {"": given or {}}, ("",))
            return schema.encode_arm(given or {}, self.settings.feature_key)
        if given:
            raise InvalidParameter(f"the experiment {self.name} declares no features of arms.")
        return b""

    def _encoded_arms(self, given: Any) -> bytes:
        """Return the code of all arms if a decision gives features of some; else nothing."""
        schema, key = self.settings.schema, self.settings.feature_key
        if schema is None or not schema.arm_features:
            if given:
                raise InvalidParameter(f"the experiment {self.name} declares no features of arms.")
            return b""
        check_arm_values("arms", given or {}, self.index_of)
        codes = [
            schema.encode_arm((given or {}).get(arm, {}), key, before)
            for arm, before in zip(self.arms, self.arm_codes, strict=True)
        ]
        for arm, status, code in zip(self.arms, self.statuses, codes, strict=True):
            if status == "active":
                schema.require_arm(arm, code)
        return b"".join(codes) if given else b""

    def draw(self, indices: list[int] | None, code: Code | None = None) -> DrawnArm:
        """Draw an arm, of those that :meth:`eligible_indices` returned, for the next decision.

        This changes nothing but the random stream.
        """
        floors, held_out = self.floors_among(indices), self.held_out_among(indices)
        both, place, number = mixed(floors, held_out), None, self.head.sequence + 1
        if both:
            # By the number of the record, which no ruling changes: lots are never used twice.
            place, left = _chosen(held_out, uniform_at(self.settings.seed, number))
            if place is not None:
                drawn = self.generation.draw(both, indices, len(self.arms), place, code)
                memo = uniform_at(self.settings.seed + _MEMOS, number)
                ticket = self.generation.ticket_of_others(place, memo)
                return drawn._replace(ticket=ticket, by="holdout")
            place, _ = _chosen(floors, left / (1.0 - self.settings.holdout))
        return self.generation.draw(both, indices, len(self.arms), place, code)

    def floors_among(self, indices: list[int] | None) -> dict[int, float]:
        """Return the floors of the arms that may be chosen, by index."""
        declared = self.settings.floors
        if not declared:
            return {}
        allowed = self.generation.places if indices is None else indices
        return {p: declared[self.arms[p]] for p in allowed if self.arms[p] in declared}

    def held_out_among(self, indices: list[int] | None) -> dict[int, float]:
        """Return the probabilities with which the holdout shows each arm that may be chosen."""
        share, arm = self.settings.holdout, self.settings.holdout_arm
        if not share:
            return {}
        allowed = self.generation.places if indices is None else indices
        if arm is not None and self.index_of[arm] in allowed:
            return {self.index_of[arm]: share}
        return dict.fromkeys(allowed, share / len(allowed))

    def eligible_indices(self, eligible: Iterable[str] | None) -> list[int] | None:
        """Return the indices of the arms that may be chosen; ``None`` if all of them may.

        If none may, or the policy cannot be restricted, that is refused.
        """
        # Active arms are always among the learner's, as retired ones never come back: if there are
        # as many, they are the same.
        if eligible is None and self.statuses.count("active") == len(self.generation.places):
            return None
        allowed = set()
        for arm in self.arms if eligible is None else eligible:
            if not isinstance(arm, str) or arm not in self.index_of:
                raise InvalidParameter(
                    f"eligible must name arms of this experiment; got {arm!r:.100}."
                )
            index = self.index_of[arm]
            if self.statuses[index] == "active":
                allowed.add(index)
        if len(allowed) == len(self.generation.places):
            return None
        if not allowed:
            raise InvalidParameter("eligible must name at least one active arm; got none.")
        if not self.restrictable:
            raise InvalidParameter(
                f"{self.generation.learner.policy.tag()} cannot be restricted to eligible arms."
            )
        return sorted(allowed)

    def frozen(self) -> ExperimentState:
        """Return the experiment as it is now, to be shown while this one goes on, or elsewhere.

        It has no visits and leases, and of sources only how many rewards are in quarantine.
        """
        frozen = object.__new__(type(self))  # not by copy(), which would save and load it
        vars(frozen).update(vars(self))
        frozen.open, frozen.voided, frozen.leases = OpenVisits(), {}, {}
        held = SourceCounts({-1: SourceDay(quarantined=self.sources.quarantined())})
        frozen.sources, frozen.audits = Sources(others=held), Audits()
        frozen.arms, frozen.statuses = [*self.arms], [*self.statuses]
        frozen.holds = Holds(self.settings.quarantine, self.holds.standing)
        frozen.totals = self.totals.copied()
        frozen.leaves = {leaf: totals.copied() for leaf, totals in self.leaves.items()}
        frozen.generation = self.generation.still()
        frozen.comparison = copy(self.comparison)
        frozen.guardrails = {n: [copy(each) for each in m] for n, m in self.guardrails.items()}
        frozen.history = msgspec.structs.replace(self.history, points=[*self.history.points])
        return frozen

    def started_afresh(self, horizon: int) -> ExperimentState:
        """Return the experiment as it would be in a new generation, to be shown."""
        fresh = self.frozen()
        fresh._start_again(horizon)
        return fresh

    # --- saving ---------------------------------------------------------------------------

    def save(self) -> bytes:
        """Return the experiment as bytes; equal states give equal bytes."""
        self.audits.wait()
        state = vars(self) | {
            "format": _FORMAT,
            "arms": list(zip(self.arms, self.statuses, strict=True)),
            "generation": self.generation.save(),
            "totals": self.totals.arms,
            "leaves": {leaf: self.leaves[leaf].arms for leaf in sorted(self.leaves)},
            "open": list(self.open),
            "voided": list(self.voided.values()),
            "holds": self.holds.standing,
        }
        data = _Data(*(state[name] for name in _Data.__struct_fields__))
        content = msgspec.msgpack.encode(data)
        # The chain covers records only; snapshots are checked by digests of their own.
        return _digest(content) + content

    def __reduce__(self) -> tuple[Any, ...]:
        return ExperimentState.load, (self.save(),)

    @classmethod
    def load(cls, content: bytes) -> ExperimentState:
        """Return an experiment that goes on exactly like the one that was saved."""
        data = _read(content)
        # Not by ``__init__``, which would start a learner only to throw it away.
        experiment = cls.__new__(cls)
        vars(experiment).update(msgspec.structs.asdict(data))
        experiment.rewarded_at = data.time
        experiment.arms = [arm for arm, _ in data.arms]
        experiment.statuses = [status for _, status in data.arms]
        codes = data.arm_codes
        experiment.generation = Generation.load(data.generation, data.settings, codes)
        experiment.totals = Totals(data.totals)
        experiment.leaves = {leaf: Totals(arms) for leaf, arms in data.leaves.items()}
        experiment.open = OpenVisits(data.open)
        experiment.voided = {visit.sequence: visit for visit in data.voided}
        experiment.holds = Holds(data.settings.quarantine, data.holds)
        experiment.verdicts, experiment.is_deleted = {}, False
        experiment._prepare()
        return experiment


def mixed(floors: dict[int, float], held_out: dict[int, float]) -> dict[int, float]:
    """Return the probabilities with which arms are chosen without asking the policy."""
    if not held_out:
        return floors
    rest, both = 1.0 - math.fsum(held_out.values()), dict(held_out)
    for place, floor in floors.items():
        both[place] = both.get(place, 0.0) + rest * floor
    return both


def _chosen(probabilities: dict[int, float], uniform: float) -> tuple[int | None, float]:
    """Return what a number in [0, 1) chooses, and how far it is beyond all probabilities."""
    for place, probability in probabilities.items():
        if uniform < probability:
            return place, 0.0
        uniform -= probability
    return None, uniform


def _read(content: bytes) -> _Data:
    data = content[_DIGEST_SIZE:]
    if content[:_DIGEST_SIZE] != _digest(data):
        raise DamagedFile("a snapshot in the store is damaged: it does not match its digest.")
    try:
        stored = msgspec.msgpack.decode(data, type=_Data)
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise DamagedFile(f"a snapshot in the store cannot be read: {error}.") from None
    if stored.format != _FORMAT:
        raise DamagedFile(
            f"a snapshot in the store has format {stored.format}; this version reads {_FORMAT}."
        )
    return stored


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_SIZE).digest()
