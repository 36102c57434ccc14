"""The checker: what clients were told, against what the logs hold.

It shares no code with the replay. It reads logs as data, works out for itself what each answer had
to be and what learners must have learned, and names the first contradiction. An answer is judged by
the log as it was between the arrival of the operation and its answer.
"""

import math
from collections import Counter
from typing import Any

from armrace.service.keyring import LEASE
from armrace.service.loading import events_of
from armrace.service.model.experiment import ExperimentState
from armrace_client.operations import (
    AddArm,
    Create,
    Decide,
    Delete,
    Finish,
    Hold,
    Pause,
    PauseArm,
    RecordDecision,
    Release,
    Report,
    Resume,
    ResumeArm,
    RetireArm,
    Retract,
    Reward,
    StartAfresh,
    TakeLease,
    Void,
)
from torture.books import Books, Contradiction, Log, require
from torture.learning import learn
from torture.world import LASTING, World

_STATUSES = {AddArm: "active", ResumeArm: "active", PauseArm: "paused", RetireArm: "retired"}
_PHASES = {Pause: "paused", Resume: "running", Finish: "finished"}


def check(world: World) -> None:
    """Check a finished run.

    Raises:
        Contradiction: something is wrong; the message says what.
    """
    require(not world.differences, "; ".join(world.differences))
    judge = _Judge(world)
    told: set[int] = set()
    for answer in world.history:
        if answer.attempt not in told:  # else it is a copy
            told.add(answer.attempt)
            judge.check(answer)
    judge.check_rulings(world)
    _check_states(world)


class _Judge:
    """Checks answers one by one."""

    def __init__(self, world: World) -> None:
        self._books = Books(world.store.commits, world.keyring.store_secret())
        self._keys = world.keyring.signing_keys()
        self._slack = 0 if world.kinds.shared_clock else world.kinds.skew
        """By how much the time of the log may differ from the true time."""
        self._new: Counter[tuple[str, int, int]] = Counter()
        self._ruled: set[tuple[int, int]] = set()
        self._answer: Any = None
        self._kinds = {
            Decide: self._check_decision,
            RecordDecision: self._check_decision,
            Reward: self._check_reward,
            TakeLease: self._check_lease,
            Report: self._check_report,
            **dict.fromkeys(_STATUSES, self._check_arm),
            **dict.fromkeys(_PHASES, self._check_phase),
            **dict.fromkeys((Retract, Void, Hold, Release), self._check_ruling),
            StartAfresh: self._check_afresh,
            Create: self._check_created,
            Delete: self._check_deleted,
        }

    def check(self, answer: Any) -> None:
        """Check an answer."""
        self._answer = answer
        self._kinds[type(answer.operation)](answer, answer.operation)

    def _span(self, log: Log) -> tuple[int, int]:
        """Return how many records a log had before and after the operation."""
        return log.end_at(self._answer.before), log.end_at(self._answer.after)

    def _log(self, number: int, words: str) -> Log:
        require(number in self._books.logs, f"{words} is of no log")
        return self._books.logs[number]

    def _check_once(self, kind: str, log: Log, place: int, words: str) -> None:
        self._new[kind, log.number, place] += 1
        require(self._new[kind, log.number, place] == 1, f"{words} twice")

    def _check_refusal(self, answer: Any, name: str) -> None:
        """Refusals to decide name what was so at the time: a pause, or no such experiment."""
        logs = self._books.named(name, answer.before, answer.after)
        if answer.outcome == "not-running":
            phases = {each for log in logs for each in log.phases(*self._span(log))}
            require(bool(phases - {"running"}), f"{answer.operation} was refused while it runs")
            return
        missing = self._books.can_be_missing(name, answer.before, answer.after)
        kept = answer.outcome == "unknown-name" and missing
        require(kept, f"{type(answer.operation).__name__} of {name} answered {answer.outcome}")

    # --- decisions and rewards ------------------------------------------------------------

    def _check_decision(self, answer: Any, asked: Any) -> None:
        if isinstance(answer.outcome, str):
            self._check_refusal(answer, asked.name)
            return
        token = self._keys.read("main", answer.outcome.decision)
        words = f"decision {token.sequence}"
        log = self._log(token.log, words)
        begin, end = self._span(log)
        event = log.decided.get(token.sequence)
        require(event is not None, f"{words} was acknowledged and is not kept")
        require(log.name == asked.name, f"{words} is of another experiment")
        require(token.sequence <= end, f"{words} was acknowledged before it was kept")
        require(answer.outcome.arm == log.arms[event.arm], f"{words} showed another arm")
        require(answer.outcome.probability == event.probability, f"{words} had other odds")
        if not answer.outcome.repeated:
            require(begin < token.sequence, f"{words} was made before, and called new")
            self._check_once("decision", log, token.sequence, f"{words} was made")
            given = (event.source, event.labels or {})
            require(given == (asked.source, asked.labels or {}), f"{words} is another's")
            require(
                (event.by == "editor") == isinstance(asked, RecordDecision),
                f"{words} is by another",
            )
            if isinstance(asked, RecordDecision):
                require(log.arms[event.arm] == asked.arm, f"{words} recorded another arm")
        else:
            late = answer.asked - self._slack
            require(event.time + log.window > late, f"{words} had closed, and was repeated")
            voided = log.verdicts_at(begin).get(token.sequence) == "void"
            again = any(token.sequence in r.decisions for p, r in log.ruled if begin < p <= end)
            require(not voided or again, f"{words} was voided, and repeated")

    def _check_reward(self, answer: Any, asked: Reward) -> None:
        """Each answer is the one that a register written at most once gives."""
        token = self._keys.read("main", asked.decision)
        log, decision, value = self._books.logs[token.log], token.sequence, asked.value
        begin, end = self._span(log)
        place, event = log.rewarded.get(decision, (math.inf, None))
        same = event is not None and event.steps == round(value * 2**20)
        words = f"the reward {value} of decision {decision} was answered {answer.outcome}"
        status = getattr(answer.outcome, "status", answer.outcome)
        if status == "accepted":
            require(begin < place <= end, f"{words} and is not kept then")
            require(same, f"{words}, with another value kept")
            metrics = {name: round(m * 2**19) for name, m in (asked.metrics or {}).items()} or None
            given = (asked.source, asked.suspicion, asked.labels, metrics)
            kept = (event.source, event.suspicion, event.labels, event.metrics)
            require(kept == given, f"{words}, as another")
            self._check_once("reward", log, decision, words)
        elif status == "duplicate":
            require(place <= end and same, f"{words}, without a first one")
        elif status == "reward-conflict":
            require(place <= end, f"{words} without a reward to be in conflict with")
            require(not same, f"{words} with the same value")
            kept = any(begin < each <= end for each in log.contradicted.get(decision, []))
            void = any(log.verdicts_at(e).get(decision) == "void" for e in range(begin, end + 1))
            require(kept or void, f"{words} and is not counted")
        elif status == "decision-expired":
            closed = log.decided[decision].time + log.window <= answer.answered + self._slack
            require(closed, f"{words} within the window")
            require(place > begin, f"{words}, but it had a reward")
        else:
            gone = self._books.was_deleted(log.number, answer.after)
            require(status == "foreign-ticket" and gone, words)

    # --- leases ---------------------------------------------------------------------------

    def _check_lease(self, answer: Any, asked: TakeLease) -> None:
        if answer.outcome == "invalid-parameter":
            logs = self._books.named(asked.name, answer.before, answer.after)
            policies = {log.settings["policy"]["name"] for log in logs}
            leased = policies - {"optimistic-log-barrier", "leaf-barrier"}
            require(bool(leased), "a lease was refused")
            return
        if isinstance(answer.outcome, str):
            self._check_refusal(answer, asked.name)
            return
        token = self._keys.read("main", answer.outcome.lease, LEASE)
        log = self._log(token.log, "a lease")
        begin, end = self._span(log)
        granted = log.leases.get(token.sequence)
        require(begin < token.sequence <= end and granted is not None, "a lease is not kept")
        seen, kept = answer.outcome, granted
        right = (seen.weights, seen.seed) == (kept.weights, kept.seed.hex())
        require(right and seen.stream == token.sequence, "a lease is another's")

    def _check_report(self, answer: Any, asked: Report) -> None:
        token = self._keys.read("main", asked.lease, LEASE)
        log = self._books.logs[token.log]
        if isinstance(answer.outcome, str):
            raise Contradiction(f"a report answered {answer.outcome}")
        for visit, said in zip(asked.visits, answer.outcome.visits, strict=True):
            words = f"draw {visit.draw} of lease {token.sequence} was answered {said.status}"
            words += f" ({said.detail})" if said.detail else ""
            self._check_visit(log, token.sequence, visit, said, words)

    def _check_visit(self, log: Log, lease: int, visit: Any, said: Any, words: str) -> None:
        begin, end = self._span(log)
        late, granted = self._answer.answered + self._slack, log.leases[lease]
        place = log.drawn.get((lease, visit.draw), math.inf)
        if said.status == "expired":
            closed = place <= end and log.decided[place].time + log.window <= late
            require(granted.expires <= late or (closed and visit.value is not None), words)
        elif said.status == "unknown":
            require(self._books.was_deleted(log.number, self._answer.after), words)
        elif said.status == "invalid":
            paused = log.phases(begin, end) != {"running"}
            require(visit.draw >= granted.visits or paused, words)
        else:
            require(place <= end, f"{words}, and is not kept")
            named = self._keys.read("main", said.decision).sequence
            require(named == place, f"{words} under the name of another")
            self._check_visit_reward(log, int(place), visit, said.status, words)

    def _check_visit_reward(
        self, log: Log, decision: int, visit: Any, status: str, words: str
    ) -> None:
        begin, end = self._span(log)
        place, event = log.rewarded.get(decision, (math.inf, None))
        same = event is not None and event.steps == round((visit.value or 0) * 2**20)
        if status == "conflict":
            require(place <= end and not same, words)
        elif visit.value is None:
            first = begin < decision
            require(first or status == "duplicate", f"{words}, and was there before")
            if status == "accepted":
                self._check_once("decision", log, decision, words)
        else:
            require(place <= end and same, f"{words}, and its reward is not kept")
            if status == "accepted":
                require(begin < place, f"{words}, and had been before")
                self._check_once("reward", log, decision, words)

    # --- changes --------------------------------------------------------------------------

    def _check_arm(self, answer: Any, asked: Any) -> None:
        (log,) = self._books.named(asked.name, answer.before, answer.after)
        (begin, end), kind = self._span(log), type(asked).__name__
        status = _STATUSES[type(asked)]
        changed = {log.status_at(each, asked.arm) for each in range(begin, end + 1)}
        if isinstance(answer.outcome, str):
            return
        if isinstance(asked, AddArm) and answer.outcome.status == "paused":
            status = "paused"  # it was there
        require(answer.outcome.status == status, f"{kind} answered {answer.outcome.status}")
        require(status in changed, f"{kind} of {asked.arm} is not kept")

    def _check_phase(self, answer: Any, asked: Any) -> None:
        if isinstance(answer.outcome, str):
            require(asked.name not in LASTING, f"{asked} answered {answer.outcome}")
            return
        phases: set[str] = set()
        for log in self._books.named(asked.name, answer.before, answer.after):
            phases |= log.phases(*self._span(log))
        require(_PHASES[type(asked)] in phases, f"{type(asked).__name__} is not kept")

    def _check_afresh(self, answer: Any, asked: StartAfresh) -> None:
        (log,) = self._books.named(asked.name, answer.before, answer.after)
        begin, end = self._span(log)
        if answer.outcome == "invalid-parameter":
            left = min(log.unretired_at(each) for each in range(begin, end + 1))
            require(left == 1, "a fresh start was refused with two arms left")
            return
        if isinstance(answer.outcome, str):
            self._check_refusal(answer, asked.name)
            return
        reasons = [event[3] for event in log.events[begin:end] if event[0] == 10]
        require(asked.reason in reasons, "a fresh start is not kept")

    def _check_created(self, answer: Any, asked: Create) -> None:
        named = self._books.named(asked.name, answer.before, answer.after)
        require(bool(named) and not isinstance(answer.outcome, str), "a creation is not kept")

    def _check_deleted(self, answer: Any, asked: Delete) -> None:
        missing = self._books.can_be_missing(asked.name, answer.before, answer.after)
        # Of two tries, the second may find the experiment that was created again.
        require(missing or answer.outcome == "not-running", f"delete answered {answer.outcome}")

    # --- rulings --------------------------------------------------------------------------

    def _check_ruling(self, answer: Any, asked: Any) -> None:
        (log,) = self._books.named(asked.name, answer.before, answer.after)
        begin, end = self._span(log)
        words = f"{type(asked).__name__} of {asked.sources or asked.labels}"
        if answer.outcome == "outdated":
            require(asked.head is not None, f"{words} is outdated, and has seen nothing")
            require(log.is_changed(_seen(asked.head), end), f"{words} is outdated without reason")
            return
        require(not isinstance(answer.outcome, str), f"{words} answered {answer.outcome}")
        ends = range(begin, end + 1) if asked.head is None else [_seen(asked.head)]
        if asked.preview:
            self._check_preview(log, answer, asked, words)
            return
        kept = [(p, r) for p, r in log.ruled if r.reason == asked.reason and begin < p <= end]
        if not answer.outcome.changed:
            none = any(not log.concerned(each, asked) for each in ends)
            require(none, f"{words} changed nothing, but should have")
        else:
            # Tries of the same ruling may be served at the same time.
            found = [p for p, r in kept if len(r.decisions) == answer.outcome.changed]
            own = [p for p in found if (log.number, p) not in self._ruled]
            require(bool(own), f"{words} is not kept")
            self._ruled.add((log.number, own[0]))
        if getattr(asked, "standing", False):
            changes = [h for p, h in log.standing if begin < p <= end and h.reason == asked.reason]
            begins = isinstance(asked, Hold)
            require([h.begins for h in changes[:1]] == [begins], f"{words} does not stand")

    def _check_preview(self, log: Log, answer: Any, asked: Any, words: str) -> None:
        """A preview shows the state at its head, and what the ruling makes of it."""
        end = _seen(answer.outcome.head)
        require(not any(r.reason == asked.reason for _, r in log.ruled), f"{words} was kept")
        changed, before = log.concerned(end, asked), log.verdicts_at(end)
        require(answer.outcome.changed == len(changed), f"{words} previews others")
        verdict = "void" if isinstance(asked, Void) else "release"
        after = {**before, **dict.fromkeys(changed, verdict)}
        for view, ruled in ((answer.outcome.before, before), (answer.outcome.after, after)):
            made = [d for d in log.decided if d <= end and ruled.get(d) != "void"]
            require(view.decisions == len(made), f"{words} previews another state")

    def check_rulings(self, world: World) -> None:
        """Every ruling of a log concerns the visits that were to be ruled about when it began."""
        asked = {
            each.operation.reason: each.operation
            for each in world.history
            if isinstance(each.operation, (Retract, Void, Hold, Release))
        }
        for log in self._books.logs.values():
            for place, event in log.ruled:
                ruling = asked.get(event.reason)
                require(ruling is not None, f"record {place} is a ruling of nobody")
                ends = range(log.end_at(world.asked[event.reason]), place)
                if ruling.head is not None:
                    ends = range(_seen(ruling.head), _seen(ruling.head) + 1)
                    require(not log.is_changed(ends[0], place - 1), f"record {place} is outdated")
                right = [log.concerned(each, ruling) for each in ends]
                require(sorted(event.decisions) in right, f"record {place} rules about others")


def _seen(head: str) -> int:
    return int(head.partition("-")[0])


def _check_states(world: World) -> None:
    world.now += 10_000_000
    with world.scaled_down():
        services = [node.service for node in world.nodes]
        views = [[service.describe(name) for name in LASTING] for service in services]
        sources = {name: services[0].sources(name) for name in LASTING}
        fresh = world.make_service("fresh", lambda: world.now)
        replayed = world.make_service("replayed", lambda: world.now)
        states = [
            [_state(service, name, whole=service is replayed) for name in LASTING]
            for service in [*services, fresh, replayed]
        ]
        world.scheduler.kill("fresh")
        world.scheduler.kill("replayed")
    require(all(state == states[0] for state in states), "the replayed log is not the live state")
    books = Books(world.store.commits, world.keyring.store_secret())
    for place, name in enumerate(LASTING):
        (log,) = books.named(name, 0, len(world.store.commits))
        for each in views:
            _check_view(each[place], log)
        _check_sources(sources[name], log)
        number, expected = learn(log)
        live = states[0][place].generation
        require(live.number == number, "another number of generations")
        found, right = live.learner.snapshot().state, expected.snapshot().state
        require(found == right, "the learner learned something else")


class _State:
    """An experiment that equals another if its bytes do."""

    def __init__(self, experiment: Any) -> None:
        self.generation = experiment.generation
        self._content = experiment.save()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _State) and self._content == other._content

    __hash__ = None  # type: ignore[assignment]


def _state(service: Any, name: str, whole: bool) -> _State:
    """Return the state of an experiment in memory, or what the whole log yields."""
    service.check_ratio(name)  # loads it, and applies what others have appended
    log = service.engine.locate("main", name)
    if whole:
        experiment = _replayed(service.engine.reader(log))
    else:
        (experiment,) = [each.experiment for each in service.engine.loaded if each.log == log]
    return _State(experiment)


def _replayed(reader: Any) -> Any:
    """Return what a log yields from its beginning, with all its rulings known in advance."""
    experiment, verdicts = None, reader.verdicts()
    for part in reader.parts():
        experiment = ExperimentState.replay(events_of(part), experiment, verdicts)
    return experiment


def _check_view(view: Any, log: Log) -> None:
    """Compare figures that anybody can count with those of the service."""
    visits = log.visits
    require(view.created == log.events[0][1], "the experiment is another")
    require(view.decisions == len(visits), "decisions are miscounted")
    require(view.open == 0, "decisions are open after their window")
    conflicts = sum(len(log.contradicted.get(each, ())) for each in visits)
    require(view.conflicts == conflicts, "conflicts are miscounted")
    made = Counter(event.arm for event in visits.values())
    counted = Counter(event.arm for place, event in visits.items() if log.counts(place))
    rewarded = Counter(event.arm for place, event in visits.items() if place in log.rewarded)
    for place, arm in enumerate(view.arms):
        require(arm.arm == log.arms[place], "arms are in another order")
        require(arm.status == log.status_at(len(log.events), arm.arm), "an arm is as it was")
        require(arm.decisions == arm.closed == made[place], "an arm's decisions are miscounted")
        require(arm.rewarded == counted[place], "the rewards that count are miscounted")
        require(arm.withheld == rewarded[place] - counted[place], "withheld ones are miscounted")
        total = sum(
            log.rewarded[each][1].steps / 2**20
            for each, event in visits.items()
            if event.arm == place and log.counts(each)
        )
        missing, learned = view.settings["missing"], counted[place]
        if missing != "drop":
            total, learned = total + missing * (made[place] - learned), made[place]
        mean = total / learned if learned else None
        require(arm.mean == mean, "a mean of rewards is wrong")
    _check_holdout(view, log)
    (watched,) = view.guardrails
    for place, each in enumerate(watched.arms):
        brought = [
            log.rewarded[decision][1].metrics
            for decision, event in visits.items()
            if event.arm == place and log.counts(decision)
        ]
        values = [metrics["latency"] / 2**19 for metrics in brought if metrics]
        require(each.count == len(values), "a guardrail is miscounted")
        right = (
            each.mean is None
            if not values
            else math.isclose(each.mean, math.fsum(values) / len(values))
        )
        require(right, "the mean of a guardrail is wrong")


def _check_holdout(view: Any, log: Log) -> None:
    """Work out from its formula what the policy has earned against the holdout."""
    share, missing = log.settings.get("holdout", 0.0), log.settings["missing"]
    require((view.holdout is None) == (not share), "a holdout has no report")
    difference = earned = seen = 0.0
    for place, event in log.visits.items():
        paid = log.rewarded[place][1].steps / 2**20 if log.counts(place) else missing
        if not share or event.by == "editor" or paid == "drop":
            continue
        beyond = paid - (earned + 0.5) / (seen + 1)
        difference += -beyond / share if event.by == "holdout" else beyond / (1 - share)
        earned, seen = earned + paid, seen + 1
    if seen:
        right = min(max(difference / seen, -1.0), 1.0)  # no difference of rewards is larger
        near = math.isclose(view.holdout.difference, right, abs_tol=1e-9)
        require(near, "the holdout is compared with something else")


def _check_sources(views: list[Any], log: Log) -> None:
    """Compare the counts of each source with what its visits and rewards amount to."""
    right: dict[str | None, Counter[str]] = {}
    words = {"release": "counted", "hold": "quarantined", "retract": "retracted"}
    for place, made in log.visits.items():
        if made.source is not None:
            right.setdefault(made.source, Counter())["visits"] += 1
        if place in log.rewarded:
            standing = words[log.standing_of(place)]
            right.setdefault(log.source(place), Counter())[standing] += 1
    for view in views:
        for kind in ("visits", *words.values()):
            found = sum(getattr(day, kind) for day in view.days)
            expected = right.get(view.source, Counter())[kind]
            require(found == expected, f"{kind} of {view.source} are miscounted")
    require({view.source for view in views} >= set(right), "a source is missing")
