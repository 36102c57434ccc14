"""Feeding an experiment from a log: what another system, or another store, decided and earned.

All rows become decisions of the experiment, with their times, units, sources and rewards. The
policy must not learn from decisions that it did not make as if they were its own: it draws an arm
for each row, and where it draws the arm of the row, and a coin of probability floor / propensity
shows heads, the decision is its own and it learns the reward. It then stands where it would stand
after as many rounds of its own. All other rows are kept as decisions of which it learns nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from armrace.contexts import Code, Schema
from armrace.errors import AlreadyExists, ArmraceError, InvalidParameter
from armrace.limits import Limits, check_number
from armrace.offline.log import Log, natural_key
from armrace.offline.readers import FEATURE
from armrace.service.model.events import By, Decided, Rewarded, decided
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.generation import uniform_at
from armrace.service.model.settings import (
    RewardScale,
    Settings,
    check_label,
    check_labels,
    check_name,
)
from armrace.service.operations.deciding import SUSPICION, start_afresh_if_over
from armrace.service.operations.experiments import begin_log
from armrace.service.service import Service
from armrace.service.work import Work
from armrace_client.contexts import code_from

_CHUNK = 10_000
_PROBABILITY = Limits("probability", 0, 1, low_open=True)
_COINS = 0x1A0B
"""Added to the seed, so that the coins of an import are not those of floors."""


class LoggedRow(msgspec.Struct, frozen=True):
    """A decision that was made elsewhere, and its reward: columns of an export."""

    time: int | None
    arm: str
    probability: float | None = None
    unit: str | None = None
    reward: float | None = None
    reward_time: int | None = None
    source: str | None = None
    suspicion: float | None = None
    counts: bool | None = None
    """Whether the reward counts; ``False`` for one that was retracted."""
    labels: dict[str, str] | None = None
    void: bool = False
    """Whether the visit counts as never made."""
    code: Code | None = None
    """The encoded features of the visitor, which an export has in two columns."""


class Imported(msgspec.Struct, frozen=True):
    """What an import did."""

    rows: int
    learned: int
    """Decisions that the policy took as its own."""
    rewards: int
    retracted: int
    voided: int


class _Importer:
    """What was done so far, and how a chunk is added; late rewards wait for the next chunk."""

    def __init__(self, floor: float | None, started: int) -> None:
        self._floor, self._started = floor, started
        self._waiting: list[tuple[int, int, Rewarded]] = []
        self.done = self.learned = self.rewards = 0
        self.retracted: list[int] = []
        self.voided: list[int] = []

    def done_with(self, work: Work, rows: tuple[LoggedRow, ...], is_last: bool) -> _Importer:
        """Add a chunk of rows; return the importer that has done so."""
        # A copy: the transaction may be given up and must then begin as it did.
        importer = copy(self)
        importer._waiting = self._waiting.copy()
        importer.retracted, importer.voided = self.retracted.copy(), self.voided.copy()
        importer._add(work, rows, is_last)
        return importer

    def _add(self, work: Work, rows: tuple[LoggedRow, ...], is_last: bool) -> None:
        """Add the events of a chunk in the order of their times."""
        experiment = work.experiment
        taken = experiment.generation.learner.taken
        for row in rows:
            time = self._started if row.time is None else row.time
            self._pay(work, time)
            generation, work.time = experiment.generation, time
            decided = self._decide(work, experiment.index_of[row.arm], row)
            if decided.ticket is not None:
                self.learned += 1
                taken = decided.taken
            sequence = work.add(decided)
            start_afresh_if_over(work)
            if experiment.generation is not generation:
                taken = experiment.generation.learner.taken
            if row.void:
                self.voided.append(sequence)
            if row.reward is not None:
                self._expect(experiment, sequence, row, time)
            self.done += 1
        if is_last:
            self._pay(work, inf)
        # Draws that made no decision are not in the log, so that a replay of it does not know them.
        # The stream goes back to where the log says it is: a replay gives the live state exactly.
        experiment.generation.go_back_to(taken)

    def _decide(self, work: Work, index: int, row: LoggedRow) -> Decided:
        experiment = work.experiment
        experiment.advance(work.time)
        drawn = experiment.draw(None, row.code)
        is_own = drawn.arm == index and self._accepts(experiment, row.probability)
        ticket, taken = (drawn.ticket, drawn.taken) if is_own else (None, 0)
        origin = work.shard.hashed(row.unit), None, row.source, row.labels
        by: By = "editor" if ticket is None else "policy"
        made = work.time, index, ticket, taken, row.probability, b"", *origin, by
        return decided(row.code, *made)

    def _accepts(self, experiment: ExperimentState, propensity: float | None) -> bool:
        """Whether a row that shows the arm that was drawn becomes a decision of the policy."""
        if self._floor is None:
            return True
        if propensity is None:  # it may have been anything, so that the row proves nothing
            return False
        coin = uniform_at(experiment.settings.seed + _COINS, experiment.head.sequence)
        return coin * propensity < self._floor

    def _expect(
        self, experiment: ExperimentState, sequence: int, row: LoggedRow, time: int
    ) -> None:
        due = time if None in (row.time, row.reward_time) else max(time, row.reward_time or 0)
        steps = experiment.scale.steps(row.reward)
        event = Rewarded(due, sequence, steps, None, row.suspicion)
        # Times of a log never decrease, so that late rewards are put among the decisions that
        # follow.
        heapq.heappush(self._waiting, (due, sequence, event))
        self.rewards += 1
        if row.counts is False and not row.void:
            self.retracted.append(sequence)

    def _pay(self, work: Work, time: float) -> None:
        """Add the rewards that come up to a time."""
        while self._waiting and self._waiting[0][0] <= time:
            work.add(heapq.heappop(self._waiting)[2])


def import_rows(
    service: Service,
    name: str,
    rows: Iterable[LoggedRow],
    settings: Settings,
    floor: float | None = None,
) -> Imported:
    """Create an experiment and feed it from rows in the order of time.

    ``floor`` is the smallest propensity of the log; ``None`` if all arms were equally likely.
    """
    check_name(name)
    if isinstance(rows, Iterator):  # which can be read but once
        rows = list(rows)
    # All of them before anything is durable, so that what is refused leaves nothing behind.
    for _ in _checked(rows, settings):
        pass
    ordered = _checked(rows, settings)
    chunk = tuple(islice(ordered, _CHUNK))
    if not chunk:
        raise InvalidParameter("the log has no rows.")
    session = service.session
    started = begin_log(session, name, settings, chunk[0].time)
    if started is None:
        raise AlreadyExists(f"there is an experiment named {name!r}; give another --name.")
    importer = _Importer(floor, started)
    while chunk:
        part, chunk = chunk, tuple(islice(ordered, _CHUNK))
        importer = session.call(name, partial(importer.done_with, rows=part, is_last=not chunk))
    reason = "did not count in the imported log"
    if importer.retracted:
        service.retract(name, importer.retracted, reason=reason)
    if importer.voided:
        service.void(name, importer.voided, reason=reason)
    counts = importer.done, importer.learned, importer.rewards
    return Imported(*counts, len(importer.retracted), len(importer.voided))


def _checked(rows: Iterable[LoggedRow], settings: Settings) -> Iterator[LoggedRow]:
    """Yield the rows; refuse one that the experiment cannot hold."""
    latest: int | None = None
    timed: bool | None = None
    arms, scale, window = set(settings.arms), settings.scale(), settings.window_milliseconds()
    for number, row in enumerate(rows, start=1):
        timed = row.time is not None if timed is None else timed
        if timed != (row.time is not None):
            has = "has no time" if timed else "has a time"
            raise InvalidParameter(
                f"either all rows must have a time or none; row {number} {has}, unlike row 1."
            )
        if row.time is not None and latest is not None and row.time < latest:
            raise InvalidParameter(
                f"the rows must be in the order of time to be imported; row {number} is earlier "
                "than the row before it."
            )
        latest = row.time
        if row.arm not in arms:
            raise InvalidParameter(f"row {number} has the unknown arm {row.arm!r:.100}.")
        if row.reward is not None:
            scale.steps(row.reward)
        delay = 0 if row.time is None else (row.reward_time or 0) - row.time
        if delay >= window:
            raise InvalidParameter(
                f"the reward of row {number} comes {delay / 1000:g} seconds after its decision; "
                f"window must be longer, and is {settings.window:g}."
            )
        for what, label in (("unit", row.unit), ("source", row.source)):
            if label is not None:
                check_label(f"{what} of row {number}", label)
        for limits, share in ((_PROBABILITY, row.probability), (SUSPICION, row.suspicion)):
            if share is not None:
                check_number(f"{limits.meaning} of row {number}", share, limits)
        check_labels(row.labels)
        if (row.code is None) != (settings.schema is None):
            raise InvalidParameter(f"row {number} must have features exactly if there is a schema.")
        yield row


class Rows:
    """Rows that can be read more than once: ``read`` begins anew."""

    def __init__(self, read: Callable[[], Iterator[LoggedRow]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[LoggedRow]:
        return self._read()


def rows_of(log: Log) -> Rows:
    """Return the usable rows of a log, with rewards of its own range."""
    return Rows(partial(_read_log, log))


def _read_log(log: Log) -> Iterator[LoggedRow]:
    scale, columns = RewardScale(*log.bounds), list(log.schema.features if log.schema else ())
    for frame in log.frames():
        for row in frame.iter_rows(named=True):
            yield LoggedRow(
                row.get("time"),
                row["arm"],
                row.get("propensity"),
                row.get("unit"),
                scale.reward(row["reward"] * 2**20),
                None,
                row.get("source"),
                code=None
                if log.schema is None
                else code_from([row[FEATURE + name] for name in columns], row["leaf"]),
            )


# --- what an export of a service wrote ----------------------------------------------------------


def rows_of_export(path: Path | str, schema: Schema | None = None) -> Rows:
    """Return the rows of an export, whose ending says the format: .ndjson or .parquet.

    With a schema they have the features of the visitors, else they are left out.
    """
    return Rows(partial(_read_export, path, schema))


def _read_export(path: Path | str, schema: Schema | None) -> Iterator[LoggedRow]:
    rows = (row for frame in _frames(Path(path)) for row in frame.iter_rows(named=True))
    for number, row in enumerate(rows, start=1):
        try:
            code = None if schema is None else _code_of(schema, row, number)
            yield msgspec.convert(
                {**row, "labels": _labels(row["labels"]), "code": code}, LoggedRow
            )
        except msgspec.MsgspecError as error:
            raise InvalidParameter(
                f"{path} is not an export of a service: {error} (row {number})."
            ) from None


def _code_of(schema: Schema, row: dict[str, Any], number: int) -> Code:
    """Return the features of a visitor, which come from a file, so that all may be wrong."""
    features = msgspec.convert(_labels(row.get("features")), dict[str, int])
    try:
        return schema.code_of(features, str(row.get("leaf")))
    except ArmraceError as error:
        raise InvalidParameter(f"row {number} does not fit the schema: {error}") from None


def _labels(given: Any) -> Any:
    """Return labels, which are text in Parquet, and have all names of a part in NDJSON."""
    if isinstance(given, str):
        return msgspec.json.decode(given)
    if isinstance(given, dict):
        return {name: value for name, value in given.items() if value is not None}
    return given or {}


def survey_export(path: Path | str) -> tuple[list[str], float]:
    """Return the arms of an export in natural order, and its smallest probability."""
    arms: set[str] = set()
    least, rows = 1.0, 0
    for frame in _frames(Path(path)):
        for name, kind, wanted in (("arm", str, "text"), ("probability", int | float, "a number")):
            column = frame[name]
            # Polars gives all values of a column one type: the first says what the others are.
            place = int(column.is_not_null().arg_max() or 0)
            if len(column) and not isinstance(column[place], kind | None):
                raise InvalidParameter(
                    f"{path} is not an export of a service: {name} must be {wanted}; got "
                    f"{frame.row(place, named=True)[name]!r:.100} (row {rows + place + 1})."
                )
        arms |= set(frame["arm"].drop_nulls().unique().to_list())
        smallest = frame["probability"].drop_nulls().min()
        least = least if smallest is None else min(least, smallest)
        rows += frame.height
    return sorted(arms, key=natural_key), least


def _frames(path: Path) -> Iterator[Any]:
    import polars as pl

    try:
        scan = pl.scan_ndjson(path) if path.suffix == ".ndjson" else pl.scan_parquet(path)
        present = scan.collect_schema().names()
        wanted = (name for name in LoggedRow.__struct_fields__ if name != "code")
        missing = [name for name in wanted if name not in present]
        if missing:
            raise InvalidParameter(
                f"{path} is not an export of a service: it has no column {missing[0]!r}; for a log "
                "of another system, give --arm and --reward."
            )
        yield from scan.collect_batches(chunk_size=100_000, maintain_order=True)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0][:200].rstrip(".")
        raise InvalidParameter(f"cannot read {path}: {reason}.") from None
