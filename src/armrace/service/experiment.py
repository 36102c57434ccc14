"""An experiment: the fold of its events.

``apply`` takes the events of the log in order and nothing else changes the state. Time is part of
the events: before an event is applied, all decisions whose window has closed by then are settled,
in the order in which they were made. So the state depends on what was said of each decision and not
on when it was said.

With ``settle="immediate"`` a reward is learned when it comes, and only missing ones are settled
when the window closes.

A retraction concerns rewards that may have been learned already. The fold therefore takes
*rulings* in advance: what later events of the log say about the reward of a decision. They are
collected before a log is folded. :meth:`Experiment.overrules` tells whether a new ruling
contradicts what was learned, in which case the log must be folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import ClassVar

import msgspec

from armrace.errors import DamagedFile, InvalidParameter
from armrace.service.answers import ArmStatus, Phase
from armrace.service.drawing import Drawn, draw, lot_of
from armrace.service.events import (
    ArmAdded,
    ArmChanged,
    Contradicted,
    Created,
    Decided,
    Event,
    PhaseChanged,
    Released,
    Retracted,
    Rewarded,
    StreamOpened,
    Ticked,
)
from armrace.service.generation import Generation, GenerationData, can_restrict
from armrace.service.history import History, Mark, MarkAudits, mark_of
from armrace.service.open_decisions import OpenDecision, OpenDecisions
from armrace.service.settings import FIRST_HORIZON, Settings, read_settings
from armrace.service.sources import Sources, standing_of
from armrace.service.totals import ArmTotals, Totals, TotalsData

__all__ = ["Experiment", "ExperimentData", "Rulings"]

Rulings = Mapping[int, bool]
"""Whether the reward of a decision counts, by the sequence number of the decision."""


class ExperimentData(msgspec.Struct, frozen=True, array_like=True):
    """An experiment as plain data."""

    number: int
    tenant: str
    name: str
    created: int
    settings: Settings
    phase: Phase
    arms: list[tuple[str, ArmStatus]]
    generation: GenerationData
    decisions: int
    settled_through: int
    totals: TotalsData
    open: list[OpenDecision]
    conflicts: int = 0
    history: History | None = None
    sources: Sources | None = None
    streams: int = 0


class Experiment:
    """The state of one experiment."""

    is_dormant: ClassVar[bool] = False
    """Whether it cannot be used before its policy is compiled."""

    def __init__(self, event: Created, rulings: Rulings | None = None) -> None:
        self.number = event.experiment
        self.tenant = event.tenant
        self.name = event.name
        self.created = event.time
        self.settings: Settings = read_settings(event.settings)
        self.phase: Phase = "running"
        self.arms: list[str] = list(self.settings.arms)
        self.statuses: list[ArmStatus] = ["active"] * len(self.arms)
        self.decisions = 0
        self.conflicts = 0
        """How many rewards were refused because their decision had another one."""
        self.streams = 0
        """How many random streams earlier versions gave to servers that drew before their turn."""
        self.settled_through = 0
        """The sequence number of the last decision that was settled."""
        self.open = OpenDecisions()
        self.totals = Totals([ArmTotals() for _ in self.arms])
        self.history = History.begin(event.time)
        self.sources = Sources()
        self.generation = self._fresh_generation(0, self.settings.horizon or FIRST_HORIZON)
        self.rulings: Rulings = rulings or {}
        self._prepare()

    def _prepare(self) -> None:
        self.audits = MarkAudits()
        self.place_of = {arm: place for place, arm in enumerate(self.arms)}
        self.scale = self.settings.scale()
        self.window = self.settings.window_milliseconds()
        self.restrictable = can_restrict(self.settings)
        self.missing = self.settings.missing_steps()
        """What a missing reward counts as, on the grid; ``None`` if the decision is dropped."""
        self.is_immediate = self.settings.settle == "immediate"

    @property
    def may_start_afresh(self) -> bool:
        """Whether a new generation starts when the horizon is reached.

        A horizon that was given is kept. With one arm left there is nothing to learn: the
        generation stays, and goes on to choose that arm.
        """
        return self.settings.horizon is None and len(self._unretired()) > 1

    def _unretired(self) -> list[int]:
        return [place for place, status in enumerate(self.statuses) if status != "retired"]

    def _fresh_generation(
        self, number: int, horizon: int, paused: Sequence[int] = ()
    ) -> Generation:
        return Generation.start(self.settings, number, self._unretired(), horizon, paused)

    # --- the fold -------------------------------------------------------------------------

    def apply(self, sequence: int, event: Event) -> None:
        """Apply an event of this experiment, the one after the last that was applied.

        Args:
            sequence: the sequence number of its record.
            event: the event.
        """
        if event.time >= self.history.due or self.is_due(event.time):
            self.advance(event.time)
        if isinstance(event, Decided):
            self._decided(sequence, event)
        elif isinstance(event, Rewarded):
            self._rewarded(event)
        elif isinstance(event, (Retracted, Released)):
            counts = isinstance(event, Released)
            self._ruled(event.decisions, counts)
            self.history.note_ruling(event.time, counts, len(event.decisions), event.reason)
        elif isinstance(event, ArmAdded):
            self._arm_added(event.arm)
        elif isinstance(event, ArmChanged):
            self._arm_changed(event)
        elif isinstance(event, PhaseChanged):
            self.phase = event.phase
        elif isinstance(event, Contradicted):
            self.conflicts += 1
        elif isinstance(event, StreamOpened):
            self.streams += 1
        elif not isinstance(event, Ticked):
            raise DamagedFile(f"the log creates the experiment {self.name} twice.")

    def advance(self, time: int) -> None:
        """Settle all decisions whose window has closed by ``time``, the time of the next event."""
        # Marks first: each must see the state of its own time, before what is due later is settled
        # (docs/decisions/023).
        if time >= self.history.due:
            self.history.catch_up(time, self._mark_at, self.audits, self.begin_audit)
        self.settle_until(time)

    def begin_audit(self, mark: Mark) -> None:
        """Audit what was learned so far, for a mark."""
        self.audits.begin(mark, self.generation.learner)

    def _mark_at(self, time: int) -> Mark:
        self.settle_until(time)
        return mark_of(self, time)

    def settle_until(self, time: int) -> None:
        """Settle all decisions whose window has closed by ``time``, in their order."""
        while (decision := self.open.pop_before(time - self.window)) is not None:
            self._settle(decision)

    def is_due(self, time: int) -> bool:
        """Whether there are decisions to settle by ``time``."""
        return self.open.oldest_time + self.window <= time

    def is_closed(self, decision: OpenDecision, time: int) -> bool:
        """Whether the window of a decision has closed by ``time``."""
        return decision.time + self.window <= time

    def _settle(self, decision: OpenDecision) -> None:
        self.settled_through = decision.sequence
        self.totals.count_closed(decision)
        if not decision.learned:
            steps = decision.counted_steps
            self.generation.learn(decision, self.missing if steps is None else steps)

    def _decided(self, sequence: int, event: Decided) -> None:
        number, ticket = -1, None
        if event.ticket is not None:
            number, ticket = self.generation.assign(event.ticket, event.taken)
        self.decisions += 1
        self.totals.count_decision(event.arm, event.shares)
        self.open.add(
            OpenDecision(
                sequence,
                event.time,
                event.arm,
                event.probability,
                self.generation.number,
                number,
                ticket,
                event.unit,
                event.request,
                ruling=self.rulings.get(sequence),
            )
        )
        # Last: the decision that reaches the horizon still belongs to the generation that made it.
        self.start_afresh_if_over()

    def start_afresh_if_over(self) -> None:
        """Start a new generation if a guessed horizon has been reached."""
        guessed = self.settings.horizon is None  # first: this is asked at every decision
        if guessed and self.generation.is_over and self.may_start_afresh:
            self._start_again(2 * self.generation.horizon)

    def _rewarded(self, event: Rewarded) -> None:
        decision = self.open.get(event.decision)
        if decision is None or decision.steps is not None:
            raise DamagedFile(f"the log rewards decision {event.decision}, which is not open.")
        decision.steps = event.steps
        decision.source = event.source
        decision.suspicious = self.is_suspicious(event.suspicion)
        self.sources.count(decision, event.time)
        # A reward in quarantine waits: it counts if it is released before the window closes.
        if self.is_immediate and decision.counted_steps is not None:
            decision.learned = True
            self.generation.learn(decision, event.steps)

    def is_suspicious(self, suspicion: float | None) -> bool:
        """Whether a reward of this suspicion goes into quarantine."""
        threshold = self.settings.quarantine
        return threshold is not None and suspicion is not None and suspicion > threshold

    def _ruled(self, decisions: Iterable[int], counts: bool) -> None:
        for sequence in decisions:
            decision = self.open.get(sequence)
            # What the fold was told in advance includes all that the log says later.
            if decision is not None and sequence not in self.rulings:
                self._rule(decision, counts)

    def _rule(self, decision: OpenDecision, counts: bool) -> None:
        before = standing_of(decision)
        decision.ruling = counts
        self.sources.move(decision, before)

    def foresee(self, rulings: Rulings) -> None:
        """Take rulings in advance: what events of the log that follow say about rewards."""
        self.rulings = rulings
        for sequence, counts in rulings.items():
            decision = self.open.get(sequence)
            if decision is not None:
                self._rule(decision, counts)

    def forget_rulings(self) -> None:
        """Take rulings from now on from events alone, at the end of the log."""
        self.rulings = {}

    def overrules(self, decisions: Iterable[int], counts: bool) -> bool:
        """Whether a ruling changes what was learned, so that the log must be folded again.

        Args:
            decisions: the decisions that the ruling is about.
            counts: whether their rewards count.
        """
        return any(self._is_past(sequence, counts) for sequence in decisions)

    def _is_past(self, sequence: int, counts: bool) -> bool:
        decision = self.open.get(sequence)
        if decision is None:
            return True
        return self.is_immediate and decision.steps is not None and decision.learned != counts

    def _arm_added(self, arm: str) -> None:
        self.place_of[arm] = len(self.arms)
        self.arms.append(arm)
        self.statuses.append("active")
        self.totals.add_arm()
        if self.takes_new_arms:
            self.generation.add_arm(len(self.arms) - 1)
        else:
            self._start_again(self.generation.horizon)

    def _arm_changed(self, event: ArmChanged) -> None:
        self.statuses[event.arm] = event.status
        if event.told and self.loses_arms:
            self.generation.set_arm(event.arm, event.status == "active")
        elif event.status == "retired" and (
            not self.restrictable or (event.told and len(self._unretired()) > 1)
        ):
            self._start_again(self.generation.horizon)

    def _start_again(self, horizon: int) -> None:
        number, unretired = self.generation.number + 1, self._unretired()
        paused = [p for p in self.generation.learner.paused if p in unretired]
        self.generation = self._fresh_generation(number, horizon, paused)

    @property
    def loses_arms(self) -> bool:
        """Whether the policy goes on without an arm."""
        return self.generation.learner.policy.loses_arms

    @property
    def takes_new_arms(self) -> bool:
        """Whether the policy accepts new arms while it runs."""
        return self.generation.learner.policy.takes_new_arms

    # --- drawing --------------------------------------------------------------------------

    def draw(self, places: list[int] | None) -> Drawn:
        """Draw an arm for the next decision, which changes nothing but the random stream.

        Args:
            places: what :meth:`eligible_places` returned.

        Returns:
            The arm, with all that its event must carry.
        """
        floors = self.floors_among(places)
        lot = lot_of(self.settings.seed, self.decisions) if floors else 0.0
        return draw(self.generation, floors, places, len(self.arms), lot)

    def floors_among(self, places: list[int] | None) -> dict[int, float]:
        """Return the floors of the arms that may be chosen, by place."""
        declared = self.settings.floors
        if not declared:
            return {}
        allowed = self.generation.places if places is None else places
        return {p: declared[self.arms[p]] for p in allowed if self.arms[p] in declared}

    def eligible_places(self, eligible: Iterable[str] | None) -> list[int] | None:
        """Return the places of the arms that may be chosen; ``None`` if all of them may.

        Raises:
            InvalidParameter: no arm may be chosen, or the policy cannot be restricted.
        """
        # Active arms are always among the learner's, as retired ones never come back: if there are
        # as many, they are the same.
        if eligible is None and self.statuses.count("active") == len(self.generation.places):
            return None
        wanted = self._wanted_places(eligible)
        allowed = sorted(place for place in wanted if self.statuses[place] == "active")
        if len(allowed) == len(self.generation.places):
            return None
        if not allowed:
            raise InvalidParameter("eligible must name at least one active arm; got none.")
        if not self.restrictable:
            raise InvalidParameter(
                f"{self.generation.learner.policy.tag()} cannot be restricted to eligible arms."
            )
        return allowed

    def _wanted_places(self, eligible: Iterable[str] | None) -> set[int]:
        if eligible is None:
            return set(range(len(self.arms)))
        try:
            return {self.place_of[arm] for arm in eligible}
        except (KeyError, TypeError):
            known = self.place_of
            arm = next(a for a in eligible if not isinstance(a, str) or a not in known)
            raise InvalidParameter(
                f"eligible must name arms of this experiment; got {arm!r:.100}."
            ) from None

    def still(self) -> Experiment:
        """Return the experiment as it is now, to be shown while this one goes on.

        It shares the open decisions and the sources, which must not be looked at.
        """
        still = copy(self)
        still.arms, still.statuses = [*self.arms], [*self.statuses]
        still.totals, still.generation = self.totals.still(), self.generation.still()
        still.history = msgspec.structs.replace(self.history, marks=[*self.history.marks])
        return still

    # --- saving ---------------------------------------------------------------------------

    def save(self) -> ExperimentData:
        """Return the experiment as plain data; equal states give equal data."""
        self.audits.wait()
        return ExperimentData(
            self.number,
            self.tenant,
            self.name,
            self.created,
            self.settings,
            self.phase,
            list(zip(self.arms, self.statuses, strict=True)),
            self.generation.save(),
            self.decisions,
            self.settled_through,
            self.totals.save(),
            list(self.open),
            self.conflicts,
            self.history,
            self.sources,
            self.streams,
        )

    @classmethod
    def load(cls, data: ExperimentData, rulings: Rulings | None = None) -> Experiment:
        """Return an experiment that goes on exactly like the one that was saved.

        Args:
            data: what :meth:`save` returned.
            rulings: what later events say about rewards, by decision.
        """
        # Not by ``__init__``, which would start a learner only to throw it away.
        experiment = cls.__new__(cls)
        experiment.number, experiment.tenant, experiment.name = data.number, data.tenant, data.name
        experiment.created, experiment.settings = data.created, data.settings
        experiment.phase = data.phase
        experiment.arms = [arm for arm, _ in data.arms]
        experiment.statuses = [status for _, status in data.arms]
        experiment.generation = Generation.load(data.generation, data.settings)
        experiment.decisions, experiment.settled_through = data.decisions, data.settled_through
        experiment.conflicts, experiment.streams = data.conflicts, data.streams
        experiment.totals = Totals(data.totals.arms)
        experiment.history = data.history or History.begin(data.created)
        experiment.sources = data.sources or Sources()
        experiment.open = OpenDecisions(data.open)
        experiment._prepare()
        experiment.foresee(rulings or {})
        return experiment
