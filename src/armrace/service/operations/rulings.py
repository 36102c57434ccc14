"""Rulings: visits and rewards that are taken back, held or released.

A ruling reads the log, in the background, for the visits that it is about. If something was
learned from them, the log is replayed without it from the latest snapshot that the ruling leaves
valid, also in the background while others are served. The engine then applies what has come
meanwhile, in one short transaction, and goes on with the experiment that was replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, NamedTuple

from armrace.errors import ArmraceError, InvalidParameter, Outdated
from armrace.limits import Limits, check_number
from armrace.service.loading import events_of
from armrace.service.log.store import Transaction
from armrace.service.model import events
from armrace.service.model.experiment import ExperimentState
from armrace.service.model.settings import DROP, check_label, check_labels, check_reason
from armrace.service.model.views import head_text, history_of, view_of
from armrace.service.model.visits import Holds
from armrace.service.work import Session, Work, in_background
from armrace_client.answers import QuarantinedReward, RulingAnswer, Verdict
from armrace_client.operations import Hold, ListQuarantine, Release, Retract, Ruling, Void

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


class _Begun(NamedTuple):
    """The state that a ruling has seen when it began."""

    before: ExperimentState
    """A copy to be shown."""
    live: ExperimentState
    opened: int
    seen: int
    """The last record whose visit may be selected: the end of the log, or of the preview's."""
    time: int
    hashed: Callable[[str], bytes | None]


class _Selection:
    """The visits of a log that a ruling is about."""

    def __init__(self, asked: Ruling, session: Session, log: int, begun: _Begun) -> None:
        def hashed(given: list[str] | None) -> dict[Any, str] | None:
            return None if given is None else {begun.hashed(each): each for each in given}

        self._asked = asked
        self._decisions: dict[Any, Any] | None = _decisions(asked, session, log)
        self._units, self._requests = hashed(asked.units), hashed(asked.requests)
        self._sources = None if asked.sources is None else set(asked.sources)
        self._labels = (asked.labels or {}).items()
        self._candidates: dict[int, events.Decided] = {}
        self._holds = Holds(begun.before.settings.quarantine)
        self.found: dict[int, _Found] = {}
        self.known_by_reward = self._decisions is not None
        """Whether visits that sent no reward may be missing: a list may hold those with a reward
        alone, and sources may have come with rewards."""
        self._seen: set[tuple[str, Any]] = set()

    def take(self, sequence: int, event: events.Event) -> None:
        """Look at the next event of the log."""
        if isinstance(event, events.Decided):
            if self._fits(sequence, event):
                if self._is_from({event.source}, event.labels):
                    self.found[sequence] = _Found(False)
                self._candidates[sequence] = event
        elif isinstance(event, events.Rewarded):
            decided = self._candidates.pop(event.decision, None)
            if decided is not None:
                source, labels = _origin(decided, event)
                known = event.decision in self.found
                if known or self._is_from({event.source, decided.source}, labels):
                    self.known_by_reward = self.known_by_reward or not known
                    held = self._holds.hold_back(source, labels, event.suspicion)
                    self.found[event.decision] = _Found(True, held)
        elif isinstance(event, events.HoldChanged):
            self._holds.take(event)

    def _fits(self, sequence: int, event: events.Decided) -> bool:
        since, until, fits = self._asked.since, self._asked.until, True
        for kind, wanted, given in (
            ("decision", self._decisions, sequence),
            ("unit", self._units, event.unit),
            ("request", self._requests, event.request),
        ):
            if wanted is not None:
                if given in wanted:
                    self._seen.add((kind, wanted[given]))
                else:
                    fits = False
        fits = fits and (since is None or event.time >= since)
        return fits and (until is None or event.time < until)

    def _is_from(self, sources: set[str | None], labels: Mapping[str, str] | None) -> bool:
        if self._sources is not None:
            named = sources & self._sources
            if not named:
                return False
            self._seen |= {("source", each) for each in named}
        return self._labels <= (labels or {}).items()

    def unknown(self) -> list[str | int]:
        """Return the identifiers that were given and that no visit has."""
        asked, decisions = self._asked, (self._decisions or {}).values()
        given = [("decision", each) for each in decisions]
        given += [("unit", each) for each in asked.units or ()]
        given += [("request", each) for each in asked.requests or ()]
        given += [("source", each) for each in asked.sources or ()]
        return [each for kind, each in given if (kind, each) not in self._seen]


def _origin(
    decided: events.Decided, rewarded: events.Rewarded
) -> tuple[str | None, dict[str, str]]:
    """Return the source and the labels of a reward, which its visit may have given."""
    labels = {**(decided.labels or {}), **(rewarded.labels or {})}
    return rewarded.source or decided.source, labels


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
    check_labels(asked.labels)
    for what in ("requests", "units", "sources"):
        for each in getattr(asked, what) or ():
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
    return found.rewarded


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
        self._selection = _Selection(asked, session, log, self._begun)
        for part in self._reader.parts(end=self._begun.seen):
            for record, event in events_of(part):
                self._selection.take(record.sequence, event)
        ruled, verdict = self._reader.verdicts(), _VERDICTS[type(asked)]
        self._changed = {
            each: verdict
            for each, found in self._selection.found.items()
            if _changes(verdict, found, ruled.get(each))
        }
        self._contradicts = self._begun.live.needs_replay(self._changed)

    def preview(self) -> RulingAnswer | None:
        """Show what a ruling would change; return ``None`` if another ruling came in between."""
        begun = self._begun
        after = self._reader.replay(self._changed, self._end).experiment
        if self._reader.verdicts(after=self._end):
            return None
        return self._answer(
            begun.before,
            before=view_of(begun.before, begun.opened),
            after=view_of(after),
            history_before=history_of(begun.before, begun.time),
            history_after=history_of(after, begun.time),
        )

    def conclude(self) -> RulingAnswer | None:
        """Add the event of a ruling; return ``None`` if another ruling came in between."""
        asked, log, changed = self._asked, self._log, self._changed
        replayed = self._reader.replay(changed, self._end) if self._contradicts else None

        def command(work: Work) -> RulingAnswer | None:
            experiment = work.settled()
            transaction = work.flush()
            if asked.head is not None:
                _seen(transaction, log, asked.head)
            if events.verdicts_in(transaction.find_many(log, (events.ACTIONS,), self._end)):
                return None
            if replayed is not None:
                # A copy, since the transaction may be given up and performed again.
                again = ExperimentState.load(replayed.experiment.save())
                again.preload(changed)
                records = list(transaction.read(log, again.head.sequence))
                ExperimentState.replay(events_of(records), again, changed)
                work.swap_in(again, replayed.snapshots, replayed.base)
            elif experiment.needs_replay(changed):  # windows have closed in between
                return None
            self._add_events(work)
            work.experiment.verdicts = {}
            return self._answer(work.experiment)

        answer: RulingAnswer | None = self._session.call(log, command)
        return answer

    def _add_events(self, work: Work) -> None:
        asked, by = self._asked, (self._asked.reason, work.actor)
        if self._changed:
            # The visits are known to the experiment in advance if it was replayed.
            verdict, visits = _VERDICTS[type(asked)], list(self._changed)
            work.add(events.Ruled(work.time, verdict, visits, _words(asked), *by))
        if getattr(asked, "standing", False):
            source = asked.sources[0] if asked.sources else None
            begins = isinstance(asked, Hold)
            work.add(events.HoldChanged(work.time, begins, source, asked.labels or {}, *by))

    def _answer(self, experiment: ExperimentState, **shown: Any) -> RulingAnswer:
        unknown, found = self._selection.unknown(), self._selection.found
        return RulingAnswer(
            head_text(experiment),
            visits=len(found),
            rewarded=sum(each.rewarded for each in found.values()),
            changed=len(self._changed),
            unknown=len(unknown),
            unknown_listed=unknown[:_LISTED],
            notes=_notes(self._asked, self._selection, experiment.settings.missing),
            replayed=self._contradicts,
            **shown,
        )


def _words(asked: Ruling) -> str:
    """Return how visits were selected, in a few words; of identifiers only how many there were."""
    identifiers = ("decisions", "requests", "units")
    given = [(what, getattr(asked, what)) for what in identifiers]
    said = [f"{len(each)} {what}" for what, each in given if each is not None]
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
    experiment, end, left = session.call(
        log,
        lambda work: (
            work.settled(),
            work.flush().head(log).sequence,
            work.experiment.sources.quarantined(),
        ),
    )
    reader, holds = session.engine.reader(log), Holds(experiment.settings.quarantine)
    ruled, parts = reader.verdicts(), reader.parts(end=end)
    decided: dict[int, events.Decided] = {}
    held: list[QuarantinedReward] = []
    # The state has counted them, so that no more of the log is read than is needed.
    while len(held) < left and (part := next(parts, None)) is not None:
        for record, event in events_of(part):
            if isinstance(event, events.Decided):
                decided[record.sequence] = event
            elif isinstance(event, events.HoldChanged):
                holds.take(event)
            elif isinstance(event, events.Rewarded):
                source, labels = _origin(decided.pop(event.decision), event)
                is_held = holds.hold_back(source, labels, event.suspicion)
                if ruled.get(event.decision, "hold" if is_held else "release") == "hold":
                    value, suspicion = experiment.scale.reward(event.steps), event.suspicion
                    held.append(
                        QuarantinedReward(event.decision, event.time, value, source, suspicion)
                    )
    return held
