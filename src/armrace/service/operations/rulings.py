"""Rulings: visits and rewards that are taken back, held or released.

A ruling reads the log, in the background, for the visits that it is about. If something was
learned from them, the log is replayed without it from the latest snapshot that the ruling leaves
valid, also in the background while others are served. The engine then applies what has come
meanwhile, in one short transaction, and goes on with the experiment that was replayed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import msgspec

from armrace.errors import ArmraceError, DamagedFile, InvalidParameter, Outdated
from armrace.formatting import number_of
from armrace.limits import Limits, check_number
from armrace.service.loading import LogReader, events_of
from armrace.service.log.chain import BEGINNING, Head, LogRecord
from armrace.service.log.store import Transaction
from armrace.service.model import events
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.settings import (
    DROP,
    GRID,
    Settings,
    check_label,
    check_labels,
    check_reason,
)
from armrace.service.model.views import head_text, history_of, view_of
from armrace.service.model.visits import Holds
from armrace.service.table import MOST_VISITS, NO_UNIT, VisitTable
from armrace.service.work import Session, Work, in_background
from armrace_client.answers import QuarantinedReward, RulingAnswer, Verdict
from armrace_client.operations import (
    IDENTIFIERS,
    Hold,
    ListQuarantine,
    Release,
    Retract,
    Ruling,
    Suspect,
    Void,
)

T = TypeVar("T")
_TIME = Limits("milliseconds since 1970", -(2**63), 2**63 - 1)
_HASH = re.compile("[0-9a-f]{32}")
_VERDICTS: dict[type[Ruling], Verdict] = {
    Retract: "retract",
    Void: "void",
    Hold: "hold",
    Release: "release",
}


_Name = tuple[str, Any]
"""An identifier that a ruling gives: its kind, and how it was given."""


class _Found(NamedTuple):
    """A visit that is selected."""

    names: tuple[_Name, ...]
    """The identifiers that have selected it."""
    rewarded: bool = False
    is_held: bool = False
    """Whether its reward was held when it came."""
    is_open: bool = False
    """Whether a reward can still come, and is to be held when it does."""


class _Begun(NamedTuple):
    """The state that a ruling has seen when it began."""

    before: ExperimentState
    """A copy to be shown, elsewhere perhaps."""
    live: ExperimentState
    opened: int
    seen: int
    """The last record whose visit may be selected: the end of the log, or of the preview's."""
    time: int
    hashed: Callable[[str], bytes | None]


class _Selected(NamedTuple):
    """What a selection has found."""

    visits: int
    rewarded: int
    changed: dict[int, Verdict]
    """The visits whose standing the ruling changes."""
    reasons: dict[str, list[int]]
    """These by why they are changed."""
    unknown: list[str | int]
    """The identifiers that were given and that no visit has."""
    ruled: list[str | int]
    """Those of whose visits none is changed."""
    known_by_reward: bool
    """Whether visits that sent no reward may be missing: a list may hold those with a reward
    alone, and sources may have come with rewards."""


class _Selection:
    """The visits of a log that a ruling is about."""

    def __init__(self, asked: Ruling, session: Session, log: int, begun: _Begun) -> None:
        self._asked, self._last = asked, begun.seen
        decisions = _decisions(asked, session, log)
        units, requests = (_hashes(each, begun.hashed) for each in (asked.units, asked.requests))
        self._decisions = decisions
        lists: list[tuple[str, Mapping[Any, Any] | None, str]] = [
            ("decisions", decisions, ""),
            ("units", units, "unit"),
            ("requests", requests, "request"),
        ]
        self._lists = [(k, wanted, name) for k, wanted, name in lists if wanted is not None]
        self._sources = None if asked.sources is None else set(asked.sources)
        self._ruled = None if asked.ruled is None else _ruled(asked.ruled, session, log)
        self._labels = [
            (name, frozenset([value] if isinstance(value, str) else value))
            for name, value in (asked.labels or {}).items()
        ]
        window = begun.before.window if getattr(asked, "early", False) else -1
        self._closed = begun.time - window
        """When visits began, at the latest, of which no reward is looked out for."""
        self._candidates: dict[int, tuple[events.Decided, tuple[_Name, ...]]] = {}
        self._holds = Holds(begun.before.settings.quarantine)
        self._found: dict[int, _Found] = {}
        self._begun: set[int] = set()
        """Visits that have had the first of their parts, where rewards add up."""
        self._seen: set[_Name] = set()
        """The identifiers that visits have, whatever else is given."""
        self._known_by_reward = decisions is not None
        others = (decisions, requests, self._sources, self._ruled, asked.labels or None)
        at_end = begun.seen == begun.before.head.sequence >= _WORTH_TABLE
        by_unit = units is not None and all(each is None for each in others)
        about = log, begun.before.settings, begun.before.head
        self._tabled = about if by_unit and at_end else None
        """Of what a table helps, which the next ruling about units can use again."""

    def select(self, reader: LogReader) -> _Selected:
        """Read the log, and return what was found."""
        table = None if self._tabled is None else _table_of(reader, *self._tabled)
        if table is not None:
            self._look_up(table)
        elif self._decisions is not None:  # nothing but their own records need be read
            self._read(reader.visits(self._decisions, self._last))
        else:
            self._read(reader.parts(end=self._last))
        found, given = self._found, _given(self._asked)
        ruled, verdict = reader.verdicts(), _VERDICTS[type(self._asked)]
        changed = {
            each: verdict for each in found if _changes(verdict, found[each], ruled.get(each))
        }
        moved = {name for each in changed for name in found[each].names}
        same = {name for each in found.values() for name in each.names} - moved
        return _Selected(
            len(found),
            sum(each.rewarded for each in found.values()),
            changed,
            self._by_reason(changed),
            [name[1] for name in given if name not in self._seen],
            [name[1] for name in given if name in same],
            self._known_by_reward,
        )

    def _read(self, parts: Iterable[list[LogRecord]]) -> None:
        for part in parts:
            for record, event in events_of(part):
                self._take(record.sequence, event)

    def _look_up(self, table: VisitTable) -> None:
        """Find the visits of units in a table of all visits."""
        ((_, wanted, _),) = self._lists
        since, until = self._asked.since, self._asked.until
        rows = table.unit.visits_of(wanted.keys() - {NO_UNIT})
        columns = (table.unit.column, table.sequences, table.time, table.steps, table.held)
        for unit, sequence, time, steps, held in zip(
            *(each.all[rows].tolist() for each in columns), strict=True
        ):
            name = "units", wanted[unit]
            self._seen.add(name)
            if (since is None or time >= since) and (until is None or time < until):
                is_open = steps < 0 and time > self._closed
                self._found[sequence] = _Found((name,), steps >= 0, held, is_open)

    def _by_reason(self, changed: Collection[int]) -> dict[str, list[int]]:
        asked, sorted_out = self._asked, dict[str, list[int]]()
        if asked.reasons is None:
            return {asked.reason: list(changed)} if changed else {}
        (values,) = _lists(asked).values()
        reasons = dict(zip(values, asked.reasons, strict=True))
        for each in changed:
            sorted_out.setdefault(reasons[self._found[each].names[0][1]], []).append(each)
        return sorted_out

    def _take(self, sequence: int, event: events.Event) -> None:
        """Look at the next event of the log."""
        if isinstance(event, events.Decided):
            names = self._names_of(sequence, event)
            if names is not None:
                origin = self._origin_of({event.source}, event.labels)
                if origin is not None:
                    is_open = event.time > self._closed
                    self._found[sequence] = _Found(names + origin, is_open=is_open)
                self._candidates[sequence] = event, names
        elif isinstance(event, events.Rewarded):
            decided, names = self._candidates.pop(event.decision, (None, ()))
            if decided is not None:
                source, labels = _origin(decided, event)
                if event.part is not None:  # there may be others, which inherit from the first
                    is_first = event.decision not in self._begun
                    self._begun.add(event.decision)
                    told = _with(decided, source, labels) if is_first else decided
                    self._candidates[event.decision] = told, names
                origin = self._origin_of({event.source, decided.source}, labels)
                known = self._found.get(event.decision)
                if known is not None or origin is not None:
                    self._known_by_reward = self._known_by_reward or known is None
                    held = self._holds.hold_back(source, labels, event.suspicion)
                    held = held or (known is not None and known.is_held)
                    names = known.names if origin is None and known is not None else names
                    self._found[event.decision] = _Found(names + (origin or ()), True, held)
        elif isinstance(event, events.HoldChanged):
            self._holds.take(event)

    def _names_of(self, sequence: int, event: events.Decided) -> tuple[_Name, ...] | None:
        """Return what names a visit, of what its decision alone says; None if it is not meant."""
        names: tuple[_Name, ...] = ()
        fits = self._ruled is None or sequence in self._ruled
        since, until = self._asked.since, self._asked.until
        for kind, wanted, attribute in self._lists:
            given = getattr(event, attribute) if attribute else sequence
            if given in wanted:
                names += ((kind, wanted[given]),)
            else:
                fits = False
        self._seen.update(names)
        fits = fits and (since is None or event.time >= since)
        return names if fits and (until is None or event.time < until) else None

    def _origin_of(
        self, sources: set[str | None], labels: Mapping[str, str] | None
    ) -> tuple[_Name, ...] | None:
        """Return by what sources and labels a visit is meant; ``None`` if it is not."""
        names: tuple[_Name, ...] = ()
        if self._sources is None and not self._labels:
            return names
        if self._sources is not None:
            named = sources & self._sources
            if not named:
                return None
            names = tuple(("sources", each) for each in named)
            self._seen.update(names)
        for name, values in self._labels:
            value = (labels or {}).get(name)
            if value not in values:
                return None
            names += ((name, value),)
            self._seen.add((name, value))
        return names


_WORTH_TABLE = 50_000
"""How many records a log must have for a table to be kept."""
_kept_table: dict[Any, VisitTable] = {}
"""The table of the log whose units were ruled about last in this process, perhaps a helper."""


def _table_of(reader: LogReader, log: int, settings: Settings, head: Head) -> VisitTable | None:
    """Return all visits of a log; none of one that is too long, or shorter than it was."""
    key = reader.identity
    kept = _kept_table.pop(key, None)
    _kept_table.clear()
    for table in (kept, VisitTable(log, settings)):
        if table is None or head.sequence > MOST_VISITS:
            continue
        start = table.head or BEGINNING
        with suppress(DamagedFile):  # rewritten since, as by a failover; else reading says it again
            table.read(reader, start, head.sequence)
            if table.head == head:
                _kept_table[key] = table
                return table
    return None


def _ruled(sequence: int, session: Session, log: int) -> frozenset[int]:
    """Return the visits that a ruling of the past was about."""
    number = sequence if 0 < sequence < 2**63 else 0
    with session.engine.store.transaction() as transaction:
        for record in transaction.read_many(log, [number]):
            event = events.decode(record.payload)
            if isinstance(event, events.Ruled):
                return frozenset(event.decisions)
    raise InvalidParameter(f"ruled must be the record of a ruling; got {sequence}.")


def _given(asked: Ruling) -> dict[_Name, None]:
    """Return the identifiers that a ruling gives, in their order, each once."""
    return {(kind, each): None for kind, values in _lists(asked).items() for each in values}


def _lists(asked: Ruling) -> dict[str, list[Any]]:
    """Return the lists of identifiers that a ruling gives."""
    lists = {kind: getattr(asked, kind) for kind in IDENTIFIERS} | (asked.labels or {})
    return {kind: values for kind, values in lists.items() if isinstance(values, list)}


def _hashes(
    given: list[str] | None, hashed: Callable[[str], bytes | None]
) -> dict[bytes | None, str] | None:
    """Return what the log holds of identifiers, which may also be hashes as exports show them."""
    if given is None:
        return None
    found: dict[bytes | None, str] = {hashed(each): each for each in given}
    for each in given:
        if _HASH.fullmatch(each):
            found.setdefault(bytes.fromhex(each), each)
    return found


def _origin(
    decided: events.Decided, rewarded: events.Rewarded
) -> tuple[str | None, dict[str, str]]:
    """Return the source and the labels of a reward, which its visit may have given."""
    labels = {**(decided.labels or {}), **(rewarded.labels or {})}
    return rewarded.source or decided.source, labels


def _with(decided: events.Decided, source: str | None, labels: dict[str, str]) -> events.Decided:
    return msgspec.structs.replace(decided, source=source, labels=labels)


def _decisions(asked: Ruling, session: Session, log: int) -> dict[int, str | int] | None:
    """Return the sequence numbers of the decisions that are given, with how they were given."""
    if asked.decisions is None:
        return None
    found: dict[int, str | int] = {}
    for place, each in enumerate(asked.decisions):
        number = -1 - place  # of no visit, and different for each, so that it is counted as unknown
        if isinstance(each, int) and not isinstance(each, bool):
            number = each if 0 < each < 2**63 else number
        else:
            with suppress(ArmraceError):
                token = session.read_token(each)
                number = token.sequence if token.log == log else number
        found[number] = each
    return found


def _check(asked: Ruling) -> None:
    """Refuse a ruling whose selection is empty or has invalid members."""
    check_reason(asked.reason)
    _check_values(asked.labels)
    for what in ("requests", "units", "sources"):
        for each in getattr(asked, what) or ():
            check_label(what, each)
    for name, time in (("since", asked.since), ("until", asked.until)):
        if time is not None:
            check_number(name, time, _TIME, whole=True)
    if asked.since is not None and asked.until is not None and asked.since >= asked.until:
        raise InvalidParameter(
            f"since must be before until; got {_moment(asked.since)} and {_moment(asked.until)}."
        )
    # Without a name, labels would fit every visit.
    labels = asked.labels or None
    given_any = (asked.decisions, asked.requests, asked.units, asked.sources, labels, asked.ruled)
    if all(each is None for each in (*given_any, asked.since, asked.until)):
        raise InvalidParameter(
            "a selection must give decisions, requests, units, sources, labels or a time."
        )
    if asked.reasons is not None:
        named = list(_lists(asked).values())
        if len(named) != 1 or len(named[0]) != len(asked.reasons):
            raise InvalidParameter("reasons must be as many as the identifiers of the only list.")
        for each in asked.reasons:
            check_reason(each)
    if getattr(asked, "standing", False):
        check_labels(asked.labels)
        others = (asked.decisions, asked.requests, asked.units, asked.since, asked.until)
        if any(each is not None for each in others) or len(asked.sources or ()) > 1:
            raise InvalidParameter("a standing hold takes one source, labels, or both.")


def _check_values(labels: Any) -> None:
    """Refuse labels that no visit can have; each may have a list of values."""
    check_labels({name: "any" if isinstance(v, list) else v for name, v in (labels or {}).items()})
    for name, values in (labels or {}).items():
        for each in values if isinstance(values, list) else ():
            check_labels({name: each})


@in_background(Retract, Void, Hold, Release)
def rule(session: Session, asked: Ruling) -> RulingAnswer:
    """Make a ruling, or show what it would change."""
    _check(asked)
    log = session.log_of(asked.name)
    with session.engine.ruling(log):
        while True:
            attempt = _Attempt(session, log, asked)
            answer = attempt.preview() if asked.preview else attempt.conclude()
            if answer is not None:
                return answer


def _changes(verdict: Verdict, found: _Found, ruled: Verdict | None) -> bool:
    """Whether a ruling changes the standing of a visit."""
    current = ruled or ("hold" if found.is_held else "release")
    if verdict == current:
        return False
    if verdict == "void":
        return True
    if current == "void":  # only a release brings a visit back
        return verdict == "release"
    return found.rewarded or found.is_open


def _begin(work: Work, head: str | None) -> _Begun:
    # Settled first: the ruling must find visits as they are looked at here.
    experiment = work.settled()
    transaction, end = work.flush(), experiment.head.sequence
    seen = end if head is None else _seen(transaction, work.shard.log, head)
    opened = len(experiment.open)
    return _Begun(experiment.frozen(), experiment, opened, seen, work.time, work.shard.hashed)


def _seen(transaction: Transaction, log: int, head: str) -> int:
    """Return the last record that a preview has seen; refuse it if a change was made since.

    Visits and rewards that came since are no change: an experiment that is used has new ones all
    the time, and the ruling is about those that were shown.
    """
    number, _, digest = head.partition("-")
    sequence = int(number) if number.isascii() and number.isdigit() and len(number) < 19 else 0
    found = list(transaction.read_many(log, [sequence]))
    if not found or found[0].digest.hex()[:16] != digest:
        raise Outdated("the preview is not one of this log; look at a new one.")
    if any(transaction.find_many(log, (events.ACTIONS,), sequence)):
        raise Outdated("something was changed since the preview; look at a new one.")
    return sequence


class _Attempt:
    """A ruling given the state when it began; others may rule before it is concluded."""

    def __init__(self, session: Session, log: int, asked: Ruling) -> None:
        self._session, self._log, self._asked = session, log, asked
        self._begun: _Begun = session.call(log, lambda work: _begin(work, asked.head))
        self._end = self._begun.before.head.sequence
        self._reader = session.engine.reader(log)
        selection = _Selection(asked, session, log, self._begun)
        self._selected: _Selected = self._work_out(selection.select, self._reader)
        self._contradicts = self._begun.live.needs_replay(self._selected.changed)

    def _work_out(self, work: Callable[..., T], *arguments: Any) -> T:
        settings = self._begun.before.settings
        return self._session.engine.work_out(self._end, settings, work, *arguments)

    def preview(self) -> RulingAnswer | None:
        """Show what a ruling would change; return ``None`` if another ruling came in between."""
        begun, changed = self._begun, self._selected.changed
        shown = self._work_out(
            _shown, self._reader, changed, begun.before, begun.opened, begun.time
        )
        return None if shown is None else self._answer(begun.before, **shown)

    def conclude(self) -> RulingAnswer | None:
        """Add the event of a ruling; return ``None`` if another ruling came in between."""
        asked, log, changed = self._asked, self._log, self._selected.changed
        if self._contradicts:
            state, base, snapshots = self._work_out(_replayed, self._reader, changed, self._end)
            loaded = [ExperimentState.load(state)]  # here, since others wait for transactions

        def command(work: Work) -> RulingAnswer | None:
            experiment = work.settled()
            transaction = work.flush()
            if asked.head is not None:
                _seen(transaction, log, asked.head)
            if events.verdicts_in(transaction.find_many(log, (events.ACTIONS,), self._end)):
                return None
            if self._contradicts:
                # The transaction may be given up and performed again.
                again = loaded.pop() if loaded else ExperimentState.load(state)
                again.preload(changed)
                records = list(transaction.read(log, again.head.sequence))
                ExperimentState.replay(events_of(records), again, changed)
                work.swap_in(again, snapshots, base)
            elif experiment.needs_replay(changed):  # windows have closed in between
                return None
            self._add_events(work)
            work.experiment.verdicts = {}
            return self._answer(work.experiment)

        answer: RulingAnswer | None = self._session.call(log, command)
        return answer

    def _add_events(self, work: Work) -> None:
        asked = self._asked
        # The visits are known to the experiment in advance if it was replayed.
        for reason, visits in self._selected.reasons.items():
            verdict, said = _VERDICTS[type(asked)], _words(asked)
            work.add(events.Ruled(work.time, verdict, visits, said, reason, work.actor))
        if getattr(asked, "standing", False):
            source = asked.sources[0] if asked.sources else None
            begins = isinstance(asked, Hold)
            labels = check_labels(asked.labels) or {}
            by = asked.reason, work.actor
            work.add(events.HoldChanged(work.time, begins, source, labels, *by))

    def _answer(self, experiment: ExperimentState, **shown: Any) -> RulingAnswer:
        selected, unknown, ruled = self._selected, self._selected.unknown, self._selected.ruled
        return RulingAnswer(
            head_text(experiment),
            visits=selected.visits,
            rewarded=selected.rewarded,
            changed=len(selected.changed),
            unknown=len(unknown),
            unknown_listed=unknown[: self._asked.listed],
            unchanged=len(ruled),
            unchanged_listed=ruled[: self._asked.listed],
            notes=_notes(self._asked, selected, experiment.settings.missing),
            replayed=self._contradicts,
            **shown,
        )


def _shown(
    reader: LogReader,
    changed: dict[int, Verdict],
    before: ExperimentState,
    opened: int,
    time: int,
) -> dict[str, Any] | None:
    """Return an experiment before and after a ruling; ``None`` if there was another one since."""
    end = before.head.sequence
    after = reader.replay(changed, end).experiment
    if reader.verdicts(after=end):
        return None
    return {
        "before": view_of(before, opened),
        "after": view_of(after),
        "history_before": history_of(before, time),
        "history_after": history_of(after, time),
    }


def _replayed(
    reader: LogReader, changed: dict[int, Verdict], end: int
) -> tuple[bytes, int, dict[int, bytes]]:
    """Return the state after a ruling, the snapshot that its replay began with, and later ones."""
    replayed = reader.replay(changed, end)
    reader.follow(replayed.experiment)
    return replayed.experiment.save(), replayed.base, replayed.snapshots


def _words(asked: Ruling) -> str:
    """Return how visits were selected, in a few words; of identifiers only how many there were."""
    lists = _lists(asked)
    said = [number_of(len(lists[what]), what[:-1]) for what in IDENTIFIERS[:3] if what in lists]
    if asked.sources is not None:
        shown = ", ".join(asked.sources[:3])
        said.append(f"source {shown}" + (" and others" if len(asked.sources) > 3 else ""))
    for name, value in (asked.labels or {}).items():
        said.append(f"{name}={value}" if isinstance(value, str) else f"{len(value)} of {name}")
    times = (("since", asked.since), ("until", asked.until))
    said += [] if asked.ruled is None else [f"ruling {asked.ruled}"]
    said += [f"{word} {_moment(time)}" for word, time in times if time is not None]
    return "; ".join(said)[:500]


def _moment(time: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):  # a year that the calendar does not have
        return str(time)


def _notes(asked: Ruling, selected: _Selected, missing: float | str) -> list[str]:
    """Return what to know about a ruling."""
    notes = []
    if isinstance(asked, Retract):
        stays = (
            "these decisions teach nothing now, as any decision without a reward"
            if missing == DROP
            else f"each of these visits now counts as one that earned {missing:g}, and visits of "
            "bots that sent no reward stay as they are"
        )
        notes.append(f"A retraction takes back rewards, not visits: {stays}. Void takes visits.")
    rewarded_alone = 0 < selected.visits == selected.rewarded
    if isinstance(asked, Void) and rewarded_alone and selected.known_by_reward:
        notes.append(
            "Every visit that is selected has a reward. If bots also came and sent none, their "
            "visits stay, and count against the arms that they saw: select by unit, or by a "
            "source or labels that are given with decide."
        )
    return notes


@in_background(Suspect)
def suspect(session: Session, asked: Suspect) -> RulingAnswer:
    """Hold the rewards of visits whose scores are above the threshold."""
    settings: Settings = session.call(asked.name, lambda work: work.experiment.settings)
    if settings.quarantine is None:
        raise InvalidParameter("scores need a quarantine, which is declared at creation.")
    found = {name: settings.suspicion_of(score) for name, score in asked.scores.items()}
    above = {name: share for name, share in found.items() if share > settings.quarantine}
    reasons = [f"suspicion {share:.2f}; {asked.reason}".rstrip("; ") for share in above.values()]
    names: Any = list(above)
    decisions, units = (names, None) if asked.by == "decision" else (None, names)
    hold = Hold(asked.name, decisions, units=units, reasons=reasons, early=True)
    answer: RulingAnswer = rule(session, hold)
    return answer


@in_background(ListQuarantine)
def list_quarantine(session: Session, asked: ListQuarantine) -> list[QuarantinedReward]:
    """Return the rewards that are held, in the order in which they came."""
    log = session.log_of(asked.name)
    experiment, end, left = session.call(
        log,
        lambda work: (
            work.settled(),
            work.flush().head(log).sequence,
            work.experiment.sources.quarantined(),
        ),
    )
    reader, settings = session.engine.reader(log), experiment.settings
    held: list[QuarantinedReward] = session.engine.work_out(
        end if left else 0, settings, _quarantined, reader, settings, end, left
    )
    return held


def _quarantined(
    reader: LogReader, settings: Settings, end: int, left: int
) -> list[QuarantinedReward]:
    """Return the ``left`` rewards that are held up to the record ``end``."""
    holds, scale, ruled = Holds(settings.quarantine), settings.scale(), reader.verdicts()
    parts = reader.parts(end=end)
    decided: dict[int, events.Decided] = {}
    held: dict[int, QuarantinedReward] = {}
    paid: dict[int, int] = {}
    # The state has counted them, so that no more of the log is read than is needed.
    while (len(held) < left or settings.accumulate) and (part := next(parts, None)) is not None:
        for record, event in events_of(part):
            if isinstance(event, events.Decided):
                decided[record.sequence] = event
            elif isinstance(event, events.HoldChanged):
                holds.take(event)
            elif isinstance(event, events.Rewarded):
                made, visit, steps = decided.pop(event.decision), event.decision, event.steps
                source, labels = _origin(made, event)
                is_held = holds.hold_back(source, labels, event.suspicion) or visit in held
                if event.part is not None:
                    decided[visit] = made if visit in paid else _with(made, source, labels)
                    steps = paid[visit] = min(paid.get(visit, 0) + steps, GRID)
                if ruled.get(visit, "hold" if is_held else "release") == "hold":
                    value, suspicion = scale.reward(steps), event.suspicion
                    held[visit] = QuarantinedReward(visit, event.time, value, source, suspicion)
    return list(held.values())
