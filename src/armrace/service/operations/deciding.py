"""Deciding and rewarding; decisions may be drawn elsewhere under a lease, and reported later."""

from __future__ import annotations

import math
import secrets
from functools import lru_cache
from typing import Any

from armrace.contexts import Code
from armrace.errors import (
    AlreadyExists,
    ArmraceError,
    DecisionExpired,
    ForeignTicket,
    InvalidParameter,
    NotRunning,
    RewardConflict,
    TooManyOpen,
    UnknownName,
)
from armrace.kernels.generics import Ticket, Visitor
from armrace.limits import Limits
from armrace.service.keyring import LEASE, TokenContent
from armrace.service.loading import events_of
from armrace.service.model.events import (
    ACTIONS,
    By,
    Contradicted,
    Decided,
    LeaseGranted,
    Rewarded,
    StartedAfresh,
    decided,
    verdicts_in,
)
from armrace.service.model.experiment import ExperimentState, LeaseState, mixed
from armrace.service.model.generation import uniform_at
from armrace.service.model.settings import check_label, check_labels
from armrace.service.model.visits import VisitState
from armrace.service.work import (
    KeptRefusal,
    Said,
    Session,
    Target,
    Work,
    as_batch,
    on_experiment,
)
from armrace_client import answers
from armrace_client.leases import Draws, integer_weights
from armrace_client.operations import (
    Decide,
    DecideBatch,
    LeasedVisit,
    RecordDecision,
    Report,
    Reward,
    RewardBatch,
    TakeLease,
)

_MOST_LEASES = 1000
"""How many leases of an experiment may be open at once."""
_LEASE_UNIT = 2**32
_MOST_PARTS = 1000
SUSPICION = Limits("suspicion", 0, 1)
_STATUSES: dict[str, Any] = {
    "reward-conflict": "conflict",
    "foreign-ticket": "unknown",
    "decision-expired": "expired",
}


@on_experiment(Decide)
def decide(work: Work, asked: Decide) -> answers.DecisionAnswer:
    """Make a decision, or return the open one of the same request or unit."""
    experiment = work.experiment
    unit, request = _check_identifiers(work, asked)
    code = experiment.encoded(asked.context, asked.arms)
    known = _find_open(work, request, unit, asked.eligible)
    if known is not None:
        return _repeated(work, known, request, code)
    _check_running(work)
    labels = _check_origin(asked)
    indices = experiment.eligible_indices(asked.eligible)
    # Only now, after all that can be refused: settling changes the state.
    work.advance()
    drawn = experiment.draw(indices, code)
    *what, by = drawn
    event = decided(code, work.time, *what, unit, request, asked.source, labels, by)
    return _add(work, event)


def _check_running(work: Work) -> None:
    """Refuse a decision of an experiment that makes none, or that has too many open."""
    experiment = work.experiment
    if experiment.phase != "running":
        raise NotRunning(f"the experiment {experiment.name} is {experiment.phase}.")
    most = experiment.settings.most_open
    # If some are due, settling them makes room.
    if len(experiment.open) >= most and not experiment.is_due(work.time):
        raise TooManyOpen(
            f"open decisions must be at most {most}; wait until the window of some closes."
        )


def _check_identifiers(
    work: Work, asked: Decide | RecordDecision | LeasedVisit
) -> tuple[bytes | None, bytes | None]:
    """Return what the log holds of the unit and the request of a visit, or refuse them."""
    if asked.unit is None and asked.request is None:
        return None, None
    for what, given in (("unit", asked.unit), ("request", asked.request)):
        if given is not None:
            check_label(what, given)
    return work.shard.hashed(asked.unit), work.shard.hashed(asked.request)


def _check_origin(asked: Decide | RecordDecision | LeasedVisit | Reward) -> dict[str, str] | None:
    """Refuse a source or labels that are not valid; return the labels."""
    if asked.source is not None:
        check_label("source", asked.source)
    return check_labels(asked.labels)


def _find_open(
    work: Work,
    request: bytes | None,
    unit: bytes | None = None,
    eligible: list[str] | None = None,
) -> VisitState | None:
    """Return the open visit of a request, or that of a unit whose arm may be shown again."""
    experiment = work.experiment
    if request is not None:
        found = experiment.open.of_request(request)
        if found is not None and not experiment.is_closed(found, work.time):
            return found
    found = None if unit is None else experiment.open.of_unit(unit)
    if found is None or experiment.is_closed(found, work.time):
        return None
    may_show = eligible is None or experiment.arms[found.arm] in eligible
    return found if may_show and experiment.statuses[found.arm] == "active" else None


def find_arm(experiment: ExperimentState, arm: str) -> int:
    """Return the index of an arm by its name."""
    if arm not in experiment.index_of:
        raise UnknownName.among("arm", str(arm)[:100], experiment.arms)
    return experiment.index_of[arm]


def _add(work: Work, event: Decided) -> answers.DecisionAnswer:
    made = work.experiment.open.get(work.add(event))
    assert made is not None
    answer = _answer(work, made, repeated=False)
    start_afresh_if_over(work)
    return answer


def start_afresh_if_over(work: Work) -> None:
    """Begin a new generation if a guessed horizon is reached; the last decision is of the old."""
    if work.experiment.is_over:
        horizon = 2 * work.experiment.generation.horizon
        work.add(StartedAfresh(work.time, horizon, "the guessed horizon was reached"))


def _token_of(work: Work, sequence: int, made: VisitState | Decided) -> TokenContent:
    closes = made.time + work.experiment.window
    return TokenContent(work.shard.log, sequence, made.arm, closes)


def _answer(work: Work, made: VisitState, repeated: bool) -> answers.DecisionAnswer:
    name = work.keys.sign(work.experiment.tenant, _token_of(work, made.sequence, made))
    experiment, leaf = work.experiment, None
    if made.code is not None:
        leaf = experiment.leaf_names[made.code.leaf]
    arm = experiment.arms[made.arm]
    return answers.DecisionAnswer(name, experiment.name, arm, made.probability, repeated, leaf)


def _repeated(
    work: Work, known: VisitState, request: bytes | None, code: Code | None
) -> answers.DecisionAnswer:
    """Answer with an open visit; refuse a request that comes again for another visitor."""
    if request is not None and known.request == request and known.code != code:
        raise AlreadyExists("a decision was made for the same request in another context.")
    return _answer(work, known, repeated=True)


@on_experiment(RecordDecision)
def record(work: Work, asked: RecordDecision) -> answers.DecisionAnswer:
    """Record a decision of somebody else; the policy learns what it can without bias."""
    experiment = work.experiment
    unit, request = _check_identifiers(work, asked)
    code = experiment.encoded(asked.context, asked.arms)
    known = _find_open(work, request)
    if known is not None:
        return _repeated(work, known, request, code)
    _check_running(work)
    index, labels = find_arm(experiment, asked.arm), _check_origin(asked)
    work.advance()
    uniform = uniform_at(experiment.settings.seed, experiment.head.sequence + 1)
    ticket = experiment.generation.ticket_of_others(index, uniform)
    origin = (unit, request, asked.source, labels)
    return _add(work, decided(code, work.time, index, ticket, 0, None, b"", *origin, "editor"))


def _decide_target(asked: Decide) -> Target:
    return asked.name, lambda work: decide(work, asked)


def _list_decisions(asked: DecideBatch, outcomes: list[Any]) -> answers.DecisionList:
    refused = {n: each for n, each in enumerate(outcomes) if isinstance(each, ArmraceError)}
    if refused and len(refused) == len(outcomes):
        raise refused[0]
    return answers.DecisionList(
        [None if number in refused else each for number, each in enumerate(outcomes)],
        [answers.RefusedDecision(number, each.code, str(each)) for number, each in refused.items()],
    )


as_batch(
    DecideBatch,
    lambda session, asked: [_decide_target(each.of(asked.name)) for each in asked.decisions],
    _list_decisions,
)


# --- rewards ----------------------------------------------------------------------------------


class RewardCommand:
    """Says what a visit earned. The answer does not tell whether the reward is held."""

    def __init__(self, token: TokenContent, asked: Reward) -> None:
        self._token, self._asked = token, asked
        self.visit = token.sequence

    def __call__(self, work: Work) -> answers.RewardStatus:
        experiment, asked, token = work.experiment, self._asked, self._token
        steps, part = experiment.settings.reward_steps(asked.value), _check_part(work, asked)
        metrics = experiment.settings.metric_steps(asked.metrics)
        labels, score = _check_origin(asked), asked.suspicion
        suspicion = None if score is None else experiment.settings.suspicion_of(score)
        visit = experiment.find(self.visit)
        made, said = _look_up(work, self.visit) if visit is None else (visit, _said_of(visit))
        stored = said.get(part)
        # After a restore from an older backup, numbers are given out again.
        if made is None or (made.arm, made.time + experiment.window) != (token.arm, token.closes):
            raise ForeignTicket(
                "the decision is of another log, or of one that was restored from an older backup."
            )
        if stored is None:
            if visit is None or experiment.is_closed(visit, work.time):
                raise DecisionExpired(
                    f"the decision could be rewarded for {experiment.settings.window:g} seconds, "
                    "which are over."
                )
            if len(said) >= _MOST_PARTS:
                raise InvalidParameter(f"parts of a decision must be at most {_MOST_PARTS}.")
            told = (asked.source, suspicion, labels, metrics, part)
            work.add(Rewarded(work.time, self.visit, steps, *told))
            return answers.RewardStatus("accepted")
        # What is sent again is answered as the first time, even after the window has closed.
        if stored == (steps, metrics):
            return answers.RewardStatus("duplicate")
        if visit is not None or not _is_void(work, self.visit):
            work.add(Contradicted(work.time, self.visit))
        if stored[0] == steps:
            raise KeptRefusal(RewardConflict("the decision has had its reward with other metrics."))
        had, got = experiment.scale.reward(stored[0]), experiment.scale.reward(steps)
        raise KeptRefusal(RewardConflict(f"the decision has had the reward {had:g}; got {got:g}."))


def _check_part(work: Work, asked: Reward) -> bytes | None:
    """Return what the log holds of the part that a reward is, or refuse it."""
    if work.experiment.settings.accumulate:
        if asked.part is None:
            raise InvalidParameter(
                "part must say what the reward is for, such as the number of an order: the rewards "
                "of this experiment add up."
            )
        return work.shard.hashed(check_label("part", asked.part))
    if asked.part is not None:
        raise InvalidParameter("part is for experiments that accumulate rewards.")
    return None


def _said_of(visit: VisitState) -> Said:
    said: Said = {} if visit.steps is None else {None: (visit.steps, visit.metrics)}
    return said if visit.parts is None else dict(visit.parts.items())


def _look_up(work: Work, sequence: int) -> tuple[Decided | None, Said]:
    """Return the decision of a visit that is not open, and the reward that it has had."""
    if sequence not in work.late:
        # For all rewards of the transaction at once, since a store on another machine takes time
        # for each question.
        wanted = {sequence, *work.late_wanted}
        work.late = {each: (None, {}) for each in wanted}
        transaction, log = work.flush(), work.shard.log
        for record, event in events_of(list(transaction.read_many(log, wanted))):
            if isinstance(event, Decided):
                work.late[record.sequence] = event, {}
        for _, event in events_of(list(transaction.find_many(log, wanted))):
            assert isinstance(event, Rewarded)
            work.late[event.decision][1][event.part] = event.steps, event.metrics
    return work.late[sequence]


def _is_void(work: Work, sequence: int) -> bool:
    """Whether a visit whose window has closed counts as never made, which only the log tells."""
    if not work.experiment.history.rulings:
        return False
    found = work.flush().find_many(work.shard.log, (ACTIONS,))
    return verdicts_in(found).get(sequence) == "void"


def _reward_target(session: Session, asked: Reward) -> Target:
    try:
        token = session.read_token(asked.decision)
    except ArmraceError as refusal:
        return refusal, lambda work: None
    return token.log, RewardCommand(token, asked)


def _reward_answer(outcome: Any) -> answers.RewardAnswer:
    if isinstance(outcome, ArmraceError):
        return answers.RewardAnswer(_status_of(outcome), str(outcome))
    return answers.RewardAnswer(outcome.status)


def _status_of(refusal: ArmraceError) -> Any:
    """Return how the answer of a batch calls a member that is refused."""
    return _STATUSES.get(refusal.code, "invalid")


as_batch(
    Reward,
    lambda session, asked: [_reward_target(session, asked)],
    lambda asked, outcomes: outcomes[0],
)
as_batch(
    RewardBatch,
    lambda session, asked: [_reward_target(session, each) for each in asked.rewards],
    lambda asked, outcomes: answers.RewardList([_reward_answer(each) for each in outcomes]),
)


# --- leases -----------------------------------------------------------------------------------

# Decision n of a lease is a pure function of the lease and n (armrace_client.leases). The service
# draws it again when the visit is reported, so that nobody can choose an arm, and counts each draw
# once. What the policy is told is the probability under which the arm was drawn.


@on_experiment(TakeLease)
def take_lease(work: Work, asked: TakeLease) -> answers.Lease:
    """Grant a lease with the weights of now."""
    experiment = work.experiment
    generation = experiment.generation
    if not generation.learner.weighs:
        raise InvalidParameter(
            f"{generation.learner.policy.tag()} cannot be leased: it does not draw its decisions "
            "by the weights of a moment; use decide."
        )
    if not generation.looks_at_leaf_alone:
        raise InvalidParameter(
            f"{generation.learner.policy.tag()} cannot be leased in an experiment with features: "
            "its weights depend on all of them, and a lease has one set for each leaf; use decide."
        )
    _check_running(work)
    alive = sum(each.expires > work.time for each in experiment.leases.values())
    if alive >= _MOST_LEASES:
        raise InvalidParameter(f"leases that have not expired must be at most {_MOST_LEASES}.")
    work.advance()
    visitors = map(generation.visitor_of_leaf, range(experiment.settings.shape.leaves))
    weights = [
        weight
        for visitor in visitors
        for weight in integer_weights(_probabilities(experiment, visitor))
    ]
    seed, expires = secrets.token_bytes(32), work.time + round(1000 * asked.seconds)
    sequence = work.add(LeaseGranted(work.time, seed, weights, asked.visits, expires, work.actor))
    content = TokenContent(work.shard.log, sequence, 0, expires)
    token, arms = work.keys.sign(experiment.tenant, content, LEASE), [*experiment.arms]
    schema, key = experiment.settings.schema, experiment.settings.feature_key
    shown = key.hex() if schema is not None and schema.needs_key() else ""
    terms = (weights, seed.hex(), sequence, asked.visits, expires, schema, shown)
    return answers.Lease(token, experiment.name, arms, *terms)


def _probabilities(experiment: ExperimentState, visitor: Visitor) -> list[float]:
    """Return the probability of every arm, with floors and holdout; 0 for those not to choose."""
    own = experiment.generation.learner.distribution(visitor)
    active = [
        index
        for index, status in enumerate(experiment.statuses)
        if status == "active" and index in experiment.generation.places
    ]
    floors = mixed(experiment.floors_among(active), experiment.held_out_among(active))
    rest = 1.0 - math.fsum(floors.get(index, 0.0) for index in active)
    total = math.fsum(own.get(index, 0.0) for index in active)
    return [
        floors.get(index, 0.0) + rest * own.get(index, 0.0) / total if index in active else 0.0
        for index in range(len(experiment.arms))
    ]


def _report_each(session: Session, asked: Report) -> list[Target]:
    try:
        token = session.read_token(asked.lease, LEASE)
    except ArmraceError:
        raise ForeignTicket("no lease of this service has this name.") from None
    return [(token.log, _ReportVisit(token, asked.name, each)) for each in asked.visits]


def _list_visits(asked: Report, outcomes: list[Any]) -> answers.VisitList:
    for number, each in enumerate(outcomes):
        if isinstance(each, TooManyOpen):  # for now: all are sent again, and each counts once
            raise each
        if isinstance(each, ArmraceError):
            outcomes[number] = answers.VisitAnswer(_status_of(each), None, str(each))
    return answers.VisitList(outcomes)


as_batch(Report, _report_each, _list_visits)


@lru_cache(64)
def _draws(seed: bytes, stream: int, weights: tuple[int, ...], leaves: int) -> Draws:
    """Return the draws of a lease; a block of them is drawn once for visits reported together."""
    return Draws(seed, stream, weights, leaves)


class _ReportVisit:
    """Counts a visit that was drawn under a lease, and its reward if it has one."""

    def __init__(self, token: TokenContent, name: str, asked: LeasedVisit) -> None:
        self._token, self._name, self._asked = token, name, asked

    def __call__(self, work: Work) -> answers.VisitAnswer:
        asked, experiment = self._asked, work.experiment
        lease = experiment.leases.get(self._token.sequence)
        if experiment.name != self._name:
            raise ForeignTicket("the lease is of another experiment.")
        if lease is None or lease.expires <= work.time:
            raise DecisionExpired("the lease has expired; take another one.")
        if asked.draw >= lease.visits:
            raise InvalidParameter(f"draw must be below {lease.visits}; got {asked.draw}.")
        if asked.value is not None:  # refused before anything is added
            if experiment.settings.accumulate:
                raise InvalidParameter(
                    "value must be left out where rewards add up; send rewards with their parts."
                )
            experiment.scale.steps(asked.value)
            experiment.settings.metric_steps(asked.metrics)
            if asked.suspicion is not None:
                experiment.settings.suspicion_of(asked.suspicion)
        elif asked.metrics:
            raise InvalidParameter("metrics come with a reward; send them with it.")
        known = lease.drawn.get(asked.draw)
        sequence = self._count(work, lease) if known is None else known
        # A report that is sent again is answered as the first time, even after the window closed.
        made = experiment.find(sequence) or _look_up(work, sequence)[0]
        assert made is not None
        return self._rewarded(work, _token_of(work, sequence, made), known is None)

    def _count(self, work: Work, lease: LeaseState) -> int:
        asked, experiment = self._asked, work.experiment
        generation, leaves = experiment.generation, experiment.settings.shape.leaves
        code = experiment.encoded(asked.context)
        leaf = 0 if code is None else code.leaf
        origin = (*_check_identifiers(work, asked), asked.source, _check_origin(asked))
        _check_running(work)
        draws = _draws(lease.seed, self._token.sequence, tuple(lease.weights), leaves)
        arm = draws.arm(asked.draw, leaf)
        weight = lease.weights[leaf * (len(lease.weights) // leaves) + arm]
        probability, ticket = weight / _LEASE_UNIT, None
        if lease.generation == generation.number and arm in generation.places:
            # Draws of a floor cannot be told from the policy's own; with floors, the probability
            # of both together is that under which the arm came.
            ticket = Ticket(generation.places.index(arm), probability=probability)
        work.advance()
        drawn = (self._token.sequence, asked.draw)
        by: By = "holdout" if self._is_held_out(work, arm, lease, leaf) else "lease"
        made = (arm, ticket, 0, probability, b"", *origin, by, *drawn)
        event = decided(code, work.time, *made)
        sequence = work.add(event)
        start_afresh_if_over(work)
        return sequence

    def _is_held_out(self, work: Work, arm: int, lease: LeaseState, leaf: int) -> bool:
        """Whether a draw is one of the holdout, whose probabilities are part of the weights.

        A coin decides it with the probability that the holdout has chosen the arm, given that the
        arm was chosen, so that holdout and policy show the arms that they would have.
        """
        settings = work.experiment.settings
        if not settings.holdout:
            return False
        width = len(lease.weights) // settings.shape.leaves
        weights = lease.weights[leaf * width :][:width]
        own = work.experiment.index_of.get(settings.holdout_arm or "")
        if own is not None and own < width and weights[own]:
            share = settings.holdout if arm == own else 0.0
        else:  # with a holdout, every arm that may be shown has some weight
            share = settings.holdout / sum(map(bool, weights))
        coin = uniform_at(settings.seed, work.experiment.head.sequence + 1)
        return coin * weights[arm] < share * _LEASE_UNIT

    def _rewarded(self, work: Work, token: TokenContent, is_new: bool) -> answers.VisitAnswer:
        asked, name = self._asked, work.keys.sign(work.experiment.tenant, token)
        if asked.value is None:
            return answers.VisitAnswer("accepted" if is_new else "duplicate", name)
        said = asked.source, asked.suspicion, asked.labels, asked.metrics
        reward = Reward(name, asked.value, *said)
        try:
            status = RewardCommand(token, reward)(work).status
        except KeptRefusal as kept:
            return answers.VisitAnswer("conflict", name, str(kept.refusal))
        return answers.VisitAnswer("accepted" if is_new else status, name)
