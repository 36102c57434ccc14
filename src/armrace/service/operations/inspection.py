"""Looking at experiments: audits, histories, sources, actions, exports."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from armrace.errors import ArmraceError, Overloaded
from armrace.forensics import Audit as AuditResult
from armrace.forensics.audit import LEVEL
from armrace.limits import check_number
from armrace.service.exports import write_rows
from armrace.service.loading import Gone, check_subjects, events_of
from armrace.service.log.store import Store
from armrace.service.model.events import (
    ACTIONS,
    ArmAdded,
    ArmChanged,
    Created,
    Decided,
    Deleted,
    Event,
    HoldChanged,
    PhaseChanged,
    Rewarded,
    Ruled,
    StartedAfresh,
    decode,
)
from armrace.service.model.experiment import Experiment
from armrace.service.model.holds import Holds
from armrace.service.model.views import health_of, history_of, ratio_of, sources_of
from armrace.service.operations.handlers import Session, in_background, on_experiment
from armrace.service.work import Later, Work
from armrace_client.answers import (
    Action,
    BackupAnswer,
    DecisionRow,
    ExperimentHealth,
    HistoryView,
    RatioCheck,
    SourceView,
)
from armrace_client.operations import (
    Audit,
    BackUp,
    CheckRatio,
    Export,
    ListActions,
    ListSources,
    ReadHealth,
    ReadHistory,
)

__all__ = ["ExportFile", "audit_of", "back_up_store", "export_rows", "verify_store"]

_backing_up = threading.Lock()
"""Each backup reads the whole store, so that they are written one after another."""


@on_experiment(Audit)
def audit(work: Work, asked: Audit) -> Later[dict[str, Any]]:
    """Settle what is due, and audit what was learned in the current generation."""
    found = audit_of(work, asked.level)
    return Later(lambda: found.finish().to_builtins())


def audit_of(work: Work, level: float) -> Later[AuditResult]:
    """As :func:`audit`, with the result as an object.

    Args:
        work: the experiment.
        level: a bound on the probability that any statement of any audit is wrong.
    """
    check_number("level", level, LEVEL)
    experiment = work.settled()
    learner, arms = experiment.generation.learner.still(), [*experiment.arms]
    return Later(lambda: _named(learner.audit(level), arms))


def _named(audit: AuditResult, arms: list[str]) -> AuditResult:
    alarms = [
        msgspec.structs.replace(alarm, arm=arms[int(alarm.arm)]) if alarm.arm is not None else alarm
        for alarm in audit.alarms
    ]
    names: list[str | int] = [arms[int(index)] for index in audit.arms]
    return msgspec.structs.replace(audit, alarms=alarms, arms=names)


@on_experiment(CheckRatio)
def check_ratio(work: Work, asked: CheckRatio) -> RatioCheck:
    """Compare how often arms were chosen with their published probabilities."""
    return ratio_of(work.experiment)


@on_experiment(ReadHistory)
def read_history(work: Work, asked: ReadHistory) -> Later[HistoryView]:
    """Settle what is due, and return the history."""
    frozen, time = work.settled().frozen(), work.time
    return Later(lambda: history_of(frozen, time))


@on_experiment(ListSources)
def list_sources(work: Work, asked: ListSources) -> list[SourceView]:
    """Return the rewards of each source by day."""
    return sources_of(work.settled(), work.time)


@in_background(ReadHealth, takes_long=False)
def read_health(session: Session, asked: ReadHealth) -> list[ExperimentHealth]:
    """Return some experiments at a glance; those that cannot be used are left out."""
    names = session.engine.names(session.principal.tenant)
    first = names.index(asked.after) + 1 if asked.after in names else 0
    found = []
    for name in names[first : first + asked.most]:
        try:
            found.append(session.call(name, lambda work: health_of(work.experiment, work.time)))
        except ArmraceError:  # deleted meanwhile, or its policy cannot be used here
            continue
    return found


# --- actions ----------------------------------------------------------------------------------


@in_background(ListActions, takes_long=False)
def list_actions(session: Session, asked: ListActions) -> list[Action]:
    """Return who changed what and when, the latest first."""
    log = session.log_of(asked.name)
    arms: list[str] = session.call(log, lambda work: [*work.experiment.arms])
    with session.engine.store.transaction() as transaction:
        records = list(transaction.find_many(log, (ACTIONS,)))
    before = asked.before
    wanted = [each for each in records if before is None or each.sequence < before]
    return [
        _action(record.sequence, decode(record.payload), arms)
        for record in wanted[: -asked.most - 1 : -1]
    ]


def _action(sequence: int, event: Event, arms: list[str]) -> Action:
    action, detail = _described(event, arms)
    actor = getattr(event, "actor", None)
    return Action(
        sequence,
        event.time,
        action,
        detail,
        getattr(event, "reason", ""),
        None if actor is None else actor.key,
        None if actor is None else actor.label,
        None if actor is None else actor.person,
    )


def _described(event: Event, arms: list[str]) -> tuple[str, str]:
    if isinstance(event, Created):
        return "create", f"{len(event.settings['arms'])} arms"
    if isinstance(event, Ruled):
        return event.verdict, f"{len(event.decisions):,} visits by {event.selection}"
    if isinstance(event, HoldChanged):
        what = [f"{name}={value}" for name, value in event.labels.items()]
        what += [] if event.source is None else [f"source {event.source}"]
        return ("begin" if event.begins else "end") + "-standing-hold", ", ".join(what)
    if isinstance(event, ArmAdded):
        return "add-arm", event.arm
    if isinstance(event, ArmChanged):
        words = {"active": "resume-arm", "paused": "pause-arm", "retired": "retire-arm"}
        return words[event.status], arms[event.arm]
    if isinstance(event, PhaseChanged):
        return {"running": "resume", "paused": "pause", "finished": "finish"}[event.phase], ""
    if isinstance(event, StartedAfresh):
        return "start-afresh", f"for {event.horizon:,} decisions"
    assert isinstance(event, Deleted)
    return "delete", f"{event.records:,} records"


# --- exports and backups ----------------------------------------------------------------------


class ExportFile(NamedTuple):
    """An export in a folder that its receiver removes."""

    folder: TemporaryDirectory[str]
    path: Path
    format: str


@in_background(Export)
def export(session: Session, asked: Export) -> ExportFile:
    """Write an export into a file, so that whatever cannot be exported is refused first."""
    folder = TemporaryDirectory(prefix="armrace-export-", ignore_cleanup_errors=True)
    path = Path(folder.name) / f"export.{asked.format}"
    try:
        write_rows(export_rows(session, asked.name), path)
    except BaseException:
        folder.cleanup()
        raise
    return ExportFile(folder, path, asked.format)


def export_rows(session: Session, name: str) -> Iterator[DecisionRow]:
    """Yield all visits of an experiment in their order, with their rewards.

    A visit is yielded when it has its reward or when its window has closed, and all before it too.
    In memory are as many as the service itself has open, however long the log is.

    Args:
        session: whose experiment it is.
        name: the experiment.
    """
    log = session.log_of(name)
    reader = session.engine.reader(log)
    experiment, end = session.call(log, lambda work: (work.experiment, _flushed(work)))
    ruled, window = reader.verdicts(), experiment.window
    waiting: deque[DecisionRow] = deque()
    unrewarded: dict[int, DecisionRow] = {}
    holds = Holds(experiment.settings.quarantine)
    for part in reader.parts(end=end):
        for record, event in events_of(part):
            if isinstance(event, HoldChanged):
                holds.take(event)
            elif isinstance(event, Decided):
                row = unrewarded[record.sequence] = _row(experiment, record.sequence, event)
                row.void = ruled.get(record.sequence) == "void"
                waiting.append(row)
            elif isinstance(event, Rewarded):
                row = unrewarded.pop(event.decision)
                _reward(experiment, row, event, ruled.get(event.decision), holds)
            while waiting and (
                waiting[0].reward is not None or waiting[0].time + window <= event.time
            ):
                row = waiting.popleft()
                unrewarded.pop(row.decision, None)
                yield row
    yield from waiting
    session.call(log, lambda work: setattr(work.shard, "exported_at", end))


def _flushed(work: Work) -> int:
    work.flush()
    return work.experiment.head.sequence


def _row(experiment: Experiment, sequence: int, event: Decided) -> DecisionRow:
    return DecisionRow(
        sequence,
        event.time,
        experiment.arms[event.arm],
        event.probability,
        event.by,
        None if event.unit is None else event.unit.hex(),
        None if event.request is None else event.request.hex(),
        event.source,
        event.labels or {},
    )


def _reward(
    experiment: Experiment, row: DecisionRow, event: Rewarded, ruling: str | None, holds: Holds
) -> None:
    row.reward = experiment.scale.reward(event.steps)
    row.reward_time, row.suspicion = event.time, event.suspicion
    row.source = event.source or row.source
    row.labels = {**row.labels, **(event.labels or {})}
    held = holds.hold_back(row.source, row.labels, row.suspicion)
    row.counts = not held if ruling is None else ruling == "release"


@in_background(BackUp)
def back_up(session: Session, asked: BackUp) -> BackupAnswer:
    """Verify the store and write a copy beside it."""
    if not _backing_up.acquire(blocking=False):
        raise Overloaded("a backup is being written; ask again when it is done.")
    try:
        return _back_up_beside(session)
    finally:
        _backing_up.release()


def _back_up_beside(session: Session) -> BackupAnswer:
    store = session.engine.store
    place = Path(getattr(store, "path", "log.db"))
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    copy = place.with_name(f"{place.stem}-{now}{place.suffix}")
    return BackupAnswer(copy.name, back_up_store(session, copy))


def back_up_store(session: Session, target: Path | str) -> int:
    """Write a copy of the store into a new file after its logs were verified.

    Args:
        session: works on the store.
        target: the file, which must not exist.

    Returns:
        How many records were verified.
    """
    store = session.engine.store
    if type(store).back_up is not Store.back_up:  # otherwise it is refused, and need not wait
        records = verify_store(session)
    store.back_up(target)
    return records


def verify_store(session: Session) -> int:
    """Check every record of every log, and what the store keeps beside; return their number."""
    store = session.engine.store
    store.check()
    with store.transaction() as transaction:
        logs = [each.log for each in transaction.logs() if not each.is_deleted]
    records = 0
    for log in logs:
        with suppress(Gone):  # deleted meanwhile
            for part in session.engine.reader(log).parts():
                check_subjects(part)
                records += len(part)
    return records
