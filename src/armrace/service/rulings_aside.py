"""Rulings about long logs, made beside the turns that serve others.

The log is searched for the first rewards that a ruling is about. From the last snapshot before them
on the experiment is folded again, and further rewards are found on the way: when a reward comes,
its decision is open, so that it is early enough to know the ruling then. This is done on records
that are read in short turns, while others append to the log. The last turn does the same for what
has been appended meanwhile, and replaces the experiment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

import msgspec

from armrace.service.answers import RulingAnswer
from armrace.service.aside import Later
from armrace.service.books import Books
from armrace.service.chain import Record
from armrace.service.experiment import Experiment, Rulings
from armrace.service.folding import Refolded, Refolding, collect_rulings
from armrace.service.ledger import Ledger
from armrace.service.log_parts import PART, ReadPart, read_log
from armrace.service.requests.rulings import Rule

__all__ = ["make_ruling"]

_sequence = attrgetter("sequence")
_PARTS = 5


def make_ruling(ledger: Ledger, rule: Rule) -> RulingAnswer:
    """Retract or release rewards, and let others be served meanwhile.

    Args:
        ledger: performs the parts.
        rule: which rewards, and whether they count.

    Returns:
        How many rewards it concerns.
    """
    if ledger.sequence <= PART:  # the whole log is read in one short turn
        return ledger.ask(rule)
    work = ledger.ask(_Begin(rule))
    parts = read_log(ledger, work.began)
    while (refolding := ledger.ask(_Prepare(work))) is None and work.scanned < work.began:
        work.scan(next(parts))
    work.refolding = refolding
    if work.refolding is not None:
        while work.refolding.head.sequence + PART < ledger.sequence:
            records = _read_parts(ledger, work.refolding.head.sequence)
            with ledger.stopped_by_damage():
                work.follow(work.refolding, records)
    return ledger.ask(_Conclude(work))


def _read_parts(ledger: Ledger, after: int) -> list[Record]:
    """Read as many records as are folded at once, in several turns."""
    found: list[Record] = []
    for _ in range(_PARTS):
        part = ledger.ask(ReadPart(found[-1].sequence if found else after))
        found += part
        if len(part) < PART:
            break
    return found


class _Work:
    """A ruling that is being made."""

    def __init__(self, rule: Rule, books: Books) -> None:
        rule.check(books)
        self.rule = rule
        self.experiment: Experiment = books.experiment(rule.tenant, rule.name)
        turn = books.flush()
        self.began = turn.head.sequence
        self.changed: dict[int, bool] = {}
        """The rewards that it is about, by decision, as far as they were found."""
        self.scanned = 0
        """The last record that was searched."""
        self.refolding: Refolding | None = None
        self.is_used = False
        """Whether a turn has folded its own records into it, which were not kept if it is taken
        again."""
        self._ruled: Rulings = collect_rulings(turn).get(self.experiment.number, {})
        self._chosen = rule.selection.chosen(books, rule.tenant)
        if self._chosen is not None:
            self._add([*turn.find_many(self._chosen)])
            self.scanned = self.began

    def _add(self, records: Sequence[Record]) -> None:
        rule, experiment = self.rule, self.experiment
        for event in rule.selection.find(records, experiment.number, self._chosen):
            if rule.changes(experiment, event, self._ruled):
                self.changed[event.decision] = rule.counts

    def scan(self, records: Sequence[Record]) -> None:
        """Look for rewards among records that may have been searched in part."""
        searched = bisect_right(records, self.scanned, key=_sequence)
        if new := records[searched:]:
            self._add(new)
            self.scanned = new[-1].sequence

    def follow(self, refolding: Refolding, records: list[Record]) -> None:
        """Fold records, with rulings about rewards that came while the ruling was being made."""
        known = len(self.changed)
        self.scan(records)
        if len(self.changed) > known:
            refolding.foresee(self.changed)
        refolding.apply(records)


class _Begin(msgspec.Struct, frozen=True):
    """Check a ruling, and begin it."""

    rule: Rule

    def perform(self, books: Books) -> _Work:
        return _Work(self.rule, books)


class _Prepare(msgspec.Struct, frozen=True):
    """Begin to fold an experiment again, if rewards were found that make it necessary."""

    work: _Work

    def perform(self, books: Books) -> Refolding | None:
        rule, changed = self.work.rule, self.work.changed
        experiment = books.experiment(rule.tenant, rule.name)
        shown = rule.preview and self.work.scanned >= self.work.began
        if not (shown or experiment.overrules(changed, rule.counts)):
            return None
        # Rewards that were not found yet come later, so that they leave earlier snapshots valid.
        return Refolding(books.flush(), experiment.number, changed, self.work.scanned)


class _Conclude(msgspec.Struct, frozen=True):
    """Do the rest: what has come meanwhile is searched and folded, and the event is added."""

    work: _Work

    def perform(self, books: Books) -> RulingAnswer | Later[RulingAnswer]:
        work, rule = self.work, self.work.rule
        experiment = books.settled(rule.tenant, rule.name)
        turn = books.flush()
        ruled = collect_rulings(turn, after=work.began).get(experiment.number)
        if ruled or work.is_used:  # another ruling came in between, or the turn was broken off
            return rule.perform(books)  # which takes longer, and is rare
        work.is_used = True
        work.scan(list(turn.read(after=work.scanned)))
        changed = list(work.changed)

        def refold() -> Refolded:
            if work.refolding is None:  # windows have closed in between
                return books.refolded(experiment, work.changed)
            work.refolding.foresee(work.changed)
            return work.refolding.finish(turn)

        return rule.conclude(books, experiment, changed, refold)
