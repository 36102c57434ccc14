"""Deciding and rewarding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from armrace.errors import (
    ArmraceError,
    DecisionExpired,
    ForeignTicket,
    NotRunning,
    RewardConflict,
    TooManyOpen,
    UnknownName,
)
from armrace.limits import Limits, check_number
from armrace.service.log.chain import Record as LogRecord
from armrace.service.model.drawing import lot_of
from armrace.service.model.events import (
    ACTIONS,
    By,
    Contradicted,
    Decided,
    Rewarded,
    StartedAfresh,
    decode,
    verdicts_in,
)
from armrace.service.model.experiment import Experiment
from armrace.service.model.settings import check_label, check_labels
from armrace.service.model.visits import Visit
from armrace.service.operations.handlers import Where, as_batch, on_experiment
from armrace.service.tokens import TokenContent
from armrace.service.work import KeptRefusal, Principal, Work
from armrace_client.answers import (
    Decision,
    DecisionList,
    RefusedDecision,
    RewardAnswer,
    RewardList,
    RewardStatus,
)
from armrace_client.operations import Decide, DecideBatch, Record, Reward, RewardBatch

if TYPE_CHECKING:
    from armrace.service.engine import Command, Engine

__all__ = [
    "RewardCommand",
    "check_running",
    "check_suspicion",
    "find_name",
    "start_afresh_if_over",
]

_ELSEWHERE = "the decision is of another log, or of one that was restored from an older backup."
_SUSPICION = Limits("suspicion", 0, 1)
_STATUSES: dict[str, Any] = {
    "reward-conflict": "conflict",
    "foreign-ticket": "unknown",
    "decision-expired": "expired",
}


@on_experiment(Decide)
def decide(work: Work, asked: Decide) -> Decision:
    """Make a decision, or return the open one of the same request or unit."""
    experiment = work.experiment
    unit, request = _identifiers(work, asked)
    known = _find_open(work, asked, unit, request)
    if known is not None:
        return _answer(work, known, repeated=True)
    check_running(work)
    if asked.source is not None:
        check_label("source", asked.source)
    labels = check_labels(asked.labels)
    indices = experiment.eligible_indices(asked.eligible)
    # Only now, after all that can be refused: settling changes the state.
    work.advance()
    drawn = experiment.draw(indices)
    by: By = "policy" if drawn.ticket is not None else "floor"
    return _add(work, Decided(work.time, *drawn, unit, request, asked.source, labels, by))


def check_running(work: Work) -> None:
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


def _identifiers(work: Work, asked: Decide | Record) -> tuple[bytes | None, bytes | None]:
    for what, given in (("unit", asked.unit), ("request", asked.request)):
        if given is not None:
            check_label(what, given)
    return work.shard.hashed(asked.unit), work.shard.hashed(asked.request)


def _find_open(
    work: Work, asked: Decide, unit: bytes | None, request: bytes | None
) -> Visit | None:
    """Return the open visit of the same request or unit, if there is one."""
    experiment = work.experiment
    if request is not None:
        found = experiment.open.of_request(request)
        if found is not None and not experiment.is_closed(found, work.time):
            return found
    if unit is not None:
        found = experiment.open.of_unit(unit)
        if (
            found is not None
            and not experiment.is_closed(found, work.time)
            and _may_show(experiment, asked, found.arm)
        ):
            return found
    return None


def _may_show(experiment: Experiment, asked: Decide, arm: int) -> bool:
    """Whether an arm may be shown again: it is active and, if arms are named, among them."""
    named = asked.eligible is None or experiment.arms[arm] in asked.eligible
    return named and experiment.statuses[arm] == "active"


def _add(work: Work, event: Decided) -> Decision:
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


def find_name(work: Work, sequence: int) -> str:
    """Return the signed name of a visit, whether its window is open or not."""
    visit = work.experiment.find(sequence)
    if visit is not None:
        return _name(work, sequence, visit.arm, visit.time)
    decided = decode(_look_up(work, sequence)[0].payload)
    assert isinstance(decided, Decided)
    return _name(work, sequence, decided.arm, decided.time)


def _name(work: Work, sequence: int, arm: int, time: int) -> str:
    content = TokenContent(work.shard.log, sequence, arm, time + work.experiment.window)
    return work.keys.sign(work.experiment.tenant, content)


def _answer(work: Work, made: Visit, repeated: bool) -> Decision:
    experiment = work.experiment
    return Decision(
        _name(work, made.sequence, made.arm, made.time),
        experiment.name,
        experiment.arms[made.arm],
        made.probability,
        repeated,
    )


@on_experiment(Record)
def record(work: Work, asked: Record) -> Decision:
    """Record a decision of somebody else; the policy learns what it can without bias."""
    experiment = work.experiment
    unit, request = _identifiers(work, asked)
    known = None if request is None else experiment.open.of_request(request)
    if known is not None and not experiment.is_closed(known, work.time):
        return _answer(work, known, repeated=True)
    check_running(work)
    if asked.arm not in experiment.index_of:
        raise UnknownName.among("arm", str(asked.arm)[:100], experiment.arms)
    if asked.source is not None:
        check_label("source", asked.source)
    labels, index = check_labels(asked.labels), experiment.index_of[asked.arm]
    work.advance()
    lot = lot_of(experiment.settings.seed, experiment.head.sequence + 1)
    ticket = experiment.generation.ticket_of_others(index, lot)
    return _add(
        work,
        Decided(
            work.time, index, ticket, 0, None, b"", unit, request, asked.source, labels, "editor"
        ),
    )


def _decide_each(
    engine: Engine, asked: DecideBatch, principal: Principal
) -> Sequence[tuple[Where, Command]]:
    def command(each: Decide) -> Command:
        return lambda work: decide(work, each)

    return [(asked.name, command(each.of(asked.name))) for each in asked.decisions]


def _list_decisions(asked: DecideBatch, outcomes: list[Any]) -> DecisionList:
    refused = {n: each for n, each in enumerate(outcomes) if isinstance(each, ArmraceError)}
    if refused and len(refused) == len(outcomes):
        raise refused[0]
    return DecisionList(
        [None if number in refused else each for number, each in enumerate(outcomes)],
        [RefusedDecision(number, each.code, str(each)) for number, each in refused.items()],
    )


as_batch(DecideBatch, _decide_each, _list_decisions)


# --- rewards ----------------------------------------------------------------------------------


def check_suspicion(suspicion: float | None) -> None:
    """Refuse a suspicion that is not a share."""
    if suspicion is not None:
        check_number("suspicion", suspicion, _SUSPICION)


class RewardCommand:
    """Says what a visit earned. The answer does not tell whether the reward is held.

    Args:
        token: what the signed name of the visit says.
        asked: the reward.
    """

    def __init__(self, token: TokenContent, asked: Reward) -> None:
        self._token, self._asked = token, asked
        self.visit = token.sequence

    def __call__(self, work: Work) -> RewardStatus:
        experiment, asked, token = work.experiment, self._asked, self._token
        steps = experiment.scale.steps(asked.value)
        labels = check_labels(asked.labels)
        if asked.source is not None:
            check_label("source", asked.source)
        check_suspicion(asked.suspicion)
        visit = experiment.find(self.visit)
        if visit is None:
            return self._answer_late(work, steps)
        if not _names(token, experiment, visit.arm, visit.time):
            raise ForeignTicket(_ELSEWHERE)
        # A reward that is sent again is answered as the first time, even after the window has
        # closed.
        if visit.steps is None and experiment.is_closed(visit, work.time):
            raise _expired(experiment)
        if visit.steps is not None:
            return self._answer_again(work, visit.steps, steps, counts=True)
        suspicion = None if asked.suspicion is None else float(asked.suspicion)
        work.add(Rewarded(work.time, self.visit, steps, asked.source, suspicion, labels))
        return RewardStatus("accepted")

    def _answer_again(self, work: Work, stored: int, steps: int, counts: bool) -> RewardStatus:
        if stored == steps:
            return RewardStatus("duplicate")
        if counts:
            work.add(Contradicted(work.time, self.visit))
        scale = work.experiment.scale
        raise KeptRefusal(
            RewardConflict(
                f"the decision has had the reward {scale.reward(stored):g}; "
                f"got {scale.reward(steps):g}."
            )
        )

    def _answer_late(self, work: Work, steps: int) -> RewardStatus:
        """Answer when the visit is not open: from the log, or with a refusal."""
        events = [decode(record.payload) for record in _look_up(work, self.visit)]
        decided = events[0] if events else None
        if not isinstance(decided, Decided) or not _names(
            self._token, work.experiment, decided.arm, decided.time
        ):
            raise ForeignTicket(_ELSEWHERE)
        if len(events) == 1:
            raise _expired(work.experiment)
        rewarded = events[1]
        assert isinstance(rewarded, Rewarded)
        counts = rewarded.steps != steps and not _is_void(work, self.visit)
        return self._answer_again(work, rewarded.steps, steps, counts)


def _look_up(work: Work, sequence: int) -> list[LogRecord]:
    """Return what the log holds of a visit that is not open: its decision, and its reward."""
    if sequence not in work.late:
        # For all rewards of the transaction at once, since a store on another machine takes time
        # for each question.
        wanted = {sequence, *work.late_wanted}
        work.late = {each: [] for each in wanted}
        transaction, log = work.flush(), work.shard.log
        for record in transaction.read_many(log, wanted):
            work.late[record.sequence].append(record)
        for record in transaction.find_many(log, wanted):
            assert record.subject is not None
            work.late[record.subject].append(record)
    return work.late[sequence]


def _is_void(work: Work, sequence: int) -> bool:
    """Whether a visit whose window has closed counts as never made, which only the log tells."""
    if not work.experiment.history.rulings:
        return False
    found = work.flush().find_many(work.shard.log, (ACTIONS,))
    return verdicts_in(found).get(sequence) == "void"


def _expired(experiment: Experiment) -> DecisionExpired:
    return DecisionExpired(
        f"the decision could be rewarded for {experiment.settings.window:g} seconds, "
        "which are over."
    )


def _names(token: TokenContent, experiment: Experiment, arm: int, time: int) -> bool:
    """Whether a token names a visit, and not one that had its number in another log.

    After a restore from an older backup, numbers are given out again.
    """
    return token.arm == arm and token.closes == time + experiment.window


def _reward_each(
    engine: Engine, asked: RewardBatch, principal: Principal
) -> Sequence[tuple[Where, Command]]:
    return [_reward_call(engine, each, principal) for each in asked.rewards]


def _reward_call(engine: Engine, asked: Reward, principal: Principal) -> tuple[Where, Command]:
    try:
        token = engine.keyring.signing_keys().read(principal.tenant, asked.decision)
    except ArmraceError as refusal:
        return refusal, lambda work: None
    return token.log, RewardCommand(token, asked)


def _list_rewards(asked: RewardBatch, outcomes: list[Any]) -> RewardList:
    return RewardList([_reward_answer(each) for each in outcomes])


def _reward_answer(outcome: Any) -> RewardAnswer:
    if isinstance(outcome, ArmraceError):
        return RewardAnswer(_STATUSES.get(outcome.code, "invalid"), str(outcome))
    return RewardAnswer(outcome.status)


as_batch(RewardBatch, _reward_each, _list_rewards)
as_batch(
    Reward,
    lambda engine, asked, principal: [_reward_call(engine, asked, principal)],
    lambda asked, outcomes: outcomes[0],
)
