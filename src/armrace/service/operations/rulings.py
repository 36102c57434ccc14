"""Rulings: visits and rewards that are taken back, held or released.

A ruling reads the log, in the background, for the visits that it is about. If something was
learned from them, the log is replayed without it from the latest snapshot that the ruling leaves
valid, also in the background while others are served. The engine then applies what has come
meanwhile, in one short transaction, and goes on with the experiment that was replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from armrace.errors import ArmraceError, InvalidParameter, Outdated
from armrace.limits import Limits, check_number
from armrace.service.loading import LogReader, Replayed, events_of
from armrace.service.log.store import Transaction
from armrace.service.model.events import (
    ACTIONS,
    Decided,
    Event,
    HoldChanged,
    Rewarded,
    Ruled,
    Verdicts,
    verdicts_in,
)
from armrace.service.model.experiment import Experiment
from armrace.service.model.holds import Holds
from armrace.service.model.settings import DROP, check_label, check_labels, check_reason
from armrace.service.model.views import head_text, history_of, view_of
from armrace.service.operations.handlers import Session, in_background
from armrace.service.work import Work
from armrace_client.answers import QuarantinedReward, RulingAnswer, Verdict
from armrace_client.operations import Hold, ListQuarantine, Release, Retract, Ruling, Void

__all__: list[str] = []

_TIME = Limits("milliseconds since 1970", -(2**63), 2**63 - 1)
_LISTED = 100
"""How many unknown identifiers an answer lists."""
_VERDICTS: dict[type[Ruling], Verdict] = {
    Retract: "retract",
    Void: "void",
    Hold: "hold",
    Release: "release",
}


class _Found(NamedTuple):
    """A visit that is selected."""

    rewarded: bool
    is_held: bool = False
    """Whether its reward was held when it came."""
    source: str | None = None
    """Where its reward, or else the visit, came from."""


class _Selection:
    """The visits of a log that a ruling is about.

    Args:
        asked: the ruling.
        session: knows the keys by which decisions and identifiers are read.
        log: the log.
        begun: the state that the ruling has seen.
    """

    def __init__(self, asked: Ruling, session: Session, log: int, begun: _Begun) -> None:
        self._asked = asked
        self._decisions: dict[Any, Any] | None = _decisions(asked, session, log)
        self._units = _hashed(asked.units, begun)
        self._requests = _hashed(asked.requests, begun)
        self._sources = None if asked.sources is None else set(asked.sources)
        self._labels = (asked.labels or {}).items()
        self._by_origin = self._sources is not None or bool(self._labels)
        self._candidates: dict[int, Decided] = {}
        self._holds = Holds(begun.before.settings.quarantine)
        self.found: dict[int, _Found] = {}
        self.known_by_reward = self._decisions is not None
        """Whether visits that sent no reward may be missing: a list may hold those with a reward
        alone, and sources may have come with rewards."""
        self._seen: set[Any] = set()

    def take(self, sequence: int, event: Event) -> None:
        """Look at the next event of the log."""
        if isinstance(event, Decided):
            if self._fits(sequence, event):
                if not self._by_origin or self._is_from(event.source, event.labels):
                    self.found[sequence] = _Found(False)
                self._candidates[sequence] = event
        elif isinstance(event, Rewarded):
            decided = self._candidates.pop(event.decision, None)
            if decided is not None:
                labels = {**(decided.labels or {}), **(event.labels or {})}
                source = event.source or decided.source
                origins = {event.source, decided.source}
                known = event.decision in self.found
                if known or self._is_from_any(origins, labels):
                    self.known_by_reward = self.known_by_reward or not known
                    held = self._holds.hold_back(source, labels, event.suspicion)
                    self.found[event.decision] = _Found(True, held, source)
        elif isinstance(event, HoldChanged):
            self._holds.take(event)

    def _fits(self, sequence: int, event: Decided) -> bool:
        asked, fits = self._asked, True
        for wanted, given in (
            (self._decisions, sequence),
            (self._units, event.unit),
            (self._requests, event.request),
        ):
            if wanted is not None:
                if given in wanted:
                    self._seen.add(wanted[given])
                else:
                    fits = False
        if asked.since is not None and event.time < asked.since:
            return False
        return fits and (asked.until is None or event.time < asked.until)

    def _is_from(self, source: str | None, labels: Mapping[str, str] | None) -> bool:
        return self._is_from_any({source}, labels)

    def _is_from_any(self, sources: set[str | None], labels: Mapping[str, str] | None) -> bool:
        if self._sources is not None:
            named = sources & self._sources
            if not named:
                return False
            self._seen |= named
        return self._labels <= (labels or {}).items()

    def unknown(self) -> list[str | int]:
        """Return the identifiers that were given and that no visit has."""
        asked = self._asked
        given = [
            *(self._decisions or {}).values(),
            *(asked.units or ()),
            *(asked.requests or ()),
            *(asked.sources or ()),
        ]
        return [each for each in given if each not in self._seen]


class _Begun(NamedTuple):
    """The state that a ruling has seen when it began."""

    before: Experiment
    """A copy to be shown."""
    live: Experiment
    opened: int
    end: int
    seen: int
    """The last record whose visit may be selected: the end of the log, or of the preview's."""
    head: str
    time: int
    hashed: Any


def _hashed(given: list[str] | None, begun: _Begun) -> dict[Any, str] | None:
    """Return identifiers by what the log holds of them."""
    return None if given is None else {begun.hashed(each): each for each in given}


def _decisions(asked: Ruling, session: Session, log: int) -> dict[int, str | int] | None:
    """Return the sequence numbers of the decisions that are given, with how they were given."""
    if asked.decisions is None:
        return None
    keys, tenant = session.engine.keyring.signing_keys(), session.principal.tenant
    found: dict[int, str | int] = {}
    for place, each in enumerate(asked.decisions):
        number = -1 - place  # of no visit, and different for each, so that it is counted as unknown
        if isinstance(each, int) and not isinstance(each, bool):
            number = each if 0 < each < 2**63 else number
        else:
            try:
                token = keys.read(tenant, each)
                number = token.sequence if token.log == log else number
            except ArmraceError:
                pass
        found[number] = each
    return found


def _check(asked: Ruling) -> None:
    """Refuse a ruling whose selection is empty or has invalid members."""
    check_reason(asked.reason)
    check_labels(asked.labels)
    for what, given in (
        ("requests", asked.requests),
        ("units", asked.units),
        ("sources", asked.sources),
    ):
        for each in given or ():
            check_label(what, each)
    for name, time in (("since", asked.since), ("until", asked.until)):
        if time is not None:
            check_number(name, time, _TIME, whole=True)
    # Without a name, labels would fit every visit.
    labels = asked.labels or None
    given_any = (asked.decisions, asked.requests, asked.units, asked.sources, labels)
    if all(each is None for each in (*given_any, asked.since, asked.until)):
        raise InvalidParameter(
            "a selection must give decisions, requests, units, sources, labels or a time."
        )
    if getattr(asked, "standing", False):
        others = (asked.decisions, asked.requests, asked.units, asked.since, asked.until)
        if any(each is not None for each in others) or len(asked.sources or ()) > 1:
            raise InvalidParameter("a standing hold takes one source, labels, or both.")


@in_background(Retract, Void, Hold, Release)
def rule(session: Session, asked: Ruling) -> RulingAnswer:
    """Make a ruling, or show what it would change."""
    _check(asked)
    log, verdict = session.log_of(asked.name), _VERDICTS[type(asked)]
    reader = session.engine.reader(log)
    with session.engine.ruling(log):
        while True:
            begun: _Begun = session.call(log, lambda work: _begin(work, asked))
            selection = _Selection(asked, session, log, begun)
            for part in reader.parts(end=begun.seen):
                for record, event in events_of(part):
                    selection.take(record.sequence, event)
            ruled = reader.verdicts()
            changed = {
                each: verdict
                for each, found in selection.found.items()
                if _changes(verdict, found, ruled.get(each))
            }
            if asked.preview:
                answer = _preview(reader, begun, asked, selection, changed)
            else:
                answer = _conclude(session, log, reader, begun, asked, selection, changed)
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
    return found.rewarded


def _begin(work: Work, asked: Ruling) -> _Begun:
    # Settled first: the ruling must find visits as they are looked at here.
    experiment = work.settled()
    transaction, end = work.flush(), experiment.head.sequence
    return _Begun(
        experiment.frozen(),
        experiment,
        len(experiment.open),
        end,
        end if asked.head is None else _seen(transaction, work.shard.log, asked.head),
        head_text(experiment),
        work.time,
        work.shard.hashed,
    )


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
    if any(transaction.find_many(log, (ACTIONS,), sequence)):
        raise Outdated("something was changed since the preview; look at a new one.")
    return sequence


def _conclude(
    session: Session,
    log: int,
    reader: LogReader,
    begun: _Begun,
    asked: Ruling,
    selection: _Selection,
    changed: Verdicts,
) -> RulingAnswer | None:
    """Add the event of a ruling; return ``None`` if another ruling came in between."""
    replayed: list[Replayed] = []
    if begun.live.needs_replay(changed):
        replayed.append(reader.replay(changed, begun.end))

    def command(work: Work) -> Any:
        experiment = work.settled()
        transaction = work.flush()
        if asked.head is not None:
            _seen(transaction, log, asked.head)
        if verdicts_in(transaction.find_many(log, (ACTIONS,), begun.end)):
            return None
        if not replayed and experiment.needs_replay(changed):  # windows have closed in between
            return None
        if replayed:
            again = replayed[0].experiment
            # A copy, since the transaction may be given up and performed again.
            again = Experiment.load(again.save())
            again.preload(changed)
            records = list(transaction.read(log, again.head.sequence))
            Experiment.replay(events_of(records), again, changed)
            work.go_on_with(again, replayed[0].snapshots, replayed[0].base)
        _add_events(work, asked, changed)
        work.experiment.verdicts = {}
        return RulingAnswer(
            head_text(work.experiment),
            replayed=bool(replayed),
            **_counts(asked, selection, changed, begun),
        )

    answer: RulingAnswer | None = session.call(log, command)
    return answer


def _add_events(work: Work, asked: Ruling, changed: Verdicts) -> None:
    if changed:
        verdict = _VERDICTS[type(asked)]
        # The visits are known to the experiment in advance if it was replayed.
        words = _words(asked)
        work.add(Ruled(work.time, verdict, list(changed), words, asked.reason, work.actor))
    if getattr(asked, "standing", False):
        source = asked.sources[0] if asked.sources else None
        begins = isinstance(asked, Hold)
        labels = asked.labels or {}
        work.add(HoldChanged(work.time, begins, source, labels, asked.reason, work.actor))


def _words(asked: Ruling) -> str:
    """Return how visits were selected, in a few words; of identifiers only how many there were."""
    said = [
        f"{len(given)} {what}"
        for what, given in (
            ("decisions", asked.decisions),
            ("requests", asked.requests),
            ("units", asked.units),
        )
        if given is not None
    ]
    if asked.sources is not None:
        shown = ", ".join(asked.sources[:3])
        said.append(f"source {shown}" + (" and others" if len(asked.sources) > 3 else ""))
    said += [f"{name}={value}" for name, value in (asked.labels or {}).items()]
    times = (("since", asked.since), ("until", asked.until))
    said += [f"{word} {_moment(time)}" for word, time in times if time is not None]
    return "; ".join(said)[:500]


def _moment(time: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time / 1000, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError):  # a year that the calendar does not have
        return str(time)


def _counts(
    asked: Ruling, selection: _Selection, changed: Verdicts, begun: _Begun
) -> dict[str, Any]:
    unknown, found = selection.unknown(), selection.found
    return {
        "visits": len(found),
        "rewarded": sum(each.rewarded for each in found.values()),
        "changed": len(changed),
        "unknown": len(unknown),
        "unknown_listed": unknown[:_LISTED],
        "notes": _notes(asked, selection, begun.before.settings.missing),
    }


def _preview(
    reader: LogReader, begun: _Begun, asked: Ruling, selection: _Selection, changed: Verdicts
) -> RulingAnswer | None:
    """Show what a ruling would change; return ``None`` if another ruling came in between."""
    again = begun.live.needs_replay(changed)
    after = reader.replay(changed, begun.end).experiment
    if reader.verdicts(after=begun.end):
        return None
    return RulingAnswer(
        begun.head,
        replayed=again,
        before=view_of(begun.before, begun.opened),
        after=view_of(after),
        history_before=history_of(begun.before, begun.time),
        history_after=history_of(after, begun.time),
        **_counts(asked, selection, changed, begun),
    )


def _notes(asked: Ruling, selection: _Selection, missing: float | str) -> list[str]:
    """Return what to know about a ruling."""
    found = selection.found.values()
    notes = []
    if isinstance(asked, Retract):
        stays = (
            "these decisions teach nothing now, as any decision without a reward"
            if missing == DROP
            else f"each of these visits now counts as one that earned {missing:g}, and visits of "
            "bots that sent no reward stay as they are"
        )
        notes.append(f"A retraction takes back rewards, not visits: {stays}. Void takes visits.")
    rewarded_alone = bool(found) and all(each.rewarded for each in found)
    if isinstance(asked, Void) and rewarded_alone and selection.known_by_reward:
        notes.append(
            "Every visit that is selected has a reward. If bots also came and sent none, their "
            "visits stay, and count against the arms that they saw: select by unit, or by a "
            "source or labels that are given with decide."
        )
    return notes


@in_background(ListQuarantine)
def list_quarantine(session: Session, asked: ListQuarantine) -> list[QuarantinedReward]:
    """Return the rewards that are held, in the order in which they came."""
    log = session.log_of(asked.name)
    everything = Hold(asked.name, since=0)
    begun, left = session.call(log, lambda work: (_begin(work, everything), _held(work)))
    reader = session.engine.reader(log)
    ruled, selection = reader.verdicts(), _Selection(everything, session, log, begun)
    held: list[QuarantinedReward] = []
    scale, parts = begun.before.scale, reader.parts(end=begun.end)
    # The state has counted them, so that no more of the log is read than is needed.
    while len(held) < left and (part := next(parts, None)) is not None:
        for record, event in events_of(part):
            selection.take(record.sequence, event)
            if isinstance(event, Rewarded):
                found = selection.found.get(event.decision)
                standing = ruled.get(event.decision)
                is_held = found is not None and found.is_held and standing is None
                if is_held or standing == "hold":
                    held.append(
                        QuarantinedReward(
                            event.decision,
                            event.time,
                            scale.reward(event.steps),
                            None if found is None else found.source,
                            event.suspicion,
                        )
                    )
    return held


def _held(work: Work) -> int:
    return work.experiment.sources.quarantined()
