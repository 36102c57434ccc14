"""Rulings about rewards: retraction, release, and the quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from armrace.errors import InvalidParameter
from armrace.limits import Limits, check_number
from armrace.service.answers import RulingAnswer
from armrace.service.aside import Later
from armrace.service.books import Books
from armrace.service.chain import Record
from armrace.service.events import RULINGS, Released, Retracted, Rewarded, decode
from armrace.service.experiment import Experiment, Rulings
from armrace.service.folding import Refolded, collect_rulings
from armrace.service.requests.courses import history_of
from armrace.service.settings import DROP, check_label, check_reason
from armrace.service.views import view_of

__all__ = ["Rule", "Selection"]


_TIME = Limits("milliseconds since 1970", -(2**63), 2**63 - 1)


class Selection(msgspec.Struct, frozen=True):
    """Which rewards a ruling is about: by decision, by source, by the time at which they came.

    A reward must fit everything that is given, and something must be given.
    """

    decisions: list[str | int] | None = None
    """Signed names of decisions, or sequence numbers as exports and the quarantine show them."""
    source: str | None = None
    since: int | None = None
    until: int | None = None
    """Times in milliseconds since 1970; ``since`` is included, ``until`` is not."""

    def check(self, books: Books, tenant: str) -> None:
        """Refuse a selection that is empty or has invalid members."""
        if self == Selection():
            raise InvalidParameter("a selection must give decisions, a source or a time.")
        if self.source is not None:
            check_label("source", self.source)
        for name, time in (("since", self.since), ("until", self.until)):
            if time is not None:
                check_number(name, time, _TIME, whole=True)
        for decision in self.decisions or ():
            _sequence(books, tenant, decision)

    def chosen(self, books: Books, tenant: str) -> set[int] | None:
        """Return the sequence numbers of the decisions that are given; ``None`` if none are."""
        if self.decisions is None:
            return None
        return {_sequence(books, tenant, each) for each in self.decisions} - {RULINGS}

    def find(
        self, records: Iterable[Record], number: int, chosen: set[int] | None
    ) -> Iterator[Rewarded]:
        """Yield the rewards that are selected.

        Args:
            records: among which to look.
            number: the number of the experiment.
            chosen: what :meth:`chosen` returned.
        """
        # Sought in the bytes first, which takes a tenth of the time of reading an event.
        sought = b"" if self.source is None else self.source.encode()
        for record in records:
            # Rewards alone: other events have no subject, and that of rulings is 0.
            if record.subject and sought in record.payload:
                event = decode(record.payload)
                assert isinstance(event, Rewarded)
                wanted = chosen is None or event.decision in chosen
                if wanted and event.experiment == number and self._fits(event):
                    yield event

    def _fits(self, event: Rewarded) -> bool:
        return (
            (self.source is None or event.source == self.source)
            and (self.since is None or event.time >= self.since)
            and (self.until is None or event.time < self.until)
        )


def _sequence(books: Books, tenant: str, decision: str | int) -> int:
    if isinstance(decision, int) and not isinstance(decision, bool):
        # -1 is the number of no decision; databases have 64 bits for it.
        return decision if abs(decision) < 2**63 else -1
    return books.keys.read(tenant, decision).sequence


class Rule(msgspec.Struct, frozen=True):
    """Retract rewards, or release them.

    A retracted reward is treated as if it had never come. A released reward counts, whether it was
    in quarantine or retracted before.
    """

    tenant: str
    name: str
    selection: Selection
    counts: bool
    reason: str = ""
    preview: bool = False

    def check(self, books: Books) -> None:
        """Refuse an invalid ruling before rewards are searched."""
        check_reason(self.reason)
        self.selection.check(books, self.tenant)

    def perform(self, books: Books) -> RulingAnswer | Later[RulingAnswer]:
        """Check everything, then add events; return the answer."""
        self.check(books)
        # Settled first: the event of this ruling must find decisions as they are looked at here.
        experiment = books.settled(self.tenant, self.name)
        changed = self._changed(books, experiment)
        rulings = dict.fromkeys(changed, self.counts)
        return self.conclude(
            books, experiment, changed, lambda: books.refolded(experiment, rulings)
        )

    def conclude(
        self,
        books: Books,
        experiment: Experiment,
        changed: list[int],
        refold: Callable[[], Refolded],
    ) -> RulingAnswer | Later[RulingAnswer]:
        """Add the event of this ruling; return the answer.

        Args:
            books: the state during the turn.
            experiment: the experiment, settled.
            changed: the decisions whose rewards count from now on, or do not.
            refold: returns the experiment as if the ruling had been known from the beginning.
        """
        again = experiment.overrules(changed, self.counts)
        leaves = "" if self.counts else _what_stays(experiment.settings.missing)
        if self.preview:
            after, before, time = refold().experiment, experiment.still(), books.time
            opened = len(experiment.open)
            return Later(
                lambda: RulingAnswer(
                    len(changed),
                    again,
                    view_of(before, opened),
                    view_of(after),
                    history_of(before, time),
                    history_of(after, time),
                    leaves,
                )
            )
        if again:
            # Before the event is added: the replacement is folded from the log, which does not have
            # it yet.
            books.go_on_with(refold())
        if changed:
            kind = Released if self.counts else Retracted
            books.add(kind(books.time, experiment.number, changed, self.reason))
        return RulingAnswer(len(changed), again, leaves=leaves)

    def _changed(self, books: Books, experiment: Experiment) -> list[int]:
        turn = books.flush()
        ruled = collect_rulings(turn).get(experiment.number, {})
        chosen = self.selection.chosen(books, self.tenant)
        records: Iterable[Record] = turn.read()
        if chosen is not None:
            records = turn.find_many(chosen)
        found = self.selection.find(records, experiment.number, chosen)
        return [event.decision for event in found if self.changes(experiment, event, ruled)]

    def changes(self, experiment: Experiment, event: Rewarded, ruled: Rulings) -> bool:
        """Whether the ruling changes whether a reward counts."""
        return self.counts != ruled.get(
            event.decision, not experiment.is_suspicious(event.suspicion)
        )


def _what_stays(missing: float | str) -> str:
    """Return what a retraction leaves behind, given what a reward counts as that never came."""
    if missing == DROP:
        return (
            "A retraction takes back rewards, not visits: these decisions teach nothing now, as "
            "any decision without a reward."
        )
    return (
        f"A retraction takes back rewards, not visits: each of these decisions now counts as a "
        f"visit that earned {missing:g}, and visits of bots that sent no reward stay as they are."
    )
