"""Looking at experiments: audits, histories, sources, actions; exports as NDJSON and Parquet."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from armrace.audit import Audit
from armrace.audit.auditing import LEVEL
from armrace.errors import ArmraceError, InvalidParameter, Overloaded
from armrace.files import atomic_path
from armrace.formatting import number_of
from armrace.limits import check_number
from armrace.service.loading import Gone, LogReader, check_subjects, events_of, in_parts
from armrace.service.log.store import Store
from armrace.service.model import events
from armrace.service.model.settings import Settings
from armrace.service.model.views import health_of, history_of, ratio_of, sources_of
from armrace.service.model.visits import Holds, VisitState
from armrace.service.work import Later, Session, Work, in_background, on_experiment
from armrace_client import answers, operations
from armrace_client.answers import DecisionRow

FORMATS = {"ndjson": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
"""The media type of each format."""
_json = msgspec.json.Encoder()
_BY_NAME = ("labels", "features", "metrics")
_ROWS_AT_ONCE = 2000
"""More would keep the interpreter from others for milliseconds while they are converted."""


def kind_of_export(path: Path | str) -> str:
    """Return the format of a file by its ending."""
    kind = Path(path).suffix.removeprefix(".")
    if kind not in FORMATS:
        raise InvalidParameter(
            f"an export must end in .ndjson or .parquet; got {Path(path).name!r}."
        )
    return kind


def write_rows(rows: Iterable[DecisionRow], path: Path | str) -> None:
    """Write rows into a file, whose ending says the format; few are in memory at a time."""
    target, kind = Path(path), kind_of_export(path)
    parts = in_parts(rows, _ROWS_AT_ONCE)
    with atomic_path(target) as place:
        if kind == "parquet":
            _write_parquet(parts, place)
        else:
            _write_lines(parts, place)


def _write_lines(parts: Iterable[list[DecisionRow]], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(map(_json.encode_lines, parts))


def _write_parquet(parts: Iterable[list[DecisionRow]], path: Path) -> None:
    """Write lines first, which Polars converts beside the interpreter and not in it."""
    import polars

    # By name as JSON: a column of Parquet has one type, and these have any names.
    columns = {field.name: field.type for field in msgspec.structs.fields(DecisionRow)}
    schema = polars.Schema({**columns, "by": str, **dict.fromkeys(_BY_NAME, str)})
    # Beside the target, where there is room for it: the usual place may be memory.
    with TemporaryDirectory(dir=path.parent) as folder:
        lines = Path(folder) / "rows.ndjson"
        _write_lines(([_with_names_as_text(row) for row in part] for part in parts), lines)
        polars.scan_ndjson(lines, schema=schema).sink_parquet(path)


def _with_names_as_text(row: DecisionRow) -> DecisionRow:
    texts = {name: _json.encode(getattr(row, name)).decode() for name in _BY_NAME}
    return msgspec.structs.replace(row, **texts)


_backing_up = threading.Lock()
"""Each backup reads the whole store, so that they are written one after another."""


@on_experiment(operations.RunAudit)
def audit(work: Work, asked: operations.RunAudit) -> Later[dict[str, Any]]:
    """Settle what is due, and audit what was learned in the current generation."""
    found = audit_of(work, asked.level)
    return Later(lambda: found.finish().to_builtins())


def audit_of(work: Work, level: float) -> Later[Audit]:
    """As :func:`audit`, with the result as an object."""
    check_number("level", level, LEVEL)
    experiment = work.settled()
    learner, arms = experiment.generation.learner.still(), [*experiment.arms]
    leaves = experiment.leaf_names

    def finish() -> Audit:
        found = learner.audit(level)
        alarms = [
            msgspec.structs.replace(
                each,
                arm=None if each.arm is None else arms[int(each.arm)],
                leaf=None if each.leaf is None else leaves[int(each.leaf)],
            )
            for each in found.alarms
        ]
        names: list[str | int] = [arms[int(index)] for index in found.arms]
        return msgspec.structs.replace(found, alarms=alarms, arms=names)

    return Later(finish)


@on_experiment(operations.CheckRatio)
def check_ratio(work: Work, asked: operations.CheckRatio) -> answers.RatioCheck:
    """Compare how often arms were chosen with their published probabilities."""
    return ratio_of(work.experiment)


@on_experiment(operations.ReadHistory)
def read_history(work: Work, asked: operations.ReadHistory) -> Later[answers.HistoryView]:
    """Settle what is due, and return the history."""
    frozen, time = work.settled().frozen(), work.time
    return Later(lambda: history_of(frozen, time))


@on_experiment(operations.ListSources)
def list_sources(work: Work, asked: operations.ListSources) -> list[answers.SourceView]:
    """Return the rewards of each source by day."""
    return sources_of(work.settled(), work.time)


@in_background(operations.ReadHealth, takes_long=False)
def read_health(session: Session, asked: operations.ReadHealth) -> list[answers.ExperimentHealth]:
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


@in_background(operations.ListActions, takes_long=False)
def list_actions(session: Session, asked: operations.ListActions) -> list[answers.Action]:
    """Return who changed what and when, the latest first."""
    log = session.log_of(asked.name)
    arms: list[str] = session.call(log, lambda work: [*work.experiment.arms])
    before = math.inf if asked.before is None else asked.before
    with session.engine.store.transaction() as transaction:
        records = transaction.find_many(log, (events.ACTIONS,))
        found = [record for record in records if record.sequence < before]
    actions = []
    for record in found[: -asked.most - 1 : -1]:
        event = events.decode(record.payload)
        actor = getattr(event, "actor", None) or events.Actor()
        said = (*_described(event, arms), getattr(event, "reason", ""))
        by = (actor.key, actor.label, actor.person)
        actions.append(answers.Action(record.sequence, event.time, *said, *by))
    return actions


def _described(event: events.Event, arms: list[str]) -> tuple[str, str]:
    if isinstance(event, events.Created):
        return "create", f"{len(event.settings['arms'])} arms"
    if isinstance(event, events.Ruled):
        return event.verdict, f"{number_of(len(event.decisions), 'visit')} by {event.selection}"
    if isinstance(event, events.HoldChanged):
        what = [f"{name}={value}" for name, value in event.labels.items()]
        what += [] if event.source is None else [f"source {event.source}"]
        return ("begin" if event.begins else "end") + "-standing-hold", ", ".join(what)
    if isinstance(event, events.ArmCreated):
        return "add-arm", event.arm
    if isinstance(event, events.ArmChanged):
        words = {"active": "resume-arm", "paused": "pause-arm", "retired": "retire-arm"}
        return words[event.status], arms[event.arm]
    if isinstance(event, events.PhaseChanged):
        return {"running": "resume", "paused": "pause", "finished": "finish"}[event.phase], ""
    if isinstance(event, events.StartedAfresh):
        return "start-afresh", f"for {event.horizon:,} decisions"
    assert isinstance(event, events.Deleted)
    return "delete", f"{event.records:,} records"


# --- exports and backups ----------------------------------------------------------------------


class ExportFile(NamedTuple):
    """An export in a folder that its receiver removes."""

    folder: TemporaryDirectory[str]
    path: Path
    format: str


@in_background(operations.Export)
def export(session: Session, asked: operations.Export) -> ExportFile:
    """Write an export into a file, so that whatever cannot be exported is refused first."""
    folder = TemporaryDirectory(prefix="armrace-export-", ignore_cleanup_errors=True)
    path = Path(folder.name) / f"export.{asked.format}"
    try:
        write_export(session, asked.name, path)
    except BaseException:
        folder.cleanup()
        raise
    return ExportFile(folder, path, asked.format)


def write_export(session: Session, name: str, path: Path | str) -> None:
    """Write all visits of an experiment with their rewards into a file, by its ending."""
    kind_of_export(path)
    log, export = _export_of(session, name)
    session.engine.work_out(export.end, export.settings, _write_export, export, Path(path))
    _note_export(session, log, export.end)


def _write_export(export: _Export, path: Path) -> None:
    write_rows(export.rows(), path)


def export_rows(session: Session, name: str) -> Iterator[answers.DecisionRow]:
    """Yield all visits of an experiment in their order, with their rewards."""
    log, export = _export_of(session, name)
    yield from export.rows()
    _note_export(session, log, export.end)


def _export_of(session: Session, name: str) -> tuple[int, _Export]:
    log = session.log_of(name)
    reader = session.engine.reader(log)
    about = session.call(
        log,
        lambda work: (
            [*work.experiment.arms],
            work.experiment.settings,
            work.flush().head(log).sequence,
            work.experiment.leaf_names,
        ),
    )
    return log, _Export(reader, *about)


def _note_export(session: Session, log: int, end: int) -> None:
    session.call(log, lambda work: setattr(work.shard, "exported_at", end))


class _Export(NamedTuple):
    """The visits of an experiment up to a record of its log."""

    reader: LogReader
    arms: list[str]
    settings: Settings
    end: int
    leaves: list[str]

    def rows(self) -> Iterator[DecisionRow]:
        """Yield all visits in their order, with their rewards.

        A visit is yielded when it has its reward or when its window has closed, and all before it
        too. In memory are as many as the service itself has open, however long the log is.
        """
        ruled, window = self.reader.verdicts(), self.settings.window_milliseconds()
        holds = Holds(self.settings.quarantine)
        waiting: deque[DecisionRow] = deque()
        paid: dict[int, VisitState] = {}
        unrewarded: dict[int, DecisionRow] = {}
        for part in self.reader.parts(end=self.end):
            for record, event in events_of(part):
                if isinstance(event, events.HoldChanged):
                    holds.take(event)
                elif isinstance(event, events.Decided):
                    row = unrewarded[record.sequence] = self._row(record.sequence, event)
                    row.void = ruled.get(record.sequence) == "void"
                    waiting.append(row)
                elif isinstance(event, events.Rewarded):
                    row = unrewarded[event.decision]
                    source = event.source or row.source
                    labels = {**row.labels, **(event.labels or {})}
                    held = holds.hold_back(source, labels, event.suspicion) or row.counts is False
                    if row.reward is None:  # its other parts change neither
                        row.source, row.labels = source, labels
                    if event.part is None:
                        del unrewarded[event.decision]
                        self._pay(row, event, event.steps, event.metrics)
                    else:
                        visit = paid.setdefault(event.decision, _nothing_paid(row))
                        visit.take(event)
                        self._pay(row, event, visit.steps or 0, visit.metrics)
                        row.parts += 1
                    verdict = ruled.get(event.decision, "hold" if held else "release")
                    row.counts = verdict == "release"
                while waiting and (
                    (waiting[0].reward is not None and not waiting[0].parts)
                    or waiting[0].time + window <= event.time
                ):
                    row = waiting.popleft()
                    unrewarded.pop(row.decision, None)
                    paid.pop(row.decision, None)
                    yield row
        yield from waiting

    def _pay(
        self, row: DecisionRow, event: events.Rewarded, steps: int, metrics: dict[str, int] | None
    ) -> None:
        row.reward, row.reward_time = self.settings.scale().reward(steps), event.time
        if event.suspicion is not None:
            row.suspicion = max(event.suspicion, row.suspicion or 0.0)
        if metrics:
            guardrails = self.settings.guardrails
            row.metrics = {n: guardrails[n].scale().reward(each) for n, each in metrics.items()}

    def _row(self, sequence: int, event: events.Decided) -> DecisionRow:
        unit, request = (None if e is None else e.hex() for e in (event.unit, event.request))
        who = (unit, request, event.source, event.labels or {})
        row = DecisionRow(
            sequence, event.time, self.arms[event.arm], event.probability, event.by, *who
        )
        schema = self.settings.schema
        if schema is not None and isinstance(event, events.DecidedIn):
            row.features = schema.numbers(event.code.features)
            row.leaf = self.leaves[event.code.leaf]
        return row


def _nothing_paid(row: DecisionRow) -> VisitState:
    return VisitState(row.decision, row.time, 0, None, 0, -1, None)


@in_background(operations.BackUp)
def back_up(session: Session, asked: operations.BackUp) -> answers.BackupAnswer:
    """Verify the store and write a copy beside it."""
    place = Path(getattr(session.engine.store, "path", "log.db"))
    if not _backing_up.acquire(blocking=False):
        raise Overloaded("a backup is being written; ask again when it is done.")
    try:
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        copy = place.with_name(f"{place.stem}-{now}{place.suffix}")
        return answers.BackupAnswer(copy.name, back_up_store(session, copy))
    finally:
        _backing_up.release()


def back_up_store(session: Session, target: Path | str) -> int:
    """Write a copy of the store into a new file, and return how many records were verified."""
    store = session.engine.store
    if type(store).back_up is not Store.back_up:  # otherwise it is refused, and need not wait
        records = verify_store(session)
    store.back_up(target)
    if (path := getattr(store, "path", None)) is not None:
        with suppress(OSError):  # the backup is made all the same
            note_of_backups(path).touch()
    return records


def note_of_backups(store: Path) -> Path:
    """Return the empty file whose time says when a backup was made: copies are carried away."""
    return store.with_name(store.name + "-backed-up")


def verify_store(session: Session) -> int:
    """Check every record of every log, and what the store keeps beside; return their number."""
    store = session.engine.store
    store.check()
    with store.transaction() as transaction:
        logs = [each.log for each in transaction.logs() if not each.is_deleted]
        ends = [transaction.head(log).sequence for log in logs]
    records = 0
    for log, end in zip(logs, ends, strict=True):
        with suppress(Gone):  # deleted meanwhile
            reader = session.engine.reader(log)
            records += session.engine.work_out(end, None, _verified, reader)
    return records


def _verified(reader: LogReader) -> int:
    """Check all records of a log, and return their number."""
    records = 0
    for part in reader.parts():
        check_subjects(part)
        records += len(part)
    return records
